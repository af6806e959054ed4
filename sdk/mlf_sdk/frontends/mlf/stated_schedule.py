# SPDX-License-Identifier: Apache-2.0
"""A model whose tensors and steps the archive states under `mlf_sdk.frontends.mlf.extension.KEY`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mlf_sdk.errors import InputError
from mlf_sdk.frontends.mlf.extension import KEY, StatedModel, StatedTensor, without_permissions
from mlf_sdk.frontends.mlf.schedule import BuildInput, Schedule
from mlf_sdk.ir.abi import Abi
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.tensor import TensorKind, TensorTable
from mlf_sdk.tools.checks import shown

_MEMBER: Final = "metadata.json"
_C_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_HELD: Final = frozenset({TensorKind.CONSTANT, TensorKind.STATE})


def schedule_stated(source: BuildInput, stated: StatedModel) -> Schedule:
    """Tensors and steps as stated. Faults go to the collector of ``source``.

    What refers to tensors is checked by the model that is made of the schedule.
    """
    table = TensorTable()
    params = {p.name: p.data for p in source.module.params}
    for index, tensor in enumerate(stated.tensors):
        _add(table, tensor, params, f"{KEY}.model.tensors[{index}]", source)
    for index, step in enumerate(stated.steps):
        field = f"{KEY}.model.steps[{index}]"
        if not source.code.defines(step.symbol):
            what = f"no source or object of the archive defines {shown(step.symbol)}"
            source.faults.add(_MEMBER, what, field=f"{field}.symbol")
        for name in _c_words(step.abi):
            if not _C_WORD.fullmatch(name):
                source.faults.add(_MEMBER, f"{shown(name)} is no name in C", field=f"{field}.abi")
    extension, is_sealed = source.module.metadata.extension, source.archive.is_sealed
    return Schedule(
        tensors=tuple(table.tensors),
        inputs=stated.inputs,
        outputs=stated.outputs,
        output_names=extension.output_names if extension else (),
        steps=stated.steps if is_sealed else tuple(map(without_permissions, stated.steps)),
        executor=stated.executor,
        alignment=stated.alignment,
        exports=stated.exports,
        is_analysed=stated.is_analysed and is_sealed,
    )


def _c_words(abi: Abi) -> Iterator[str]:
    """Yield texts of a calling convention that generated C contains."""
    yield abi.result
    for argument in abi.arguments:
        yield from filter(None, (argument.struct, *(f.name for f in argument.fields)))
        yield from filter(None, (value.symbol for value in argument.values))


def _add(
    table: TensorTable, tensor: StatedTensor, params: dict[str, bytes], field: str, source: BuildInput
) -> None:
    try:
        dtype = DType.parse(tensor.dtype)
    except InputError as error:
        source.faults.add(_MEMBER, error.what, field=f"{field}.dtype")
        return
    data = params.get(tensor.param)
    if data is None and tensor.kind in _HELD and tensor.alias_of is None:
        source.faults.add(_MEMBER, f"there is no parameter {shown(tensor.param)}", field=f"{field}.param")
        return
    table.add(
        tensor.name,
        dtype,
        tensor.shape,
        tensor.kind,
        alias_of=tensor.alias_of,
        offset_bytes=tensor.offset_bytes,
        data=data,
        quantisation=tensor.quantisation,
    )
