# SPDX-License-Identifier: Apache-2.0
"""Exact peak of the workspace stack below an entry function, replayed from the sources.

The runtime gives workspace from a stack: a request takes ``align_up(size)`` bytes from its top, a
free gives the last one back. The replay does the same for the entry and for all that it calls.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mlf_sdk.analysis.c.allocations import Allocations, Kind, find_allocations
from mlf_sdk.analysis.c.unit import FunctionDefinition, SourceScan
from mlf_sdk.errors import NotPossibleError
from mlf_sdk.tools.ctext import ALLOCATE, FREE


class StackPeak(msgspec.Struct, frozen=True, kw_only=True):
    """Most bytes on the workspace stack at any time of one call of the entry.

    Attributes:
        bytes: the peak; None when it does not follow from the sources (trace a run on the host instead).
        exact: the peak is reached, rather than only never exceeded.
        reason: why it is not exact or not known; empty otherwise.
    """

    bytes: int | None
    exact: bool
    reason: str


class _Use(msgspec.Struct):
    """Workspace that one function requests from the allocator beyond what was allocated at its call."""

    bytes: int = 0
    allocates: bool = False
    reason: str = ""
    unknown: bool = False


def allocating_functions(scans: Iterable[SourceScan]) -> frozenset[str]:
    """Functions that allocate workspace, by themselves or by what they call or name."""
    functions = [function for scan in scans for function in scan.functions]
    uses: dict[str, set[str]] = {}
    for function in functions:
        names = function.identifiers
        if not names.isdisjoint(function.macros):
            names = names | function.macro_words
        for name in names:
            uses.setdefault(name, set()).add(function.name)
    result: set[str] = set()
    pending = [name for allocator in (ALLOCATE, FREE) for name in uses.get(allocator, ())]
    while pending:
        name = pending.pop()
        if name not in result:
            result.add(name)
            pending.extend(uses.get(name, ()))
    return frozenset(result)


def stack_peak(scans: Iterable[SourceScan], entry: str, alignment: int = 16) -> StackPeak:
    """Replay the workspace requests of ``entry`` and of all functions of the archive below it.

    Args:
        scans: all sources of the archive (of one module).
        entry: name of the function that runs the model.
        alignment: bytes to which the runtime rounds each request up.

    Raises:
        NotPossibleError: the entry has no source, or a function calls itself in the end.
    """
    replay = _Replay(list(scans), alignment)
    if entry not in replay.functions:
        raise NotPossibleError(f"the archive has no source of {entry}")
    use = replay.run(entry)
    return StackPeak(bytes=None if use.unknown else use.bytes, exact=not use.reason, reason=use.reason)


class _Replay:
    def __init__(self, scans: list[SourceScan], alignment: int) -> None:
        if alignment < 1:
            raise ValueError("alignment must be at least 1 byte")
        self.alignment = alignment
        self.allocating = allocating_functions(scans)
        self.functions: dict[str, list[FunctionDefinition]] = {}
        for scan in scans:
            for function in scan.functions:
                self.functions.setdefault(function.name, []).append(function)
        self.known: dict[FunctionDefinition, _Use] = {}
        self.resolved: dict[tuple[str, str], list[FunctionDefinition]] = {}

    def run(self, entry: str) -> _Use:
        """Depth-first without recursion: a function is replayed when all that it calls are known."""
        candidates = self.functions[entry]
        if len(candidates) > 1:
            return _Use(unknown=True, reason=f"{entry} is defined more than once")
        allocations: dict[FunctionDefinition, Allocations] = {}
        active: dict[FunctionDefinition, None] = {}
        pending = [(candidates[0], False)]
        while pending:
            function, called_are_known = pending.pop()
            if called_are_known:
                self.known[function] = self._replay(function, allocations[function])
                del active[function]
                continue
            if function in self.known:
                continue
            if function in active:
                cycle = [other.name for other in active][-4:]
                raise NotPossibleError(
                    f"the function {function.name} calls itself: {' -> '.join([*cycle, function.name])}",
                    where=function.member,
                    hint="A model is not recursive: report the archive to whoever made it.",
                )
            active[function] = None
            allocations[function] = find_allocations(function)
            pending.append((function, True))
            for event in allocations[function].events:
                if event.kind is Kind.CALL:
                    pending += [(callee, False) for callee in self._callees(function, event.name)]
        return self.known[candidates[0]]

    def _callees(self, caller: FunctionDefinition, name: str) -> list[FunctionDefinition]:
        """Resolve a call: to the function of the same source if there is one, else to global ones."""
        key = (caller.member, name)
        if key not in self.resolved:
            candidates = self.functions.get(name, [])
            here = [function for function in candidates if function.member == caller.member]
            self.resolved[key] = here or [function for function in candidates if not function.is_static]
        return self.resolved[key][:2]

    def _replay(self, function: FunctionDefinition, allocations: Allocations) -> _Use:
        reason = allocations.reason
        if handed_on := (function.identifiers - function.called) & self.allocating:
            reason = reason or f"{min(handed_on)}, which allocates workspace, is handed on as a pointer"
        use = _Use(reason=reason, unknown=bool(reason))
        open_bytes: list[int] = []
        top = 0
        for event in allocations.events:
            if event.kind is Kind.ALLOCATE:
                open_bytes.append(-(-event.size_bytes // self.alignment) * self.alignment)
                use.allocates = True
                top += open_bytes[-1]
                use.bytes = max(use.bytes, top)
            elif event.kind is Kind.FREE:
                top -= open_bytes.pop()
            else:
                callees = self._callees(function, event.name)
                if len(callees) > 1:
                    use.unknown, use.reason = True, f"{event.name} is defined more than once"
                for callee in callees[:1]:
                    self._add(use, self.known[callee], top, event.conditional)
        return use

    def _add(self, use: _Use, below: _Use, allocated_bytes: int, conditional: bool) -> None:
        """Take in one call, made with so many bytes allocated."""
        use.bytes = max(use.bytes, allocated_bytes + below.bytes)
        use.allocates = use.allocates or below.allocates
        use.unknown = use.unknown or below.unknown
        if below.reason:
            use.reason = use.reason or below.reason
        elif conditional and below.allocates:
            use.reason = use.reason or "a call that allocates depends on a condition"
