# SPDX-License-Identifier: Apache-2.0
"""Rewrites of recorded operations before they get registers; their order stays as it was written."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mlf_sdk.compiler.microkernels.builder import Operation

_WALLS = ("label", "again")


def without_copies(operations: Sequence[Operation]) -> list[Operation]:
    """Leave out copies to a register that the next operation on it adds to: that one reads the source."""
    found = list(operations)
    gone = set()
    for at, copy in enumerate(found):
        if copy.name != "copy":
            continue
        (target,), (source,) = copy.results, copy.operands
        for k in range(at + 1, len(found)):
            o = found[k]
            if target in o.operands and target in o.results and source not in o.results:
                found[k] = replace(o, operands=tuple(source if r is target else r for r in o.operands))
                gone.add(at)
            if target in o.operands or target in o.results or source in o.results or o.name in _WALLS:
                break
    return [o for k, o in enumerate(found) if k not in gone]


def grouped(operations: Sequence[Operation]) -> list[Operation]:
    """Merge loads of one stream side by side, and an advance of a pointer into the stores before it."""
    found: list[Operation] = []
    last = -1  # place of a load that the next one may join
    for o in operations:
        if o.name == "load":
            if last >= 0 and found[last].operands == o.operands:
                found[last] = replace(found[last], results=found[last].results + o.results)
                continue
            last = len(found)
        elif o.name != "note":
            last = -1
            if o.name == "advance" and _merged_in_stores(found, o):
                continue
        found.append(o)
    return found


def _merged_in_stores(found: list[Operation], advance: Operation) -> bool:
    """Move the pointer with the first of the stores at its places, if that one is at offset 0."""
    first = len(found)
    while (
        first
        and found[first - 1].name == "store_byte"
        and found[first - 1].operands[1] is advance.operands[0]
    ):
        first -= 1
    if first == len(found) or found[first].i:
        return False
    found[first] = replace(found[first], name="store_byte_next", results=advance.results, i=advance.i)
    found[first + 1 :] = [replace(o, i=o.i - advance.i) for o in found[first + 1 :]]
    return True
