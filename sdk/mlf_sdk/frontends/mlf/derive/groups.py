# SPDX-License-Identifier: Apache-2.0
"""Groups of relay operators that a kernel can stand for, by its name.

TVM names a fused function after its operators in post-order, and gives it as arguments what its
operators take from outside, in the same order, each once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mlf_sdk.frontends.mlf.derive.kernels import Kernel, UnderivableError
from mlf_sdk.frontends.mlf.derive.relay import LiveGraph
from mlf_sdk.frontends.mlf.derive.rules import LAYOUT_TRANSFORM, fused_names, may_follow_transform
from mlf_sdk.frontends.mlf.relay.graph import NodeKind, Use

MAX_EFFORT: Final = 100_000
"""Trials in the whole derivation; a real model takes a few per operator."""

MAX_NESTING: Final = 150
"""Operators and inputs on the way from the root of a group to its first operator."""


@dataclass(slots=True)
class Effort:
    """Counts trials, so that a hostile archive can't keep the search busy."""

    left: int = MAX_EFFORT

    def spend(self, trials: int = 1) -> None:
        """Count trials; UnderivableError when there were too many."""
        self.left -= trials
        if self.left < 0:
            raise UnderivableError("there are too many ways to assign the kernels")


@dataclass(frozen=True, slots=True)
class Ref:
    """An input of an operator in a group: a value from outside, or an entry of the group."""

    use: Use | None = None
    entry: int = -1


@dataclass(frozen=True, slots=True)
class Entry:
    """One operator of a group, in post-order; a node of -1 is a layout transform that TVM inserted."""

    node: int
    token: str
    inputs: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Operators that one call of a kernel computes.

    Attributes:
        root: node whose value it gives.
        entries: its operators; the last one may be a layout transform of the root.
        slots: values from outside, in the order of the kernel's arguments.
    """

    kernel: Kernel
    root: int
    entries: tuple[Entry, ...]
    slots: tuple[Use, ...]

    @property
    def members(self) -> tuple[int, ...]:
        """Nodes of the relay graph in it."""
        return tuple(entry.node for entry in self.entries if entry.node >= 0)

    @property
    def is_transformed(self) -> bool:
        """Whether what it gives is the value of the root in another layout."""
        return self.entries[-1].node < 0


@dataclass(frozen=True, slots=True)
class _Nesting:
    """How deep a trial is: operators, and operators and inputs."""

    operators: int
    inputs: int


class GroupFinder:
    """Finds the groups that end in a node; remembers them."""

    def __init__(self, graph: LiveGraph, kernels: tuple[Kernel, ...], effort: Effort) -> None:
        self.graph = graph
        self.effort = effort
        self.found: dict[int, tuple[Group, ...]] = {}
        self.by_last: dict[str, list[tuple[Kernel, tuple[str, ...]]]] = {}
        for kernel in kernels:
            for reading in kernel.readings:
                for last in dict.fromkeys((reading[-1], self._last_operator(reading))):
                    self.by_last.setdefault(last, []).append((kernel, reading))

    @staticmethod
    def _last_operator(reading: tuple[str, ...]) -> str:
        return reading[-2] if len(reading) > 1 and reading[-1] == LAYOUT_TRANSFORM else reading[-1]

    def groups(self, root: int) -> tuple[Group, ...]:
        """All groups whose value is that of ``root``."""
        if root not in self.found:
            groups: dict[Group, None] = {}
            for name in fused_names(self.graph.node(root)):
                for kernel, reading in self.by_last.get(name, ()):
                    groups.update(dict.fromkeys(self._groups(kernel, reading, root)))
            self.found[root] = tuple(groups)
        return self.found[root]

    def _groups(self, kernel: Kernel, reading: tuple[str, ...], root: int) -> Iterator[Group]:
        matcher = _Matcher(self.graph, reading, self.effort)
        for at, found in matcher.match(root, 0, ()):
            last = Entry(-1, LAYOUT_TRANSFORM, (Ref(entry=len(found) - 1),))
            entries = found if at == len(reading) else (*found, last)
            if at != len(reading) and reading[at:] != (LAYOUT_TRANSFORM,):
                continue
            slots = self._slots(kernel, entries, root)
            if slots is not None and self._is_closed(entries, root):
                yield Group(kernel, root, entries, slots)

    def _is_closed(self, entries: tuple[Entry, ...], root: int) -> bool:
        """Whether nothing outside uses what is inside, but for the root's value."""
        members = {entry.node for entry in entries}
        inner = members - {root, -1}
        return all(self.graph.consumers[node] <= members and node not in self.graph.given for node in inner)

    def _slots(self, kernel: Kernel, entries: tuple[Entry, ...], root: int) -> tuple[Use, ...] | None:
        uses = [ref.use for entry in entries for ref in entry.inputs if ref.use is not None]
        outputs = kernel.extents.outputs
        given = 1 if entries[-1].node < 0 else len(self.graph.node(root).types)
        wanted = len(kernel.extents.arguments) - outputs
        for kept in ([use for use in uses if not self.graph.is_inlined(use)], uses):
            slots = tuple(dict.fromkeys(kept))
            if len(slots) == wanted and given == outputs:
                return slots
        return None


class _Matcher:
    """Reads the operators of a kernel's name off the graph."""

    def __init__(self, graph: LiveGraph, tokens: tuple[str, ...], effort: Effort) -> None:
        self.graph = graph
        self.tokens = tokens
        self.effort = effort

    def match(
        self, node: int, at: int, entries: tuple[Entry, ...], depth: int = 1, nesting: int = 0
    ) -> Iterator[tuple[int, tuple[Entry, ...]]]:
        """Ways in which ``tokens[at:]`` begins with a group whose root is ``node``.

        Each is the index of the token after it, and the entries with those of the group behind.
        """
        if depth <= len(self.tokens) - at:
            yield from self._inputs(node, (), at, entries, _Nesting(depth, nesting + 1))

    def _inputs(
        self, node: int, refs: tuple[Ref, ...], at: int, entries: tuple[Entry, ...], nesting: _Nesting
    ) -> Iterator[tuple[int, tuple[Entry, ...]]]:
        self.effort.spend()
        if nesting.inputs > MAX_NESTING:
            raise UnderivableError("an operator has too many inputs")
        found = self.graph.node(node)
        if len(refs) == len(found.args):
            token = self.tokens[at] if at < len(self.tokens) else ""
            if token in fused_names(found):
                yield at + 1, (*entries, Entry(node, token, refs))
            return
        inner = _Nesting(nesting.operators, nesting.inputs + 1)
        for ref, after, inside in self._input(found.args[len(refs)], node, at, entries, inner):
            yield from self._inputs(node, (*refs, ref), after, inside, inner)

    def _input(
        self, use: Use, consumer: int, at: int, entries: tuple[Entry, ...], nesting: _Nesting
    ) -> Iterator[tuple[Ref, int, tuple[Entry, ...]]]:
        """One input: from outside or from inside, as it is or transformed."""
        inside_at = [place for place, entry in enumerate(entries) if entry.node == use.node]
        if inside_at:
            yield Ref(entry=inside_at[0]), at, entries
            return
        yield Ref(use=use), at, entries
        if self.graph.is_constant(use):
            return
        ways = [(Ref(use=use), at, entries)]
        node = self.graph.node(use.node)
        if node.kind is NodeKind.CALL and len(node.types) == 1:
            for after, inside in self.match(use.node, at, entries, nesting.operators + 1, nesting.inputs):
                ways.append((Ref(entry=len(inside) - 1), after, inside))
                yield ways[-1]
        if may_follow_transform(self.graph.node(consumer), self.graph.varying_inputs(consumer)):
            for ref, after, inside in ways:
                if self.tokens[after : after + 1] == (LAYOUT_TRANSFORM,):
                    transform = Entry(-1, LAYOUT_TRANSFORM, (ref,))
                    yield Ref(entry=len(inside)), after + 1, (*inside, transform)
