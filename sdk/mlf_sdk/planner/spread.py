# SPDX-License-Identifier: Apache-2.0
"""A model's memory over several memories: each buffer and constant lies where its traffic costs least.

Offsets stay in one numbering: the arena of a memory begins in it where the one before ends, and so do the
parameters. `Part` says which range lies where.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Never

import msgspec

from mlf_sdk.errors import DoesNotFitError
from mlf_sdk.ir.model import Model
from mlf_sdk.planner.assign import Assignment, assign, total_cost
from mlf_sdk.planner.contents import check_names, items_of, things_of
from mlf_sdk.planner.layout import Bank, ModelLayout, Part, align_up, in_a_row, lay_out, plan_problem
from mlf_sdk.planner.memories import Pins
from mlf_sdk.planner.place import place
from mlf_sdk.planner.plan import check_plan, plan_of
from mlf_sdk.planner.problem import Overlay
from mlf_sdk.planner.storage import Buffer, StorageGraph, build_graph, lifetimes, lower_bound, overlays


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Result of placing a model in several memories.

    Attributes:
        layout: with its parts.
        cycles: for the words of one inference, as placed.
        slow_cycles: with everything in the slowest memory that may hold it, whatever its size.
    """

    layout: ModelLayout
    cycles: float
    slow_cycles: float


def place_model(model: Model, banks: Sequence[Bank], pins: Pins, *, keep_inputs: bool = False) -> Placement:
    """Plan the memory of ``model`` in several memories.

    Args:
        banks: in the order of preference where costs are equal.
        pins: checked by `mlf_sdk.planner.memories.check_pins`.

    Raises:
        DoesNotFitError: by how many bytes, or which buffer is larger than every memory.
        InputError: a name that is pinned is not in the model.
        NotPossibleError: as of `mlf_sdk.planner.layout.lay_out`.
    """
    placer = _Placer(lay_out(model, keep_inputs=keep_inputs), banks, pins)
    best = placer.best()
    layout = placer.layout(best)
    check_plan(placer.graph.problem, layout.plan)
    slow = sum(max((c for c in item.costs if c < math.inf), default=0.0) for item in placer.items)
    return Placement(layout=layout, cycles=total_cost(placer.items, best), slow_cycles=slow)


class _Placer:
    """The items of one model, and their offsets in each memory of an assignment."""

    def __init__(self, base: ModelLayout, banks: Sequence[Bank], pins: Pins) -> None:
        self.base = base
        self.banks = banks
        problem = plan_problem(base.model, keep_inputs=base.inputs_kept)
        self.graph: StorageGraph = build_graph(problem)
        self.buffers = lifetimes(self.graph, base.plan.order)
        self.over = overlays(self.graph, base.plan.order)
        self.things = things_of(base, self.buffers)
        check_names(base.model, pins, self.things)
        places = {buffer.key: buffer.offset for buffer in base.plan.buffers}
        whole = [places[buffer.key] for buffer in self.buffers]
        self._arenas: dict[tuple[int, ...], tuple[list[int], int, int]] = {
            tuple(range(len(whole))): (whole, base.plan.arena_bytes, base.plan.lower_bound_bytes),
            (): ([], 0, 0),
        }
        self.items = items_of(self.things, self.buffers, self.over, banks, pins, base.alignment)

    def best(self) -> Assignment:
        """The cheapest assignment that is known to fit."""
        self._check_sizes()
        best = assign(self.items, [bank.room_bytes for bank in self.banks], self.fits)
        for one in self._plain():
            if best is None or total_cost(self.items, one) < total_cost(self.items, best):
                best = one if self.fits(one) else best
        if best is None:
            self._refuse()
        return best

    def fits(self, assignment: Sequence[int]) -> bool:
        """Return whether arenas and all else of each memory are within it.

        The first flash also holds a copy of the weights in RAM, which start-up reads.
        """
        plain = [
            (thing.kind == "weights" and self.banks[m].is_ram, item.size_bytes, m)
            for thing, item, m in zip(self.things, self.items, assignment, strict=True)
            if thing.key is None
        ]
        flash = next((m for m, bank in enumerate(self.banks) if not bank.is_ram), None)
        copied = sum(size for is_copied, size, _ in plain if is_copied)
        for number, bank in enumerate(self.banks):
            fixed = sum(size for _, size, m in plain if m == number)
            if number == flash and fixed + copied > bank.room_bytes + bank.code_bytes:
                return False
            if fixed + self._packed(assignment, number)[1] > bank.room_bytes:
                return False
        return True

    def _inside(self, assignment: Sequence[int], memory: int) -> list[int]:
        """Numbers of the buffers in a memory."""
        return [i for i, m in enumerate(assignment[: len(self.buffers)]) if m == memory]

    def _packed(self, assignment: Sequence[int], memory: int) -> tuple[list[int], int, int]:
        inside = tuple(self._inside(assignment, memory))
        if inside not in self._arenas:
            self._arenas[inside] = _pack([self.buffers[i] for i in inside], self.over, self.base.alignment)
        return self._arenas[inside]

    def _plain(self) -> list[Assignment]:
        """Assignments with all buffers in one memory and all constants in one."""
        result = []
        for pair in itertools.product(range(len(self.banks)), repeat=2):
            one = [pair[thing.kind == "weights"] for thing in self.things]
            if all(item.costs[m] < math.inf for item, m in zip(self.items, one, strict=True)):
                result.append(one)
        return result

    def _check_sizes(self) -> None:
        """Refuse what is larger than every memory that it may lie in."""
        for thing, item in zip(self.things, self.items, strict=True):
            memories = [self.banks[m] for m in item.by_cost()]
            most = max((bank.room_bytes for bank in memories), default=0)
            if item.size_bytes > most:
                listed = ", ".join(f"{b.name} {b.room_bytes:,}" for b in memories) or "none"
                raise DoesNotFitError(
                    f"'{thing.names[0]}' takes {item.size_bytes:,} bytes, {item.size_bytes - most:,} more "
                    f"than any memory has for it ({listed})",
                    where=f"model {self.base.model.name}",
                    hint="What would help: rows (--for ram), another --place, or a board with more memory.",
                )

    def _refuse(self) -> Never:
        rooms = {m: bank.room_bytes for m, bank in enumerate(self.banks) if bank.is_ram}
        pinned = any(len(i.by_cost()) == 1 for i in self.items)
        need = self.base.plan.lower_bound_bytes + self.base.state_bytes
        listed = ", ".join(f"{self.banks[m].name} {room:,}" for m, room in rooms.items())
        total = sum(rooms.values())
        flash = sum(bank.room_bytes + bank.code_bytes for bank in self.banks if not bank.is_ram)
        short = f"{need - total:,} bytes too few" if need > total else "but no way to divide it was seen"
        more = self.base.params_bytes - flash
        if more > 0:
            short = (
                f"its parameters take {self.base.params_bytes:,} bytes of flash, {more:,} more than there are"
            )
        helps = [
            *(["rows (--for ram)"] if more <= 0 else []),
            *(["fewer memories in --place"] if pinned else []),
            "a board with more memory",
        ]
        raise DoesNotFitError(
            f"it does not fit: it needs {need:,} bytes of RAM at one time; there are {total:,} ({listed}): "
            f"{short}",
            where=f"model {self.base.model.name}",
            hint=f"What would help: {', or '.join(helps)}.",
        )

    def layout(self, assignment: Sequence[int]) -> ModelLayout:
        """The layout of an assignment: an arena for each memory with buffers, a run of constants likewise."""
        offsets = [0] * len(self.buffers)
        arenas: list[Part] = []
        first = 0
        for number, bank in enumerate(self.banks):
            inside = self._inside(assignment, number)
            places, end, bound = self._packed(assignment, number)
            for buffer, offset in zip(inside, places, strict=True):
                offsets[buffer] = first + offset
            if end:
                arenas.append(Part(bank=bank, first=first, size_bytes=end, lower_bound_bytes=bound))
                first += align_up(end, self.base.alignment)
        if not arenas:
            arenas.append(Part(bank=next(bank for bank in self.banks if bank.is_ram), first=0, size_bytes=0))
        constants, params = self._constants(assignment)
        plan = plan_of(
            self.graph, self.base.plan.order, self.buffers, offsets, arenas[-1].first + arenas[-1].size_bytes
        )
        held = [self.banks[m] for t, m in zip(self.things, assignment, strict=True) if t.kind == "state"]
        return msgspec.structs.replace(
            self.base,
            plan=dataclasses.replace(plan, lower_bound_bytes=_bound(arenas)),
            arenas=tuple(arenas),
            constant_offsets=constants,
            params_bytes=params[-1].first + params[-1].size_bytes if params else 0,
            params=tuple(params),
            state_bank=held[0] if held else None,
        )

    def _constants(self, assignment: Sequence[int]) -> tuple[dict[int, int], list[Part]]:
        """Offsets of the constants, and the range of them in each memory."""
        offsets: dict[int, int] = {}
        parts: list[Part] = []
        first = 0
        tensors = self.base.model.tensors
        for number, bank in enumerate(self.banks):
            inside = [
                tensors[thing.constant]
                for thing, m in zip(self.things, assignment, strict=True)
                if thing.constant >= 0 and m == number
            ]
            own, end = in_a_row(inside, self.base.alignment)
            offsets.update({tensor: first + offset for tensor, offset in own.items()})
            if end:
                parts.append(Part(bank=bank, first=first, size_bytes=end))
                first += align_up(end, self.base.alignment)
        return offsets, parts


def _bound(arenas: Sequence[Part]) -> int:
    """Least end of the last arena: the others are where they are because of what lies before them."""
    last = arenas[-1]
    before = sum(part.size_bytes - part.lower_bound_bytes for part in arenas[:-1])
    return max(0, last.first + last.lower_bound_bytes - before)


def _pack(buffers: Sequence[Buffer], over: Sequence[Overlay], alignment: int) -> tuple[list[int], int, int]:
    """Offsets of buffers in one arena, its end, and its lower bound."""
    keys = {buffer.key for buffer in buffers}
    inside = [o for o in over if o.input in keys and o.output in keys]
    bound, _ = lower_bound(buffers, alignment, inside)
    offsets, end = place(buffers, alignment, bound, inside)
    return offsets, end, bound
