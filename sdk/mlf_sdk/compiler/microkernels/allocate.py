# SPDX-License-Identifier: Apache-2.0
"""Registers for recorded operations, by linear scan, after rewrites that keep their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from mlf_sdk.compiler.microkernels.builder import BRANCHES, MARKS, SKIPS, Builder, Operation, Register
from mlf_sdk.compiler.microkernels.instruction_set import InstructionSet
from mlf_sdk.compiler.microkernels.spill import flow_of, spilled

_LONG = 40  # operations over which a long-lived register is live
_LOADS = ("argument", "load", "load_back", "reload", "reload_two", "reload_many")


class Allocation(msgspec.Struct, frozen=True):
    """Operations with a register of the instruction set for each virtual one.

    Attributes:
        slots: words on the stack.
    """

    operations: list[Operation]
    places: dict[Register, int]
    slots: int


def allocated(builder: Builder, target: InstructionSet) -> Allocation:
    """Give every value a register or a word on the stack.

    Raises:
        ValueError: an operation needs more registers than there are.
    """
    recorded = [o for o in builder.operations if o.name not in MARKS or o.name == "note"]
    count = target.registers.arguments
    first, others = builder.parameters[:count], builder.parameters[count:]
    entry = [Operation("enter", first), *(Operation("argument", (r,), i=k) for k, r in enumerate(others))]
    prepared = [*entry, *grouped(without_copies(recorded))]
    merge = "spill_two" in target.memory
    operations, slots = spilled(prepared, len(target.registers.all), merge=merge)
    ranges = flow_of(operations).ranges
    places = _scan(operations, ranges, target)
    kept = [
        o
        for o in operations[1:]
        if not (
            o.name == "copy"
            and o.results[0].kind.file == o.operands[0].kind.file
            and places[o.results[0]] == places[o.operands[0]]
        )
    ]
    reads = "{a}" in "".join(target.flow.get("count_down", ()))  # the register, and no flags
    return Allocation(counted_first(kept) if reads else kept, places, slots)


def counted_first(operations: Sequence[Operation]) -> list[Operation]:
    """Move the count of a loop to its top, where nothing else in the loop uses the register.

    It is a short instruction: a long one there, across two words, takes some cores a fetch more each turn.
    """
    result = list(operations)
    tops: dict[int, int] = {}
    for at, o in enumerate(result):
        if o.name == "label":
            tops[o.i] = at + 1
        elif o.name == "count_down" and result[at - 1].name == "count":
            top, count = tops[o.i], result[at - 1]
            if all(o.operands[0] not in (*x.operands, *x.results) for x in result[top : at - 1]):
                result[top:at] = [count, *result[top : at - 1]]
    return result


def _scan(
    operations: Sequence[Operation], ranges: dict[Register, tuple[int, int]], target: InstructionSet
) -> dict[Register, int]:
    """Linear scan: short-lived values take registers with short encodings, long-lived ones the others."""
    long = {r for r, (first, last) in ranges.items() if last - first > _LONG}
    groups = {r: o.operands[:-1] for o in operations if o.name == "store_many" for r in o.operands[:-1]}
    bound = [(q.kind.group, start) for q, (start, _) in ranges.items() if q.kind.group]
    held: dict[Register, int] = {}  # of values that are stored together, until they are computed
    places = {r: k for k, r in enumerate(operations[0].results)}
    active = set(places)
    for at, o in enumerate(operations[1:], 1):
        active = {r for r in active if ranges[r][1] > at}
        fresh = _bound(o, active, places, target)
        if not fresh:
            active |= {r for r in o.results if ranges[r][1] > at}
            continue
        taken = {places[r] for r in active if not r.kind.file} | {*held.values()}
        free = [n for n in range(len(target.registers.all)) if n not in taken]
        avoided = {n for r in fresh for n in _avoided(ranges[r], bound, target)}
        claimed = {n for r in fresh for n in _avoided(ranges[r], bound, target, whole=True)}
        for claims in (avoided, claimed):
            unclaimed = [n for n in free if n not in claims]
            if len(unclaimed) >= len(fresh):
                free = unclaimed
                break
        active |= set(fresh)
        if fresh[0] in groups and fresh[0] not in held:
            held |= dict(zip(groups[fresh[0]], free, strict=False))
        if fresh[0] in held:
            places |= {r: held.pop(r) for r in fresh}
            continue
        if o.name in _LOADS:  # any set will do: its order is that of the registers
            places.update(zip(fresh, free, strict=False))
            continue
        for r in fresh:
            ends = [places[q] for q in o.operands if ranges[q][1] == at and not q.kind.file]
            ends = [n for n in ends if n not in avoided]
            places[r] = _choice(o, ends, free, target.registers.short, is_long=r in long)
    return places


def _bound(
    o: Operation, active: set[Register], places: dict[Register, int], target: InstructionSet
) -> list[Register]:
    """Give the new results that may not be in any general register the first free one; the other results."""
    others = []
    for r in (r for r in o.results if r not in places):
        if not (r.kind.file or r.kind.group):
            others.append(r)
            continue
        taken = {places[other] for other in active if other.kind.file == r.kind.file}
        numbers = (
            target.registers.numbers(r.kind.group) if r.kind.group else range(len(target.names(r.kind.file)))
        )
        free = sorted({*numbers} - taken)
        if not free:
            raise ValueError(f"{o.name} needs more {r.kind.group or r.kind.file} registers than there are")
        places[r] = free[0]
        active.add(r)
    return others


def _avoided(
    live: tuple[int, int], bound: list[tuple[str, int]], target: InstructionSet, *, whole: bool = False
) -> set[int]:
    """Registers that others, which may not be in any, will ask for while a value is live.

    Args:
        bound: groups of these others, and where they are written first.
        whole: only those of groups that others ask for as often as there are registers.
    """
    asked = Counter(group for group, start in bound if live[0] <= start < live[1])
    sizes = {group: len(target.registers.groups[group]) for group in asked}
    groups = [group for group, times in asked.items() if not whole or times >= sizes[group]]
    return {n for group in groups for n in target.registers.numbers(group)}


def _choice(o: Operation, ends: list[int], free: list[int], short: int, *, is_long: bool) -> int:
    """Register of a result: the one of an operand that ends here, or a high one for what lives long."""
    high = [n for n in free if n >= short and n not in ends]
    if high and (is_long or not ends) and (o.name != "copy" or not ends):
        return high[-1]
    if ends:
        return ends[-1] if is_long else min(ends)
    return free[-1]


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
