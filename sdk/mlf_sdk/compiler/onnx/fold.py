# SPDX-License-Identifier: Apache-2.0
"""Nodes whose inputs are all constant are computed when the model is read, by ONNX's own reference."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.builder import refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.file import MAX_ELEMENTS, RawNode, require_onnx
from mlf_sdk.compiler.onnx.node import Node
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
    _bounded(context, raw)
    for name, array in zip(raw.outputs, _evaluated(context, raw), strict=False):
        if name:
            context.constant(name, np.asarray(array))
    return True


def _constant(raw: RawNode) -> Array:
    for name, value in raw.attributes.items():
        if name in ("value", "value_float", "value_int", "value_floats", "value_ints"):
            dtype = np.float32 if "float" in name else np.int64
            return np.asarray(value) if name == "value" else np.asarray(value, dtype)
    return refuse("has no value that is supported")


def _shape(context: Context, raw: RawNode) -> None:
    shape = context.tensors[raw.inputs[0]].shape
    if raw.kind == "Size":
        context.constant(raw.outputs[0], np.array(math.prod(shape), np.int64))
        return
    start, end = raw.attributes.get("start"), raw.attributes.get("end")
    context.constant(raw.outputs[0], np.array(shape[slice(start, end)], np.int64))


def _bounded(context: Context, raw: RawNode) -> None:
    """Refuse a node whose result would be huge, before it is computed."""
    node = Node(context, raw)
    data = [t.data for t in node.inputs if t.data is not None]
    count = 0.0
    if raw.kind == "ConstantOfShape":
        count = float(np.prod(data[0].astype(np.float64)))
    elif raw.kind == "Range":
        count = float(
            abs((data[1].astype(np.float64) - data[0]) / max(abs(float(data[2].reshape(-1)[0])), 1e-30)).max()
        )
    elif raw.kind in ("Expand", "Tile"):
        count = float(data[0].size) * float(np.prod(np.maximum(data[1].astype(np.float64), 1)))
    elif raw.kind in ("Resize", "Upsample", "Pad", "OneHot", "EyeLike"):
        count = (
            float(data[0].size)
            * float(max((abs(float(v)) + 1) for d in data[1:] for v in d.reshape(-1)[:64])) ** 4
            if len(data) > 1
            else 0.0
        )
    elif len(data) > 1 and raw.kind not in ("Concat", "MatMul", "Gemm", "Gather"):
        try:
            count = float(np.prod(np.array(np.broadcast_shapes(*(d.shape for d in data)), np.float64)))
        except ValueError:
            count = 0.0
    if count > MAX_ELEMENTS:
        refuse(f"its constant result would have {count:.3g} elements; at most {MAX_ELEMENTS} are computed")


def _evaluated(context: Context, raw: RawNode) -> list[Any]:
    onnx = require_onnx()
    from onnx.reference import ReferenceEvaluator

    names = [n for n in raw.inputs if n]
    feeds = {n: data for n in names if (data := context.tensors[n].data) is not None}
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [raw.proto],
            "constant",
            [
                onnx.helper.make_tensor_value_info(
                    n, onnx.helper.np_dtype_to_tensor_dtype(feeds[n].dtype), None
                )
                for n in dict.fromkeys(names)
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
