# SPDX-License-Identifier: Apache-2.0
"""A loaded `Model`, whatever its format, as an archive in the Model Library Format, version 7.

What the graph executor's JSON can express is written as a graph that any reader of the format takes. Other
models (an ahead-of-time entry, tensors that lie within others, private calling conventions) keep their
tensors and steps under `mlf_sdk.frontends.mlf.extension.KEY`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from mlf_sdk.frontends.mlf.content import ArchiveContent, Call, NamedTensor, Type
from mlf_sdk.frontends.mlf.extension import StatedModel, StatedTensor, facts_of
from mlf_sdk.frontends.mlf.rawgraph import NOP
from mlf_sdk.frontends.mlf.writer import archive_files
from mlf_sdk.ir.model import ALIGNMENT, CodeUnit, Model, Step, Tensor, TensorKind, UnitKind

_HOST: Final = "codegen/host/"
_FOLDERS: Final = {
    UnitKind.C: "src",
    UnitKind.CXX: "src",
    UnitKind.ASSEMBLY: "src",
    UnitKind.OBJECT: "lib",
    UnitKind.HEADER: "include",
}
_HELD: Final = frozenset({TensorKind.CONSTANT, TensorKind.STATE})


def archive_of_model(model: Model) -> dict[str, bytes]:
    """Members of the archive, by name; equal models give equal bytes.

    Args:
        model: as loaded, with or without the analysis of its code.
    """
    members = _members(model.units)
    calls = _calls(model, members) if _fits_graph(model) else None
    tensors = model.tensors
    names = {t.id: t.name for t in tensors} if calls else _parameter_names(model)
    held = [t for t in tensors if t.kind in _HELD and t.data is not None]
    outputs = [tensors[i] for i in model.outputs]
    seen = {t.name: t.quantisation for t in (*(tensors[i] for i in model.inputs), *outputs)}
    content = ArchiveContent(
        name=model.name,
        compiler=model.provenance.compiler,
        compiler_version=model.provenance.compiler_version,
        options=model.provenance.options,
        made_from=model.provenance.made_from,
        clean=tuple(members[unit.member] for unit in model.units if unit.clean),
        code={members[unit.member]: unit.data for unit in model.units},
        inputs=tuple((tensors[i].name, _type(tensors[i])) for i in model.inputs),
        outputs=tuple(
            (tensor.name, shown, _type(tensor))
            for tensor, shown in zip(outputs, model.output_names, strict=True)
        ),
        quantisation={name: result for name, result in seen.items() if result is not None},
        params=tuple(_param(t, names[t.id]) for t in held if t.kind is TensorKind.CONSTANT),
        states=tuple(_param(t, names[t.id]) for t in held if t.kind is TensorKind.STATE),
        calls=tuple(calls.values()) if calls else (),
        sequence=_sequence(model, calls) if calls else (),
        summary=model.summary,
        targets=model.targets,
        symbol_prefix=model.symbol_prefix,
        model=None if calls else _stated(model, names, members),
    )
    return archive_files(content)


def _type(tensor: Tensor) -> Type:
    return tensor.dtype, tensor.shape


def _param(tensor: Tensor, name: str) -> NamedTensor:
    return NamedTensor(name=name, dtype=tensor.dtype, shape=tensor.shape, data=tensor.data or b"")


def _members(units: tuple[CodeUnit, ...]) -> Mapping[str, str]:
    """Members of the new archive by those of the old one; the format has a folder for each kind of code."""
    result: dict[str, str] = {}
    for unit in units:
        path = PurePosixPath(unit.member)
        folder = f"{_HOST}{_FOLDERS[unit.kind]}"
        place = unit.member if unit.member.startswith(_HOST) else f"{folder}/{path.name}"
        number = 1
        while place in result.values():
            number += 1
            place = f"{folder}/{path.stem}_{number}{path.suffix}"
        result[unit.member] = place
    return result


# ---- a graph ----


def _fits_graph(model: Model) -> bool:
    """Return whether a graph of calls says all that there is to say of the model."""
    if model.executor != "graph" or model.exports or model.alignment != ALIGNMENT:
        return False
    names = [t.name for t in model.tensors]
    made = {i for step in model.steps for i in step.outputs}
    return (
        len(set(names)) == len(names)
        and all(_is_node(model, step) for step in model.steps)
        and all(_is_placed(model, t, made) for t in model.tensors)
    )


def _is_placed(model: Model, tensor: Tensor, made: set[int]) -> bool:
    """Return whether a tensor is a placeholder, a result of a step, or another name of a whole earlier one.

    One that is the beginning of another (a slice from offset 0) is none of these: ``__nop`` keeps the size.
    """
    if tensor.kind is not TensorKind.INTERMEDIATE:
        return tensor.alias_of is None and (tensor.kind is TensorKind.INPUT or tensor.data is not None)
    if tensor.alias_of is None:
        return tensor.id in made
    is_whole = not tensor.offset_bytes and tensor.size_bytes == model.tensors[tensor.alias_of].size_bytes
    return tensor.id not in made and is_whole and tensor.alias_of < tensor.id


def _is_node(model: Model, step: Step) -> bool:
    """Return whether a step is a node of a graph: its outputs in a row, named after it, and a plain call."""
    count = len(step.outputs)
    names = [f"{step.name}:{i}" if i else step.name for i in range(count)]
    return (
        count > 0
        and step.outputs == tuple(range(step.outputs[0], step.outputs[0] + count))
        and [model.tensors[i].name for i in step.outputs] == names
        and (step.is_packed or facts_of(step) is not None)
    )


def _calls(model: Model, members: Mapping[str, str]) -> dict[int, Call]:
    """Nodes by the tensor that they are called as: calls, and other names of tensors."""
    steps = {step.outputs[0]: step for step in model.steps}
    result = {}
    for tensor in model.tensors:
        step = steps.get(tensor.id)
        if step is None and tensor.alias_of is None:
            continue
        inputs = (tensor.alias_of or 0,) if step is None else step.inputs
        result[tensor.id] = Call(
            name=tensor.name,
            symbol=NOP if step is None else step.symbol,
            inputs=tuple(model.tensors[i].name for i in inputs),
            outputs=tuple(_type(model.tensors[i]) for i in (step.outputs if step else (tensor.id,))),
            facts=None if step is None or step.is_packed else facts_of(_with_members(step, members)),
        )
    return result


def _sequence(model: Model, calls: Mapping[int, Call]) -> tuple[str, ...]:
    return tuple(t.name for t in model.tensors if t.id in calls or t.kind is not TensorKind.INTERMEDIATE)


# ---- tensors and steps as they are ----


def _parameter_names(model: Model) -> dict[int, str]:
    """Names of the parameters by tensor, each once in the file."""
    result: dict[int, str] = {}
    for tensor in model.tensors:
        taken = tensor.name in result.values()
        result[tensor.id] = f"{tensor.name}#{tensor.id}" if taken else tensor.name
    return result


def _stated(model: Model, names: Mapping[int, str], members: Mapping[str, str]) -> StatedModel:
    return StatedModel(
        executor=model.executor,
        tensors=tuple(_stated_tensors(model, names)),
        inputs=model.inputs,
        outputs=model.outputs,
        steps=tuple(_with_members(step, members) for step in model.steps),
        alignment=model.alignment,
        exports=model.exports,
        is_analysed=model.is_analysed,
    )


def _stated_tensors(model: Model, names: Mapping[int, str]) -> Iterator[StatedTensor]:
    for tensor in model.tensors:
        yield StatedTensor(
            name=tensor.name,
            dtype=tensor.dtype.name,
            shape=tensor.shape,
            kind=tensor.kind,
            alias_of=tensor.alias_of,
            offset_bytes=tensor.offset_bytes,
            param=names[tensor.id] if tensor.data is not None else "",
            quantisation=tensor.quantisation,
        )


def _with_members(step: Step, members: Mapping[str, str]) -> Step:
    """The step with the members of the new archive."""
    abi = step.abi
    header, unit = members.get(abi.header, ""), members.get(abi.unit, "")
    return dataclasses.replace(step, abi=dataclasses.replace(abi, header=header, unit=unit))
