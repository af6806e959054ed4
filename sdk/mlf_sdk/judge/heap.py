# SPDX-License-Identifier: Apache-2.0
"""Heap allocators that are linked into an image, and their callers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlf_sdk.analysis.machine.callgraph import CallGraph

_ALLOCATOR = re.compile(
    r"(_*(malloc|calloc|realloc|free|memalign|aligned_alloc|posix_memalign)(_r)?|_?_?sbrk(_r)?"
    r"|k_(malloc|calloc|realloc|free|aligned_alloc|heap_alloc|heap_free)|sys_heap_(alloc|free|realloc)"
    r"|_Zn[wa]\w*|_Zd[la]P\w*|pvPortMalloc|vPortFree)"
)
"""C, newlib and picolibc, Zephyr, FreeRTOS, and C++'s operators new and delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocator:
    """A function of an allocator that is linked.

    Attributes:
        callers: functions that call it or take its address, apart from allocators.
        used_by_model: running a model can lead to it; None: a call with an unknown target may.
    """

    name: str
    callers: tuple[str, ...]
    used_by_model: bool | None


def linked_allocators(graph: CallGraph) -> tuple[Allocator, ...]:
    """Functions of allocators in the image, by name; none: there is no heap."""
    result = {
        symbol.name: symbol.address
        for symbol in graph.image.symbols
        if symbol.is_function and _ALLOCATOR.fullmatch(symbol.name)
    }
    if not result:
        return ()
    run = graph.image.find("mlf_run")
    reached, is_all = graph.reached(run.address) if run is not None else (set(), False)
    return tuple(
        Allocator(
            name=name,
            callers=tuple(c for c in graph.callers(address) if c not in result),
            used_by_model=True if address in reached else False if is_all else None,
        )
        for name, address in sorted(result.items())
    )
