# SPDX-License-Identifier: Apache-2.0
"""Windows of a run whose instructions are counted, and functions that only interrupts run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.analysis.machine.registry import machine_code
from mlf_sdk.ir.names import layer_of_function

if TYPE_CHECKING:
    from mlf_sdk.analysis.machine.calls import Call

_VECTORS = "mlf_vectors"
_TRAP_ENTRY = "mlf_trap_entry"  # calls the handlers, where the CPU does not


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A span that is counted: from reaching ``begin`` (its instruction included) to one of ``ends``."""

    name: str
    begin: int
    ends: tuple[int, ...]


RUN = "run"


def function_window(image: Image, name: str, *, window: str = RUN) -> Window:
    """Window from the entry of the function ``name`` to its return after any direct call.

    Raises:
        LookupError: it is not linked, or nothing calls it.
    """
    begin = image.address_of(name)
    ends = returns_of(image, begin)
    if not ends:
        raise LookupError(f"nothing in {image.path.name} calls {name}")
    return Window(name=window, begin=begin, ends=ends)


ROWS = "rows"


def row_windows(image: Image) -> tuple[Window, ...]:
    """Window of the computation of rows that were written; none where no model takes them."""
    try:
        return (function_window(image, "mlf_rows_done", window=ROWS),)
    except LookupError:
        return ()


def kernel_window(image: Image, *, window: str = "step") -> Window:
    """From the one call of a kernel in ``mlf_run`` to its return: a step, the call itself included.

    Raises:
        LookupError: ``mlf_run`` is not linked, or has not exactly one call through a register.
    """
    entry = image.address_of("mlf_run")
    calls = [call for call in _calls(image, entry) if call.target is None and call.returns]
    if len(calls) != 1:
        raise LookupError(f"mlf_run has {len(calls)} calls through a register; one was expected")
    return Window(name=window, begin=calls[0].address, ends=(calls[0].after,))


def layer_windows(image: Image, region: str, *, window: str) -> tuple[Window, ...]:
    """Windows of the layers that the function ``region`` runs by rows; none where it is no such function.

    Args:
        window: what their names begin with; the number of the layer and that of its function follow.

    Raises:
        LookupError: it is not linked.
    """
    calls: dict[int, list[Call]] = {}
    for call in _calls(image, image.address_of(region)):
        if call.target is not None and call.returns:
            calls.setdefault(call.target, []).append(call)
    result: list[Window] = []
    for target, sites in calls.items():
        function = image.function_at(target)
        layer = layer_of_function(function.name) if function is not None else None
        if layer is None:
            continue
        ends = tuple(site.after for site in sites)
        if {*returns_of(image, target)} <= {*ends}:
            result.append(Window(name=f"{window}.{layer}.{len(result)}", begin=target, ends=ends))
            continue
        for site in sites:  # other regions call it as well: each call, itself included
            name = f"{window}.{layer}.{len(result)}"
            result.append(Window(name=name, begin=site.address, ends=(site.after,)))
    return tuple(result)


def returns_of(image: Image, callee: int) -> tuple[int, ...]:
    """Addresses that the function at ``callee`` returns to: those after all direct calls of it.

    A function that ends with a jump to it hands on the addresses that it returns to itself.
    """
    result: dict[int, None] = {}
    seen: set[int] = set()
    waiting = [callee]
    while waiting:
        target = waiting.pop()
        if target in seen:
            continue
        seen.add(target)
        for function, call in _all_calls(image):
            if call.target != target:
                continue
            if call.returns:
                result[call.after] = None
            elif function != target:
                waiting.append(function)
    return tuple(result)


def handlers(image: Image) -> frozenset[str]:
    """Functions that run in interrupts only: those in the table of vectors, and what only they call.

    Empty when there is no such table.
    """
    table = image.find(_VECTORS)
    code = machine_code(image)
    if table is None or code is None:
        return frozenset()
    trap = image.find(_TRAP_ENTRY)
    result = code.pointers(table.address, table.end) - {image.entry}
    result |= {trap.address} if trap is not None else set()
    callers: dict[int, set[int]] = {}
    for function, call in _all_calls(image):
        if call.target is not None:
            callers.setdefault(call.target, set()).add(function)
    while more := {callee for callee, by in callers.items() if by <= result} - result:
        result |= more
    return frozenset(f.name for f in image.functions.values() if f.address in result)


def _all_calls(image: Image) -> Iterator[tuple[int, Call]]:
    for function in image.functions:
        for call in _calls(image, function):
            yield function, call


def _calls(image: Image, function: int) -> tuple[Call, ...]:
    code = machine_code(image)
    frame = None if code is None else code.frame(function)
    return frame.calls if frame is not None else ()
