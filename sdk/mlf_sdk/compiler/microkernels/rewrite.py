# SPDX-License-Identifier: Apache-2.0
"""Rewrites of recorded operations before they get registers; their order stays as it was written."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mlf_sdk.compiler.microkernels.builder import BRANCHES, SKIPS, Operation

_WALLS = BRANCHES | SKIPS | {"label"}


def without_copies(operations: Sequence[Operation]) -> list[Operation]:
    """Leave out copies to a register that the next operation on it adds to: that one reads the source."""
    result = list(operations)
    gone = set()
    for at, copy in enumerate(result):
        if copy.name != "copy":
            continue
        (target,), (source,) = copy.results, copy.operands
        for k in range(at + 1, len(result)):
            o = result[k]
            if target in o.operands and target in o.results and source not in o.results:
                result[k] = replace(o, operands=tuple(source if r is target else r for r in o.operands))
                gone.add(at)
            if target in o.operands or target in o.results or source in o.results or o.name in _WALLS:
                break
    return [o for k, o in enumerate(result) if k not in gone]


def grouped(operations: Sequence[Operation]) -> list[Operation]:
    """Merge loads of one stream side by side, and an advance of a pointer into the stores before it."""
    result: list[Operation] = []
    last = -1  # place of a load that the next one may join
    for o in operations:
        if o.name == "load":
            if last >= 0 and result[last].operands == o.operands and not o.i and not result[last].i:
                result[last] = replace(result[last], results=result[last].results + o.results)
                continue
            last = len(result)
        elif o.name != "note":
            last = -1
            if o.name == "advance" and _merged_in_stores(result, o):
                continue
        result.append(o)
    return result


def _merged_in_stores(operations: list[Operation], advance: Operation) -> bool:
    """Move the pointer with the first of the stores at its places, if that one is at offset 0."""
    pointer, stores = advance.operands[0], list[int]()
    for at in range(len(operations) - 1, -1, -1):
        o = operations[at]
        if o.name == "store_byte" and o.operands[1] is pointer:
            stores.append(at)
        elif o.name in _WALLS or pointer in o.operands or pointer in o.results:
            break
    if not stores or operations[stores[-1]].i:
        return False
    for at in stores[:-1]:
        operations[at] = replace(operations[at], i=operations[at].i - advance.i)
    first = stores[-1]
    operations[first] = replace(
        operations[first], name="store_byte_next", results=advance.results, i=advance.i
    )
    return True
