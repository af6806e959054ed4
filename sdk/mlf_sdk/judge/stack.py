# SPDX-License-Identifier: Apache-2.0
"""Static bound of the stack of a linked image with its call path, and the allocators of its heap.

Frames come from the instructions, calls from the instructions and the tables (`callgraph`). On top of the
deepest path comes what is stacked on entry of an exception, as the architecture has it, and the deepest
handler that returns. Handlers do not nest: all have the same priority.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlf_sdk.analysis.machine.registry import Depth
from mlf_sdk.codegen.lock import Lock

if TYPE_CHECKING:
    from mlf_sdk.analysis.machine.callgraph import CallGraph
    from mlf_sdk.analysis.machine.registry import MachineCode


ZEPHYR_ENTRY = "bg_thread_main"  # of Zephyr's main thread
ENTRIES = ("mlf_reset_handler", ZEPHYR_ENTRY)
_FAULT = "mlf_fault_handler"  # does not return, and takes the whole stack where it needs it
_VECTORS = "mlf_vectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStack:
    """The deepest stack of ``mlf_run`` with one model, or of ``mlf_rows_done`` where that is deeper."""

    model: str
    depth: Depth


@dataclass(frozen=True, slots=True, kw_only=True)
class StackBound:
    """Upper bound of the stack, in bytes.

    Attributes:
        entry: the function that the image's stack begins with.
        image: the deepest path from there.
        models: the deepest path of ``mlf_run`` for each model.
        exception_bytes: what the CPU stacks on entry of an exception, alignment included.
        handler: the deepest handler on this stack; empty where handlers have a stack of their own.
        handler_bytes: its deepest path.
    """

    entry: str
    image: Depth
    models: tuple[ModelStack, ...]
    exception_bytes: int
    handler: str
    handler_bytes: int

    @property
    def bytes(self) -> int:
        """The bound: the deepest path, and an exception at its end."""
        return self.image.bytes + self.exception_bytes + self.handler_bytes

    @property
    def is_complete(self) -> bool:
        """True when all is included: no recursion, no call with an unknown target."""
        return not self.image.unknown


def call_graph(lock: Lock, code: MachineCode) -> CallGraph:
    """The calls of an image that was made from ``lock``."""
    from mlf_sdk.analysis.machine.callgraph import CallGraph

    steps = {}
    for model in lock.models:
        result = {
            table: (symbol.address, symbol.end)
            for table in ("model", "steps", "kernels", "stream")  # a model without a table names its sequence
            if (symbol := code.image.find(f"{model.c_name}_{table}")) is not None and not symbol.is_function
        }
        tables = [result[name] for name in ("kernels", "steps", "model") if name in result][:1]
        steps[model.name] = [*tables, *(span for name, span in result.items() if name == "stream")]
    return CallGraph(code, steps, [f"{model.c_name}_params" for model in lock.models])


def stack_bound(lock: Lock, graph: CallGraph) -> StackBound | None:
    """The bound of an image; None when it has no known entry."""
    image = graph.image
    entry = next((s for name in ENTRIES if (s := image.find(name)) is not None), None)
    runs = [s for name in ("mlf_run", "mlf_rows_done") if (s := image.find(name)) is not None]
    if entry is None:
        return None
    models = [
        ModelStack(
            model=model.name,
            depth=max((graph.deepest(s.address, model.name) for s in runs), key=lambda depth: depth.bytes),
        )
        for model in lock.models
        if runs
    ]
    handler, handler_bytes = _deepest_handler(graph, entry.address)
    return StackBound(
        entry=entry.name,
        image=graph.deepest(entry.address),
        models=tuple(models),
        exception_bytes=graph.code.exception_bytes,
        handler=handler,
        handler_bytes=handler_bytes,
    )


def _deepest_handler(graph: CallGraph, entry: int) -> tuple[str, int]:
    vectors = graph.image.find(_VECTORS)
    result = graph.code.pointers(vectors.address, vectors.end) if vectors else set()
    handlers = [graph.code.functions[address] for address in result if address != entry]
    depths = {f.name: graph.deepest(f.address).bytes for f in handlers if _FAULT not in f.names}
    return max(depths.items(), key=lambda item: (item[1], item[0]), default=("", 0))


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
