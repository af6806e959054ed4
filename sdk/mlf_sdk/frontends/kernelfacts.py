# SPDX-License-Identifier: Apache-2.0
"""Facts about a step that calls one kernel, from the kernel's code."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mlf_sdk.analysis.c.extents import kernel_extents
from mlf_sdk.analysis.c.kernelbody import written_arguments
from mlf_sdk.analysis.c.liveness import analyse_kernel
from mlf_sdk.analysis.c.stackpeak import stack_peak
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.readcode import Code
from mlf_sdk.frontends.statedfacts import checked_step, effects_of, size_of
from mlf_sdk.ir.model import Model, Span, Step, Workspace
from mlf_sdk.ir.tensor import TensorKind

STACK_ALIGNMENT = 16  # MLF_STACK_ALIGN of crt/include/mlf/mlf_adapter.h


def kernel_facts(model: Model, step: Step, code: Code, faults: FaultCollector) -> Step:
    """The step that calls one kernel.

    A kernel whose workspaces are not known gets the archive's figure as one last-in-first-out region,
    a bound; where there is no figure either, that is a fault.
    """
    if not step.takes_tensors:
        return checked_step(model, step, code, faults)
    function = code.functions.get(step.symbol)
    if function is not None and not step.is_packed:
        return _of_ffi(step, code, faults)
    result = _of_object(step, code) if function is None else facts_of_source(step, function, code)
    for position in result.writes:
        tensor = model.tensors[step.inputs[position]]
        if function is not None and model.root(tensor.id).kind is TensorKind.CONSTANT:
            what = f"the kernel '{step.symbol[:128]}' writes to the constant '{tensor.name[:80]}'"
            faults.add(function.member, f"{what}, or hands its address on in a way that can't be followed")
    if function is not None and not function.doubts:
        _check_reach(model, step, function, faults)
        if model.executor == "operator":
            _check_written(step, function, faults)
    if result.exact:
        return result
    bound = model.summary.operators.get(step.symbol) if model.executor == "graph" else None
    if not bound and (bound is None or step.symbol in code.allocating):
        faults.add(
            "./metadata.json",
            f"the workspace of '{step.symbol[:128]}' is stated neither by its code "
            f"({result.opaque_reason}) nor here",
            field="memory.functions.operator_functions",
        )
    return dataclasses.replace(result, workspaces=(), workspace_stack_bytes=bound or 0)


def _of_object(step: Step, code: Code) -> Step:
    whole = Span(first=0, last=0)
    kernel = code.kernels.get(step.symbol)
    known = kernel is None or kernel.exact
    sizes = kernel.slots if kernel is not None and known else ()
    return dataclasses.replace(
        step,
        workspaces=tuple(Workspace(slot=i, size_bytes=size, span=whole) for i, size in enumerate(sizes)),
        exact=known,
        opaque_reason="it is machine code" if kernel is None or known else kernel.reason,
    )


def _of_ffi(step: Step, code: Code, faults: FaultCollector) -> Step:
    """A kernel that checks its arguments at run time: a whole, whose workspaces are replayed."""
    peak = stack_peak(tuple(code.scans.values()), step.symbol, alignment=STACK_ALIGNMENT)
    if peak.bytes is None:
        faults.add(
            code.functions[step.symbol].member,
            f"the workspace of '{step.symbol[:128]}' cannot be derived from its code ({peak.reason})",
        )
    return dataclasses.replace(
        step,
        workspace_stack_bytes=peak.bytes or 0,
        exact=peak.exact,
        opaque_reason="it takes its arguments by tvm-ffi's convention",
    )


def facts_of_source(
    step: Step, function: FunctionDefinition, code: Code, positions: Sequence[int] = ()
) -> Step:
    """Add what the code of a kernel says to the step that calls it.

    Args:
        positions: parameter of the function that each argument of the step is; empty: in order.
    """
    at = positions or range(len(step.arguments))
    result = analyse_kernel(function, allocating=code.allocating, macros=code.macros, whole=code.whole)
    effects = effects_of(function, code)
    whole = Span(first=0, last=result.phases - 1)
    arguments = [result.argument(index) for index in at]
    return dataclasses.replace(
        step,
        writes=tuple(i for i in range(len(step.inputs)) if at[i] in effects.written),
        phases=result.phases,
        spans=tuple(_span(a.first, a.last, whole) for a in arguments),
        workspaces=tuple(
            Workspace(slot=slot, size_bytes=w.size_bytes, span=_span(w.first, w.last, whole))
            for slot, w in enumerate(result.slots)
        ),
        exact=result.workspace_known,
        escaping_args=tuple(i for i, parameter in enumerate(at) if parameter in effects.kept),
        persistent_globals=tuple(sorted(effects.lasting)),
        opaque_reason=result.reason,
    )


def _span(first: int | None, last: int | None, whole: Span) -> Span:
    """A span of phases; what is never accessed stays live throughout, which is always safe."""
    return whole if first is None or last is None else Span(first=first, last=last)


def _check_reach(model: Model, step: Step, function: FunctionDefinition, faults: FaultCollector) -> None:
    """Compare the elements that a kernel certainly reaches with the tensors that it gets."""
    for argument in kernel_extents(function).arguments[: len(step.arguments)]:
        tensor = model.tensors[step.arguments[argument.index]]
        size = size_of(argument.element_type)
        what = f"the kernel '{step.symbol[:128]}' {{}} of '{tensor.name[:80]}', which has {tensor.size_bytes}"
        if argument.at_least * size > tensor.size_bytes:
            faults.add(function.member, what.format(f"reaches byte {argument.at_least * size}"))
        if argument.before:
            before = argument.before * size
            unit = "byte" if before == 1 else "bytes"
            faults.add(function.member, what.format(f"reaches {before} {unit} before the first"))


def _check_written(step: Step, function: FunctionDefinition, faults: FaultCollector) -> None:
    """Compare the outputs of a single operator, as its code is written, with what is compiled."""
    written = {index for index in written_arguments(function) if index < len(step.arguments)}
    outputs = set(range(len(step.inputs), len(step.arguments)))
    if written and written != outputs:
        faults.add(
            function.member, f"conditions of the preprocessor change what '{step.symbol[:128]}' writes"
        )
