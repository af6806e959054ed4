# SPDX-License-Identifier: Apache-2.0
"""A single function of an archive in operator style, as a model of one step."""

from __future__ import annotations

from mlf_sdk.analysis.c.kernelbody import written_arguments
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.errors import InputError, ModuleChoiceError
from mlf_sdk.frontends.mlf.schedule import BuildInput, Schedule
from mlf_sdk.ir.model import Step, TensorKind
from mlf_sdk.ir.tensor import TensorTable


def schedule_operator(source: BuildInput, function: str | None) -> Schedule:
    """One step that calls ``function``, or the archive's only one.

    Which arguments a function writes stands only in its code: they are its outputs; the last one is
    where the code can't be read.

    Raises:
        InputError: several functions and none was chosen, or there is no such function.
    """
    signatures = source.module.metadata.operator_args
    known = [name for name in signatures if source.code.defines(name)]
    if function is None and len(known) == 1:
        function = known[0]
    if function is None or function not in known:
        what = "several functions" if function is None else f"no function called '{function}'"
        where = source.archive.source
        if not known:
            raise InputError("the archive defines no function", where=where)
        raise ModuleChoiceError(f"the archive is in operator style and has {what}", where=where, names=known)
    args = signatures[function]
    written = _written_arguments(source.code.functions.get(function), len(args))
    table = TensorTable()
    ids = [
        table.add(
            arg.name, arg.dtype, arg.shape, TensorKind.INTERMEDIATE if i in written else TensorKind.INPUT
        )
        for i, arg in enumerate(args)
    ]
    inputs = tuple(i for i in ids if i not in written)
    outputs = tuple(i for i in ids if i in written)
    if (*inputs, *outputs) != tuple(ids):
        source.faults.add("./metadata.json", f"'{function}' writes an argument before it reads another")
    step = Step(index=0, name=function, symbol=function, inputs=inputs, outputs=outputs)
    return Schedule(
        tensors=tuple(table.tensors),
        inputs=inputs,
        outputs=outputs,
        output_names=tuple(table.tensors[i].name for i in outputs),
        steps=(step,),
        executor="operator",
    )


def _written_arguments(function: FunctionDefinition | None, count: int) -> set[int]:
    """Indices of the arguments whose data the function stores to; the last one where none is known."""
    written = set() if function is None else written_arguments(function)
    return {i for i in written if i < count} or {count - 1}
