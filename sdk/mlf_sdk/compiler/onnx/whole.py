# SPDX-License-Identifier: Apache-2.0
"""An ONNX model whose kernels TVM generates, all of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.onnx.fallback import imported
from mlf_sdk.compiler.onnx.file import require_onnx
from mlf_sdk.compiler.onnx.raw import RawModel
from mlf_sdk.compiler.options import Generation
from mlf_sdk.errors import InputError


def whole_graph(
    path: Path, raw: RawModel, name: str, shapes: list[tuple[int, ...]], generation: Generation
) -> Graph:
    """The graph of a model as TVM reads it.

    Args:
        raw: the model as it was read and checked.
        shapes: of its inputs.

    Raises:
        InputError: TVM is not installed, can't read the model, or can't express it in C.
    """
    from mlf_sdk.compiler.relax.package import require_tvm
    from mlf_sdk.compiler.relax.translate import relax_graph

    require_tvm("--kernels tvm")
    fixed = {given.name: shape for given, shape in zip(raw.inputs, shapes, strict=True)}
    try:
        module = imported(require_onnx().load(path), fixed)
        graph = relax_graph(module, None, name, unroll=generation.unroll, schedule=generation.schedule)
    except InputError as error:
        raise InputError(error.what, where=str(path), hint="Leave out --kernels tvm.") from error
    values = list(graph.values)
    names = zip((*graph.inputs, *graph.outputs), (*(i.name for i in raw.inputs), *raw.outputs), strict=True)
    for number, stated in names:
        values[number] = dataclasses.replace(values[number], name=stated)
    return dataclasses.replace(graph, values=tuple(values))
