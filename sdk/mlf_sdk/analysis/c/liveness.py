# SPDX-License-Identifier: Apache-2.0
"""Liveness analysis of a kernel: the phases in which it accesses each argument and each workspace.

Time inside a kernel is counted in phases: one phase is one top-level statement of its body that
touches any of them. What is dead outside its phases may share memory with something else, so a
wrong answer corrupts results without a sign. Hence the one rule of this module: an answer is given
only for code of the exact shape that TVM prints; whatever else is met keeps the thing it is about,
or everything, alive throughout.

Two things must hold in the build for the answer to be true of the machine code: the kernels are
compiled with ``-fno-strict-aliasing``, and ``TVMBackendAllocWorkspace`` is not declared with the
``malloc`` attribute; otherwise the compiler may move an access across statements.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from mlf_sdk.analysis.c.allocations import JUMPS, Allocations, find_allocations
from mlf_sdk.analysis.c.calls import foreign_runtime_call
from mlf_sdk.analysis.c.kernelbody import KernelBody, slot_sizes
from mlf_sdk.analysis.c.syntax import Unknown
from mlf_sdk.analysis.c.unit import FunctionDefinition

_OUT_OF_VIEW = frozenset({"restrict", "__restrict", "__restrict__", "__attribute__", "typedef", "switch"})


class ArgumentLiveness(msgspec.Struct, frozen=True, kw_only=True):
    """Phases in which a kernel accesses the data of one tensor argument.

    Attributes:
        index: position among the kernel's arguments.
        first, last: phases; both None when the data is never accessed.
        is_exact: False when the pointer went out of sight: alive in all phases.
    """

    index: int
    name: str
    first: int | None
    last: int | None
    is_exact: bool


class SlotLiveness(msgspec.Struct, frozen=True, kw_only=True):
    """One workspace slot: all requests at one depth of nesting.

    Attributes:
        size_bytes: the largest of them.
        first, last, is_exact: as of an argument.
    """

    size_bytes: int
    first: int | None
    last: int | None
    is_exact: bool


class KernelLiveness(msgspec.Struct, frozen=True, kw_only=True):
    """Liveness of a kernel's arguments and workspaces in each of its ``phases`` (at least 1).

    Attributes:
        arguments: by index, those that the kernel has.
        slots: workspace by depth of nesting, depth 0 first; meaningless unless ``workspace_known``.
        exact: False when the kernel had to be taken as a whole: one phase, everything alive.
        workspace_known: False when not even the slots are known; trace the kernel on the host instead.
        reason: why it is not exact or not known; empty otherwise.
    """

    name: str
    phases: int
    arguments: tuple[ArgumentLiveness, ...]
    slots: tuple[SlotLiveness, ...]
    exact: bool
    workspace_known: bool
    reason: str

    def argument(self, index: int) -> ArgumentLiveness:
        """The argument at ``index``; one that an exact kernel never unpacks is never accessed."""
        known = {argument.index: argument for argument in self.arguments}
        first, last = (None, None) if self.exact else (0, self.phases - 1)
        unseen = ArgumentLiveness(index=index, name="", first=first, last=last, is_exact=self.exact)
        return known.get(index, unseen)


def analyse_kernel(
    function: FunctionDefinition,
    *,
    allocating: Collection[str] = (),
    macros: Collection[str] = (),
    whole: str = "",
) -> KernelLiveness:
    """Find the phases of one kernel: packed ABI, or plain pointers as parameters.

    Args:
        function: the kernel.
        allocating: functions of the archive that allocate workspace, themselves or by their calls.
        macros: macros of the archive's headers (those of the kernel's own source are known).
        whole: reason to take it as a whole, whatever its code says; empty for none.
    """
    hidden = _macros_used(function, frozenset(macros))
    allocations = _allocations(function, frozenset(allocating), hidden)
    doubt = whole or _doubt(function, hidden) or allocations.reason or _unknown_code(function)
    if not doubt:
        body = KernelBody(function, allocations)
        if not body.doubt:
            return _exact(function, body, slot_sizes(allocations))
        doubt = body.doubt
    return _whole(function, allocations, doubt)


def _macros_used(function: FunctionDefinition, macros: frozenset[str]) -> frozenset[str]:
    words = function.words | {parameter.name for parameter in function.parameters}
    return (function.macros | macros) & words


def _allocations(
    function: FunctionDefinition, allocating: frozenset[str], hidden: frozenset[str]
) -> Allocations:
    """Find the requests of a kernel; a reason if anything that it calls may allocate."""
    allocations = find_allocations(function)
    names = function.identifiers | (function.macro_words if hidden else frozenset())
    others = names & (allocating - {function.name})
    if allocations.reason:
        return allocations
    if not hidden <= function.macros:
        return Allocations(reason=f"{min(hidden)} is a macro of a header")
    if function.name in names:
        return Allocations(reason="the kernel calls itself")
    return Allocations(reason=f"{min(others)} allocates workspace too") if others else allocations


def _exact(function: FunctionDefinition, body: KernelBody, sizes: list[int]) -> KernelLiveness:
    """The answer for a kernel that was looked into."""
    phases = max(1, body.phases)
    arguments, slots = [], []
    for index, target in sorted(body.arguments.items()):
        first, last = target.span(phases)
        arguments.append(
            ArgumentLiveness(
                index=index, name=target.name, first=first, last=last, is_exact=not target.escaped
            )
        )
    for target, size in zip(body.slots, sizes, strict=True):
        first, last = target.span(phases)
        slots.append(SlotLiveness(size_bytes=size, first=first, last=last, is_exact=not target.escaped))
    return KernelLiveness(
        name=function.name,
        phases=phases,
        arguments=tuple(arguments),
        slots=tuple(slots),
        exact=True,
        workspace_known=True,
        reason="",
    )


def _whole(function: FunctionDefinition, allocations: Allocations, reason: str) -> KernelLiveness:
    """The answer for a kernel that cannot be looked into."""
    parameters = () if function.is_packed else function.parameters
    return KernelLiveness(
        name=function.name,
        phases=1,
        arguments=tuple(
            ArgumentLiveness(index=index, name=parameter.name, first=0, last=0, is_exact=False)
            for index, parameter in enumerate(parameters)
        ),
        slots=tuple(
            SlotLiveness(size_bytes=size, first=0, last=0, is_exact=False) for size in slot_sizes(allocations)
        ),
        exact=False,
        workspace_known=not allocations.reason,
        reason=reason,
    )


def _doubt(function: FunctionDefinition, hidden: frozenset[str]) -> str:
    """Return the reason why a kernel must be taken as a whole, judged by all of its words; empty if none."""
    result = (JUMPS | _OUT_OF_VIEW) & function.words
    foreign = foreign_runtime_call(function.called)
    restrict = any("restrict" in parameter.type for parameter in function.parameters)
    reasons = [
        *function.doubts,
        f"{min(hidden)} is a macro" if hidden else "",
        f"{foreign} may do anything" if foreign else "",
        f"the body has {min(result)}" if result else "",
        "a parameter is restrict" if restrict else "",
    ]
    return next((reason for reason in reasons if reason), "")


def _unknown_code(function: FunctionDefinition) -> str:
    """Return the reason why the statements of a kernel are not certain; empty when they are."""
    is_known = not any(isinstance(statement, Unknown) for statement in function.body.walk())
    return "" if is_known else "a statement is not understood"
