# SPDX-License-Identifier: Apache-2.0
"""Budget of elements and work for what is computed from the constants of one file.

Sixty Concats of a tensor with itself make 2**60 elements of one. The shapes of results are inferred before
anything is computed, and a file's constants together may take no more than is worth it.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.onnx.file import require_onnx
from mlf_sdk.compiler.onnx.raw import RawNode
from mlf_sdk.compiler.operators import Array
from mlf_sdk.errors import InputError

MAX_FOLDED: Final = 1 << 24  # elements, beyond those of the file's own tensors
MAX_WORK: Final = 1 << 31  # steps of some nanoseconds
MAX_REPEATED: Final = 4096  # nodes of bodies of loops, each as often as it is repeated
_OF_A_NODE: Final = 1 << 14
_SLOW: Final = 1 << 14  # of an element that ONNX's reference computes in Python
_SHAPES: Final = 64  # elements of an input that may be a shape
_COUNTED: Final = frozenset(
    ("NonZero", "Unique", "Compress", "NonMaxSuppression")
)  # shapes depend on numbers
_PRODUCTS: Final = frozenset(("MatMul", "MatMulInteger", "QLinearMatMul"))
# Operators whose reference takes some nanoseconds an element.
_QUICK: Final = frozenset((
    "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh",
    "BatchNormalization", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor",
    "BlackmanWindow", "Cast", "CastLike", "Ceil", "CenterCropPad", "Clip", "Compress", "Concat",
    "ConstantOfShape", "Cos", "Cosh", "CumSum", "DepthToSpace", "DequantizeLinear", "Div", "Dropout", "Elu",
    "Equal", "Exp", "Expand", "EyeLike", "Flatten", "Floor", "Gather", "Greater", "GreaterOrEqual",
    "HammingWindow", "HannWindow", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN",
    "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax", "Max", "Mean", "Min",
    "Mod", "Mul", "Neg", "NonZero", "Not", "OneHot", "Or", "PRelu", "Pad", "Pow", "QuantizeLinear", "Range",
    "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Round", "Selu", "Shape",
    "Sigmoid", "Sign", "Sin", "Sinh", "Size", "Slice", "Softmax", "Softplus", "Softsign", "SpaceToDepth",
    "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Swish", "Tan", "Tanh", "Tile", "TopK", "Transpose", "Trilu",
    "Unique", "Unsqueeze", "Where", "Xor",
))  # fmt: skip


class BudgetError(InputError):
    """Constants of a file that would take too much memory or time."""


class Budget:
    """Elements, steps and repeated nodes that are left.

    Args:
        elements: of the file's own tensors.
    """

    def __init__(self, elements: int) -> None:
        self.elements = MAX_FOLDED + elements
        self.work = MAX_WORK + elements
        self.repeated = MAX_REPEATED

    def repeat(self, nodes: int) -> None:
        """Take off nodes of a body; raises BudgetError where they are more than are left."""
        self.repeated -= nodes
        if self.repeated < 0:
            raise BudgetError(
                f"its body would be repeated too often: at most {MAX_REPEATED} nodes of loops are read. "
                "Export the model without it"
            )

    def spend(self, elements: float, work: float) -> None:
        """Take off what a node needs; raises BudgetError where that is more than is left."""
        if elements > self.elements:
            raise BudgetError(
                f"its constant result has {elements:.3g} elements; {self.elements:.3g} more may be computed "
                "when the model is read. Cut the model, or fold constants when it is exported"
            )
        if work > self.work:
            raise BudgetError(
                f"it is computed from constants, in {work:.3g} steps; {self.work:.3g} more may be taken "
                "when the model is read. Fold constants when the model is exported"
            )
        self.elements -= int(elements)
        self.work -= int(work)


def cost_of(raw: RawNode, arrays: dict[str, Array], opset: int) -> tuple[float, float] | None:
    """Elements of the results of a node and steps that they take; None where that is not known before.

    Args:
        arrays: its inputs by name.

    Raises:
        InferenceError: of onnx: the node can't be computed from its inputs.
    """
    onnx = require_onnx()
    try:
        schema = onnx.defs.get_schema(raw.kind, opset, "")
    except onnx.defs.SchemaError:
        return None
    helper = onnx.helper
    given = {
        n: helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in arrays.items()
    }
    shapes = {n: onnx.numpy_helper.from_array(a, n) for n, a in arrays.items() if a.size <= _SHAPES}
    versions = [helper.make_opsetid("", opset)]
    result = onnx.shape_inference.infer_node_outputs(schema, raw.proto, given, shapes, opset_imports=versions)
    read = float(sum(a.size for a in arrays.values()))
    counts = [_elements(result.get(name)) for name in raw.outputs if name]
    if any(count is None for count in counts):
        if raw.kind not in _COUNTED:
            return None
        counts = [8.0 * read]  # places of all elements, of at most eight axes
    written = sum(count for count in counts if count is not None)
    return written, _OF_A_NODE + _work(raw, [arrays[n] for n in raw.inputs if n], read, written)


def _elements(result: Any) -> float | None:  # noqa: ANN401 - a message of protobuf
    if result is None or not result.tensor_type.HasField("shape"):
        return None
    extents = result.tensor_type.shape.dim
    return (
        math.prod((float(d.dim_value) for d in extents), start=1.0)
        if all(d.HasField("dim_value") for d in extents)
        else None
    )


def _work(raw: RawNode, arrays: list[Array], read: float, written: float) -> float:
    if raw.kind in _PRODUCTS:
        return read + written * max(arrays[0].shape[-1:] or (1,))
    if raw.kind == "Gemm":
        return read + written * max(arrays[0].shape)
    if raw.kind == "Einsum":
        return read + _products(str(raw.attributes.get("equation", "")), arrays)
    return (read + written) * (1 if raw.kind in _QUICK else _SLOW)


def _products(equation: str, arrays: list[Array]) -> float:
    """Product of the extents of all indices; at most that of all operands."""
    extents: dict[str, int] = {}
    for labels, array in zip(
        equation.split("->", maxsplit=1)[0].replace(" ", "").split(","), arrays, strict=False
    ):
        if "." in labels or len(labels) != array.ndim:
            return math.prod(float(a.size) for a in arrays)
        extents |= dict(zip(labels, array.shape, strict=True))
    return math.prod((float(e) for e in extents.values()), start=1.0)


def elements_of(constants: dict[str, Array]) -> int:
    """Elements of a file's own tensors."""
    return int(np.sum([a.size for a in constants.values()], dtype=np.int64))
