# SPDX-License-Identifier: Apache-2.0
"""Nodes whose inputs are all constant are computed when the model is read, by ONNX's own reference."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.graph import refuse
from mlf_sdk.compiler.onnx.budget import cost_of
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.file import require_onnx
from mlf_sdk.compiler.onnx.raw import RawNode
from mlf_sdk.compiler.onnx.tensor import axis_of
from mlf_sdk.compiler.operators import Array

RANDOM: Final = {
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Multinomial",
    "Bernoulli",
}


def fold(context: Context, raw: RawNode) -> bool:
    """Compute a node, if that is possible now; False where it depends on the input of a run."""
    if raw.kind == "Constant":
        context.constant(raw.outputs[0], _constant(raw))
        return True
    if raw.kind in ("Shape", "Size") and raw.inputs and raw.inputs[0] in context.tensors:
        _shape(context, raw)
        return True
    tensors = [context.tensors[n] for n in raw.inputs if n]
    if any(t.data is None for t in tensors) or raw.proto is None or raw.kind in RANDOM:
        return False
    if (
        any(a.type == a.GRAPH for a in raw.proto.attribute)
        or "." in raw.kind
        or raw.kind == "DequantizeLinear"
    ):
        return False
    feeds = {n: t.data for n, t in zip(filter(None, raw.inputs), tensors, strict=True) if t.data is not None}
    cost = _cost(context, raw, feeds)
    if cost is None:
        return False
    context.budget.spend(*cost)
    for name, array in zip(raw.outputs, _evaluated(context, raw, feeds), strict=False):
        if name:
            context.constant(name, np.asarray(array))
    return True


def _constant(raw: RawNode) -> Array:
    for name, value in raw.attributes.items():
        if name in ("value", "value_float", "value_int", "value_floats", "value_ints"):
            dtype = np.float32 if "float" in name else np.int64
            return np.asarray(value) if name == "value" else np.asarray(value, dtype)
        if name in ("value_string", "value_strings"):
            return np.asarray(value, np.object_)
    return refuse("has no value that is supported")


def _shape(context: Context, raw: RawNode) -> None:
    shape = context.tensors[raw.inputs[0]].shape
    if raw.kind == "Size":
        context.constant(raw.outputs[0], np.array(math.prod(shape), np.int64))
        return
    start, end = raw.attributes.get("start"), raw.attributes.get("end")
    context.constant(raw.outputs[0], np.array(shape[slice(start, end)], np.int64))


def _cost(context: Context, raw: RawNode, feeds: dict[str, Array]) -> tuple[float, float] | None:
    shapes = require_onnx().shape_inference
    try:
        return cost_of(raw, feeds, context.opset)
    except (shapes.InferenceError, require_onnx().checker.ValidationError) as error:
        refuse(f"can't be computed from its constants: {str(error)[:200]}")


def _evaluated(context: Context, raw: RawNode, feeds: dict[str, Array]) -> list[Any]:
    if raw.kind == "GatherElements":  # of which the reference takes 64 rows at most
        data, indices = (feeds[name] for name in raw.inputs)
        axis = axis_of(raw.attributes.get("axis", 0), data.ndim)
        read = tuple(slice(None if a == axis else n) for a, n in enumerate(indices.shape))
        return [np.take_along_axis(data[read], indices, axis)]
    onnx = require_onnx()
    from onnx.reference import ReferenceEvaluator

    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [raw.proto],
            "constant",
            [
                onnx.helper.make_tensor_value_info(
                    n, onnx.helper.np_dtype_to_tensor_dtype(feeds[n].dtype), None
                )
                for n in feeds
            ],
            [onnx.helper.make_empty_tensor_value_info(o) for o in raw.outputs if o],
        ),
        opset_imports=[onnx.helper.make_opsetid("", context.opset)],
    )
    try:
        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(model).run(None, feeds))
    except Exception as error:
        refuse(f"can't be computed from its constants: {str(error)[:200]}")
