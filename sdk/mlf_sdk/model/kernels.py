# SPDX-License-Identifier: Apache-2.0
"""What a kernel does with its arguments and its workspace, as far as its code tells."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.formats.workspace import analyse_kernel
from mlf_sdk.model.code import CodeIndex
from mlf_sdk.model.types import Span, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFacts:
    """Phases, one span an argument, and workspaces of a packed kernel."""

    phases: int
    spans: tuple[Span, ...]
    workspaces: tuple[Workspace, ...]
    exact: bool


def kernel_facts(
    code: CodeIndex, symbol: str, num_args: int, metadata_bytes: int
) -> KernelFacts:
    """Facts of the kernel ``symbol`` with ``num_args`` tensor arguments.

    Args:
        metadata_bytes: what the archive says the function needs; it is a bound where the code can't
            be read.
    """
    if symbol in code.functions:
        return _from_source(code, symbol, num_args, metadata_bytes)
    found = code.object_kernels.get(symbol)
    whole = Span(first=0, last=0)
    sizes = found.slots if found is not None else ()
    exact = found is None or found.exact
    if not exact:
        sizes = (metadata_bytes,)
    return KernelFacts(
        phases=1,
        spans=(whole,) * num_args,
        workspaces=tuple(
            Workspace(slot=i, size_bytes=size, span=whole) for i, size in enumerate(sizes) if size
        ),
        exact=exact,
    )


def _from_source(code: CodeIndex, symbol: str, num_args: int, metadata_bytes: int) -> KernelFacts:
    liveness = analyse_kernel(code.functions[symbol])
    whole = Span(first=0, last=liveness.phases - 1)
    spans = []
    for index in range(num_args):
        access = liveness.arguments[index] if index < len(liveness.arguments) else None
        known = access is not None and liveness.exact
        spans.append(Span(first=access.first, last=access.last) if known and access else whole)
    workspaces = tuple(
        Workspace(slot=w.slot, size_bytes=w.size_bytes, span=Span(first=w.first, last=w.last))
        for w in liveness.workspaces
    )
    if liveness.unknown:
        workspaces = (Workspace(slot=0, size_bytes=metadata_bytes, span=whole),) if metadata_bytes else ()
    return KernelFacts(
        phases=liveness.phases, spans=tuple(spans), workspaces=workspaces, exact=not liveness.unknown
    )
