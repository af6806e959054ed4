# SPDX-License-Identifier: Apache-2.0
"""Facts about kernels that memory planning needs: when arguments and workspaces are in use."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.analysis.c.liveness import analyse_kernel
from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.code import CodeIndex
from mlf_sdk.ir.model import Span, Step, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFacts:
    """Phases, one span an argument, and workspaces of a packed kernel.

    Attributes:
        workspaces: slots by depth; empty when they are not known.
        bound_bytes: the archive's figure, where the code does not tell its workspaces; else 0.
        reason: why it does not tell; empty otherwise.
    """

    phases: int
    spans: tuple[Span, ...]
    workspaces: tuple[Workspace, ...]
    bound_bytes: int = 0
    reason: str = ""


def kernel_facts(code: CodeIndex, symbol: str, num_args: int, metadata_bytes: int | None) -> KernelFacts:
    """Facts of the kernel ``symbol`` with ``num_args`` tensor arguments.

    Args:
        metadata_bytes: what the archive says the function needs: a bound where the code can't be read;
            None where it says nothing.
    """
    if symbol in code.functions:
        return _from_source(code, symbol, num_args, metadata_bytes)
    found = code.object_kernels.get(symbol)
    whole = Span(first=0, last=0)
    known = found is None or found.exact
    sizes = found.slots if found is not None and known else ()
    return KernelFacts(
        phases=1,
        spans=(whole,) * num_args,
        workspaces=tuple(Workspace(slot=i, size_bytes=size, span=whole) for i, size in enumerate(sizes)),
        bound_bytes=0 if known else metadata_bytes or 0,
        reason="" if found is None or known else found.reason,
    )


def _from_source(code: CodeIndex, symbol: str, num_args: int, metadata_bytes: int | None) -> KernelFacts:
    found = analyse_kernel(code.functions[symbol], allocating=code.allocating, macros=code.header_macros)
    whole = Span(first=0, last=found.phases - 1)
    arguments = [found.argument(index) for index in range(num_args)]
    slots = found.slots if found.workspace_known else ()
    return KernelFacts(
        phases=found.phases,
        spans=tuple(_span(a.first, a.last, whole) for a in arguments),
        workspaces=tuple(
            Workspace(slot=slot, size_bytes=w.size_bytes, span=_span(w.first, w.last, whole))
            for slot, w in enumerate(slots)
        ),
        bound_bytes=0 if found.workspace_known else metadata_bytes or 0,
        reason="" if found.workspace_known else found.reason,
    )


def _span(first: int | None, last: int | None, whole: Span) -> Span:
    """A span of phases; what is never accessed stays live throughout, which is always safe."""
    return whole if first is None or last is None else Span(first=first, last=last)


def kernel_step(
    code: CodeIndex,
    faults: FaultCollector,
    *,
    index: int,
    name: str,
    symbol: str,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    metadata_bytes: int | None,
) -> Step:
    """The step that calls one kernel.

    A kernel whose workspaces are not known gets the archive's figure as one last-in-first-out region,
    a bound; where there is no figure either, that is a fault.
    """
    facts = kernel_facts(code, symbol, len(inputs) + len(outputs), metadata_bytes)
    if facts.reason and metadata_bytes is None:
        faults.add(
            "./metadata.json",
            f"the workspace of '{symbol[:128]}' is told neither by its code ({facts.reason}) nor here",
            field="memory.functions.operator_functions",
        )
    return Step(
        index=index,
        name=name,
        symbol=symbol,
        inputs=inputs,
        outputs=outputs,
        phases=facts.phases,
        spans=facts.spans,
        workspaces=facts.workspaces,
        workspace_stack_bytes=facts.bound_bytes,
        exact=not facts.reason,
    )
