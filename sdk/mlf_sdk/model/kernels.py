# SPDX-License-Identifier: Apache-2.0
"""What a kernel does with its arguments and its workspace, as far as its code tells."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.formats.workspace import analyse_kernel
from mlf_sdk.model.code import CodeIndex
from mlf_sdk.model.types import Span, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFacts:
    """Phases, one span an argument, and workspaces of a packed kernel.

    ``exact`` is false when the workspaces are the archive's figure instead of what the code says.
    """

    phases: int
    spans: tuple[Span, ...]
    workspaces: tuple[Workspace, ...]
    exact: bool


def kernel_facts(code: CodeIndex, symbol: str, num_args: int, metadata_bytes: int) -> KernelFacts:
    """Facts of the kernel ``symbol`` with ``num_args`` tensor arguments.

    Args:
        metadata_bytes: what the archive says the function needs: a bound where the code can't be read.
    """
    if symbol in code.functions:
        return _from_source(code, symbol, num_args, metadata_bytes)
    found = code.object_kernels.get(symbol)
    sizes = found.slots if found is not None else ()
    exact = found is None or found.exact
    whole = Span(first=0, last=0)
    return KernelFacts(
        phases=1,
        spans=(whole,) * num_args,
        workspaces=_bound(metadata_bytes, whole) if not exact else _slots(sizes, whole),
        exact=exact,
    )


def _from_source(code: CodeIndex, symbol: str, num_args: int, metadata_bytes: int) -> KernelFacts:
    found = analyse_kernel(code.functions[symbol], allocating=code.allocating, macros=code.header_macros)
    whole = Span(first=0, last=found.phases - 1)
    arguments = [found.argument(index) for index in range(num_args)]
    if found.workspace_known:
        workspaces = tuple(
            Workspace(slot=slot, size_bytes=w.size_bytes, span=_span(w.first, w.last, whole))
            for slot, w in enumerate(found.slots)
        )
    else:
        workspaces = _bound(metadata_bytes, whole)
    return KernelFacts(
        phases=found.phases,
        spans=tuple(_span(a.first, a.last, whole) for a in arguments),
        workspaces=workspaces,
        exact=found.workspace_known,
    )


def _span(first: int | None, last: int | None, whole: Span) -> Span:
    """A span of phases; what is never accessed stays live throughout, which is always safe."""
    return whole if first is None or last is None else Span(first=first, last=last)


def _slots(sizes: tuple[int, ...], span: Span) -> tuple[Workspace, ...]:
    return tuple(Workspace(slot=i, size_bytes=size, span=span) for i, size in enumerate(sizes))


def _bound(size_bytes: int, span: Span) -> tuple[Workspace, ...]:
    return (Workspace(slot=0, size_bytes=size_bytes, span=span),) if size_bytes else ()
