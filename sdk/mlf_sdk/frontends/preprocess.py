# SPDX-License-Identifier: Apache-2.0
"""A model with the code of what comes before it, as a function for the application or as its first step."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from mlf_sdk.compiler.preprocess.section import NAME
from mlf_sdk.errors import InputError
from mlf_sdk.ir.abi import Value, call_with
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import CodeUnit, Model, UnitKind
from mlf_sdk.ir.step import WINDOW, Step
from mlf_sdk.ir.tensor import InputFacts, Preprocessing, Section, Tensor, TensorKind

if TYPE_CHECKING:
    from mlf_sdk.compiler.preprocess.plan import Raw

_FOLDER = "preprocess"


def with_preprocessing(model: Model, section: Section, *, as_step: bool) -> Model:
    """Add the code of a preprocessing to a model.

    Args:
        as_step: the model takes the raw frame or sound in place of the input, and its first step prepares it;
            else the application calls ``NAME_preprocess()``.

    Raises:
        InputError: a key of the section does not fit the model; it is named.
    """
    from mlf_sdk.compiler.preprocess.plan import files_of, plan_of, raw_of  # numpy takes time to load

    preprocessing = preprocessing_of(model, section, is_step=as_step)
    raw = raw_of(plan_of(preprocessing))
    header, sources, headers = files_of(model.c_name, preprocessing)
    units = [_unit(header[0], header[1], UnitKind.HEADER)]
    units += [_unit(name, text, UnitKind.HEADER) for name, text in headers.items()]
    units += [_unit(name, one.text, UnitKind.C, one.symbols) for name, one in sources.items()]
    result = dataclasses.replace(model, units=(*model.units, *units), preprocessing=preprocessing)
    return _with_step(result, preprocessing, raw, units[0].member) if as_step else result


def preprocessing_of(model: Model, section: Section, *, is_step: bool) -> Preprocessing:
    """A section for the input of a model that it is for.

    Raises:
        InputError: ``input`` names none, or must name one.
    """
    position = _input_of(model, section)
    facts = _facts_of(model.tensors[model.inputs[position]])
    return Preprocessing(section=section, input=position, facts=facts, is_step=is_step)


def _facts_of(tensor: Tensor) -> InputFacts:
    """Facts of a tensor that preprocessing depends on."""
    quantisation = tensor.quantisation
    if quantisation is None or quantisation.axis is not None:
        return InputFacts(shape=tensor.shape, dtype=tensor.dtype.name)
    scale, zero_point = quantisation.scale[0], quantisation.zero_point[0]
    return InputFacts(shape=tensor.shape, dtype=tensor.dtype.name, scale=scale, zero_point=zero_point)


def _input_of(model: Model, section: Section) -> int:
    names = [model.tensors[i].name for i in model.inputs]
    where, hint = f"[{NAME}] input", f"Its inputs are: {', '.join(names)}."
    if section.input and section.input not in names:
        raise InputError(f"the model has no input '{section.input}'", where=where, hint=hint)
    if not section.input and len(names) != 1:
        raise InputError(f"the model has {len(names)} inputs: one must be named", where=where, hint=hint)
    position, options = names.index(section.input) if section.input else 0, model.provenance.options
    in_parts = {"row by row": model.inputs[position] == model.streamed, "frame by frame": WINDOW in options}
    for how, is_so in in_parts.items():
        if is_so:
            raise InputError(
                f"the input comes {how}: nothing whole could be written to it",
                where=where,
                hint=f"Leave out --stream and --frames, or the section [{NAME}].",
            )
    return position


def _unit(name: str, text: str, kind: UnitKind, symbols: tuple[str, ...] = ()) -> CodeUnit:
    member = f"{_FOLDER}/{name}"
    return CodeUnit(member=member, kind=kind, data=text.encode(), linked=True, symbols=symbols, clean=True)


def _with_step(model: Model, preprocessing: Preprocessing, raw: Raw, header: str) -> Model:
    """The model with a step in front that writes what was its input."""
    tensors = list(model.tensors)
    target = model.inputs[preprocessing.input]
    source = Tensor(
        id=len(tensors),
        name=raw.name,
        c_name=f"{_FOLDER}_{raw.name}",
        dtype=DType.parse(raw.dtype),
        shape=raw.shape,
        kind=TensorKind.INPUT,
    )
    tensors[target] = dataclasses.replace(tensors[target], kind=TensorKind.INTERMEDIATE)
    symbol = f"{model.c_name}_{_FOLDER}"
    step = Step(
        index=0,
        name=symbol,
        symbol=symbol,
        inputs=(source.id,),
        outputs=(target,),
        abi=call_with((Value.of_tensor(source.id), Value.of_tensor(target)), result="void", header=header),
        kernels=(symbol,),
        opaque_reason="",
    )
    return dataclasses.replace(
        model,
        tensors=(*tensors, source),
        inputs=tuple(source.id if i == target else i for i in model.inputs),
        steps=(step, *(dataclasses.replace(one, index=one.index + 1) for one in model.steps)),
    )
