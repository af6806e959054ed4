# SPDX-License-Identifier: Apache-2.0
"""Use of each memory by a model that lies in several: what is there, words of an inference, their cycles."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mlf_sdk.planner.layout import Bank, ModelLayout
from mlf_sdk.planner.traffic import Traffic, traffic_of


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """An arena, the weights of a layer, or the state, in one memory.

    Attributes:
        kind: ``arena``, ``weights`` or ``state``.
        name: of the layer whose weights these are; else empty.
        read_words, written_words: of 32 bits, in one inference.
        cycles: for these words, by the row's costs.
    """

    kind: str
    name: str
    size_bytes: int
    read_words: int
    written_words: int
    cycles: float


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """A memory and what of the model lies in it.

    Attributes:
        room_bytes: free for models.
    """

    memory: str
    room_bytes: int
    contents: tuple[Content, ...]

    @property
    def used_bytes(self) -> int:
        """Bytes of the model in this memory."""
        return sum(one.size_bytes for one in self.contents)

    @property
    def read_words(self) -> int:
        """Words that one inference reads here."""
        return sum(one.read_words for one in self.contents)

    @property
    def written_words(self) -> int:
        """Words that one inference writes here."""
        return sum(one.written_words for one in self.contents)

    @property
    def cycles(self) -> float:
        """Cycles for these words."""
        return sum(one.cycles for one in self.contents)


def uses_of(layout: ModelLayout) -> tuple[MemoryUse, ...]:
    """Uses of the memories of a model, arenas first; empty: it lies in one RAM and one flash."""
    contents: dict[str, list[Content]] = {}
    banks: dict[str, Bank] = {}
    for bank, content in _contents(layout):
        banks[bank.name] = bank
        contents.setdefault(bank.name, []).append(content)
    return tuple(
        MemoryUse(memory=name, room_bytes=banks[name].room_bytes, contents=tuple(inside))
        for name, inside in contents.items()
    )


def _contents(layout: ModelLayout) -> Iterator[tuple[Bank, Content]]:
    model = layout.model
    traffic = traffic_of(model)
    for part in layout.arenas:
        inside = [b.key for b in layout.plan.buffers if part.holds(b.offset)]
        total = sum((traffic.get(key, Traffic()) for key in inside), Traffic())
        if part.size_bytes:
            yield part.bank, _content(part.bank, "arena", "", part.size_bytes, total)
    users = {tensor: step.name for step in reversed(model.steps) for tensor in step.inputs}
    for part in layout.params:
        layers: dict[str, tuple[int, Traffic]] = {}
        for tensor in model.constants:
            if part.holds(layout.constant_offsets[tensor.id]):
                size, total = layers.get(name := users.get(tensor.id, tensor.name), (0, Traffic()))
                layers[name] = size + tensor.size_bytes, total + traffic.get(tensor.id, Traffic())
        for name, (size, total) in layers.items():
            yield part.bank, _content(part.bank, "weights", name, size, total)
    if layout.state_bank is not None:
        total = sum((traffic.get(tensor.id, Traffic()) for tensor in model.states), Traffic())
        yield layout.state_bank, _content(layout.state_bank, "state", "", layout.state_bytes, total)


def _content(bank: Bank, kind: str, name: str, size_bytes: int, traffic: Traffic) -> Content:
    return Content(
        kind=kind,
        name=name,
        size_bytes=size_bytes,
        read_words=traffic.reads + traffic.scattered_reads,
        written_words=traffic.writes,
        cycles=bank.cycles(traffic),
    )
