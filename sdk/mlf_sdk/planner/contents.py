# SPDX-License-Identifier: Apache-2.0
"""Contents of a model's memories: buffers, constants and the state, with what each costs in each memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.ir.model import Model
from mlf_sdk.planner.assign import Item
from mlf_sdk.planner.layout import Bank, ModelLayout, align_up
from mlf_sdk.planner.memories import Pins
from mlf_sdk.planner.problem import Overlay
from mlf_sdk.planner.storage import Buffer
from mlf_sdk.planner.traffic import Key, Traffic, traffic_of
from mlf_sdk.tools.checks import name_hint

_STATE: Final = "the state"


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a model that lies in one memory: a buffer of the plan, a constant, or all states together.

    Attributes:
        names: by which the user can pin it.
        key: of a buffer; None: it has its bytes for itself, over all of the run.
        constant: id of a constant; -1: none.
    """

    names: tuple[str, ...]
    kind: str
    size_bytes: int
    traffic: Traffic
    key: Key | None = None
    constant: int = -1


def things_of(base: ModelLayout, buffers: Sequence[Buffer]) -> list[Thing]:
    """Buffers in the order of the plan's lifetimes, then constants, then the state."""
    model = base.model
    traffic = traffic_of(model)
    things = []
    for buffer in buffers:
        if isinstance(buffer.key, tuple):
            names: tuple[str, ...] = (model.steps[buffer.key[0]].name,)
        else:
            group = [t.name for t in model.tensors if model.root(t.id).id == buffer.key]
            names = tuple(dict.fromkeys(group))
        things.append(
            Thing(
                names=names,
                kind="arena",
                size_bytes=buffer.size_bytes,
                traffic=traffic.get(buffer.key, Traffic()),
                key=buffer.key,
            )
        )
    users = {i: step.name for step in reversed(model.steps) for i in step.inputs}
    for tensor in model.constants:
        things.append(
            Thing(
                names=tuple(dict.fromkeys((tensor.name, users.get(tensor.id, tensor.name)))),
                kind="weights",
                size_bytes=tensor.size_bytes,
                traffic=traffic.get(tensor.id, Traffic()),
                constant=tensor.id,
            )
        )
    if base.state_bytes:
        total = Traffic()
        for tensor in model.states:
            total += traffic.get(tensor.id, Traffic())
        things.append(Thing(names=(_STATE,), kind="state", size_bytes=base.state_bytes, traffic=total))
    return things


def check_names(model: Model, pins: Pins, things: Sequence[Thing]) -> None:
    """Refuse pins of names that the model does not have.

    Raises:
        InputError: with names that are close.
    """
    known = {name for thing in things for name in thing.names}
    for name in pins.names:
        if name not in known:
            raise InputError(
                f"model {model.name} has no tensor, constant or step '{name}'",
                where="--place",
                hint=name_hint(name, sorted(known)),
            )


def items_of(
    things: Sequence[Thing],
    buffers: Sequence[Buffer],
    over: Sequence[Overlay],
    banks: Sequence[Bank],
    pins: Pins,
    alignment: int,
) -> list[Item]:
    """Items of the choice between memories, in the order of ``things``, the buffers first.

    Args:
        over: buffers that may lie over others; each counts with one other at most.
    """
    end = max((buffer.last for buffer in buffers), default=0)
    number_of = {buffer.key: number for number, buffer in enumerate(buffers)}
    lies_over: dict[int, tuple[int, int]] = {}
    for one in over:
        below, above = number_of.get(one.input), number_of.get(one.output)
        if below is None or above is None or above in lies_over:
            continue
        sizes = [align_up(buffers[i].size_bytes, alignment) for i in (below, above)]
        saved = sum(sizes) - max(sizes[1], sizes[0] + one.distance)
        if saved > 0 and all(below != known for known, _ in lies_over.values()):
            lies_over[above] = below, saved
    items = []
    for number, thing in enumerate(things):
        buffer = buffers[number] if thing.key is not None else None
        below, saved = lies_over.get(number, (-1, 0))
        items.append(
            Item(
                size_bytes=align_up(thing.size_bytes, alignment),
                first=buffer.first if buffer else 0,
                last=buffer.last if buffer else end,
                costs=tuple(_cost(thing, bank, pins) for bank in banks),
                over=below,
                saved_bytes=saved,
            )
        )
    return items


def _cost(thing: Thing, bank: Bank, pins: Pins) -> float:
    """Cycles of what lies in a memory; infinite where it can't or may not."""
    possible = bank.holds_constants if thing.kind == "weights" else bank.is_ram
    pinned = next((pins.names[name] for name in thing.names if name in pins.names), getattr(pins, thing.kind))
    if not possible or (pinned and pinned != bank.name):
        return math.inf
    return bank.cycles(thing.traffic)
