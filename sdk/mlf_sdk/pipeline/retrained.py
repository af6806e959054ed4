# SPDX-License-Identifier: Apache-2.0
"""A retrained model for firmware that has kernels compiled for it: compiled alike, and compared.

Parameters of compiled kernels are packed and folded: biases, requantisation and zero points are in them. So
a model is compiled as that of the firmware was; where the kernels that come of it are the same, its constants
are the firmware's new parameters.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mlf_sdk.codegen.dynamic import code_id, dynamic_model
from mlf_sdk.codegen.graphblob import BlobName, GraphBlob, read_graph_blob
from mlf_sdk.codegen.link import unit_paths
from mlf_sdk.codegen.lock import LockModel, choose_model, read_lock
from mlf_sdk.codegen.tensortext import quantisation_text
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.compiled import compiling_frontend
from mlf_sdk.ir.model import Model, Step, UnitKind
from mlf_sdk.planner.layout import lay_out
from mlf_sdk.tools.files import read_bounded

_MOST_BYTES = 1 << 28
_HINT = "Build and flash its project instead."
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_FUNCTION = re.compile(r"^(?=[a-z_].*\b\w+\(.*\)$)", re.MULTILINE)  # at the start of a line, before its body
_NAME = re.compile(r"(\w+)\((?!\()")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    """A model of a project: what new parameters are for."""

    folder: Path
    model: LockModel
    graph: GraphBlob


def firmware_of(folder: Path, module: str | None) -> Firmware:
    """A model of a project whose parameters can be replaced.

    Raises:
        InputError: they can't, or it is no such project.
    """
    lock = read_lock(folder)
    if lock.options.executor != "graph":
        raise InputError(
            "the parameters of this project can't be replaced",
            where=str(folder),
            hint="Generate it again with --executor graph --trust KEYS.",
        )
    model = choose_model(lock, module, folder)
    path = folder / "model" / model.c_name / f"{model.c_name}_graph.bin"
    graph = read_graph_blob(read_bounded(path, _MOST_BYTES), str(path))
    return Firmware(folder=folder, model=model, graph=graph)


def compile_for(path: Path, firmware: Firmware) -> Model:
    """Compile a model with the options of the firmware's; only values of parameters may differ.

    Raises:
        InputError: it can't be read or compiled, or has other layers, connections, kernels, inputs or
            outputs.
    """
    old = firmware.model
    options = CompileOptions.from_texts(old.compile_options)
    new = compiling_frontend(path).model(path, options, old.name)
    where = path.name
    layout = lay_out(new, keep_inputs=old.inputs_kept)
    _check_layers(layout.steps, old, where)
    if code_id(new) != firmware.graph.code_id:
        different = next(_other_code(new, firmware), None)
        layer = "" if different is None else f": {different} has constants in its code that are others"
        raise InputError(
            f"the model's kernels are not the firmware's{layer}",
            where=where,
            hint=f"Train with the ranges (scales and zero points) of the old model kept, or: {_HINT}",
        )
    _check_edges(new, old, where)
    graph = dynamic_model(layout).graph
    if _without_names(graph) != _without_names(firmware.graph):
        raise InputError("the model's layers are connected in another way", where=where, hint=_HINT)
    return new


def _check_layers(steps: Sequence[Step], old: LockModel, where: str) -> None:
    """Compare kernels step by step."""
    if len(steps) != len(old.steps):
        what = f"the model has {len(steps)} steps, the firmware's {len(old.steps)}"
        raise InputError(what, where=where, hint=_HINT)
    for step, known in zip(steps, old.steps, strict=True):
        layer, other = step.layer, known.layer
        if layer is None or other is None:
            continue
        if (layer.operator, layer.detail, layer.kernel) != (other.operator, other.detail, other.kernel):
            raise InputError(
                f"layer {layer.number} ({layer.operator} {layer.detail}) is computed by the kernel "
                f"{layer.kernel}; the firmware has {other.kernel} for {other.text} there",
                where=where,
                hint=_HINT,
            )


def _other_code(new: Model, firmware: Firmware) -> Iterator[str]:
    """Layers whose functions, with all that they call, are not those of the firmware."""
    folder = firmware.folder / "model" / firmware.model.c_name
    paths = unit_paths(new)
    ours: dict[str, str] = {}
    theirs: dict[str, str] = {}
    for unit in new.units:
        known = folder / paths[unit.member]
        if unit.kind is UnitKind.C and known.is_file():
            ours |= _functions(unit.data)
            theirs |= _functions(read_bounded(known, _MOST_BYTES))
    for step in new.steps:
        if step.layer is not None and _text(ours, step.symbol) != _text(theirs, step.symbol):
            yield f"layer {step.layer.number} ({step.layer.operator} {step.layer.detail})"


def _functions(source: bytes) -> dict[str, str]:
    parts = _FUNCTION.split(_COMMENT.sub("", source.decode(errors="replace")))
    named = ((_NAME.search(part.removeprefix("__attribute__")), part) for part in parts)
    return {name[1]: part for name, part in named if name is not None}


def _text(functions: dict[str, str], name: str) -> str:
    """The text of a function and of all that it calls."""
    names = [name]
    for one in names:  # grows
        words = dict.fromkeys(_WORD.findall(functions.get(one, "")))
        names += [word for word in words if word in functions and word not in names]
    return "".join(functions.get(one, "") for one in names)


def _check_edges(new: Model, old: LockModel, where: str) -> None:
    """The application converts inputs and outputs by the numbers of the old model."""
    ids = (*new.inputs, *new.outputs)
    for number, known in zip(ids, (*old.inputs, *old.outputs), strict=True):
        now = quantisation_text(new.tensors[number])
        if (now["scale"], now["zero_point"]) != (known.scale, known.zero_point):
            raise InputError(
                f"{known.name}: scale {now['scale']} and zero point {now['zero_point']} in place of "
                f"{known.scale} and {known.zero_point}, which the application was built with",
                where=where,
                hint=f"Train with the ranges of the old model's inputs and outputs kept, or: {_HINT}",
            )


def _without_names(graph: GraphBlob) -> GraphBlob:
    def plain(items: tuple[BlobName, ...]) -> tuple[BlobName, ...]:
        return tuple(msgspec.structs.replace(item, name="") for item in items)

    return dataclasses.replace(
        graph,
        name="",
        inputs=plain(graph.inputs),
        outputs=plain(graph.outputs),
        params=plain(graph.params),
        archive_sha256=bytes(32),
    )
