# SPDX-License-Identifier: Apache-2.0
"""Models of one operator each: every operator and type that TFLM computes, with random shapes and numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tflite_models import Maker

Array = np.ndarray[Any, np.dtype[Any]]
Shape = tuple[int, ...]
Options = tuple[str, dict[str, Any]] | None


@dataclass
class Case:
    """One operator in a model of its own."""

    maker: Maker
    dtype: str

    @property
    def random(self) -> np.random.Generator:
        return self.maker.random

    def value(self, shape: Shape, dtype: str = "", *, scale: float = 0.0, zero: int | None = None) -> int:
        """A tensor of the case's type, or of another; with a random scale where it is quantised."""
        dtype, spec = dtype or self.dtype, self.maker.spec
        name = f"t{len(spec.tensors)}"
        if dtype not in ("int8", "int16", "uint8"):
            return spec.tensor(name, dtype, shape)
        scale = scale or float(self.random.uniform(0.01, 0.1)) / (256 if dtype == "int16" else 1)
        if zero is None:
            zero = int(self.random.integers(-90, 90)) if dtype == "int8" else 0
        return spec.tensor(name, dtype, shape, scale=(float(np.float32(scale)),), zero_point=(zero,))

    def input(self, shape: Shape, dtype: str = "", **more: Any) -> int:
        number = self.value(shape, dtype, **more)
        self.maker.spec.inputs.append(number)
        return number

    def constant(self, data: Any, dtype: str = "int32") -> int:
        array = np.array(data, dtype)
        return self.maker.spec.tensor(f"c{len(self.maker.spec.tensors)}", dtype, array.shape, data=array)

    def weights(self, shape: Shape, scale: float = 0.01) -> int:
        """Constants of the case's type; int8 ones beside int16 activations."""
        if self.dtype == "float32":
            return self.constant(self.random.normal(0, 0.3, shape), "float32")
        dtype = "int8"
        data = self.random.integers(-127, 128, shape).astype(dtype)
        return self.maker.spec.tensor(
            f"w{len(self.maker.spec.tensors)}", dtype, shape, scale=(scale,), zero_point=(0,), data=data
        )

    def bias(self, count: int) -> int:
        dtype = {"int8": "int32", "int16": "int64"}.get(self.dtype, "float32")
        data = self.random.integers(-3000, 3000, count)
        return self.constant(data / 3000 if dtype == "float32" else data, dtype)

    def bare(self, shape: Shape, dtype: str) -> int:
        """A tensor without a scale."""
        return self.maker.spec.tensor(f"t{len(self.maker.spec.tensors)}", dtype, shape)

    def like(self, x: int, shape: Shape) -> int:
        """A tensor with the quantisation of another."""
        old = self.maker.spec.tensors[x]
        return self.maker.spec.tensor(
            f"t{len(self.maker.spec.tensors)}", old.dtype, shape, scale=old.scale, zero_point=old.zero_point
        )

    def finish(self, kind: str, inputs: tuple[int, ...], *outputs: int, options: Options = None) -> bytes:
        self.maker.spec.add(kind, inputs, outputs[0], options)
        self.maker.spec.operators[-1].outputs = outputs
        return self.maker.finish(*outputs)


Build = Callable[[Case], bytes]
CASES: dict[str, tuple[tuple[str, ...], Build]] = {}
QUANTISED = ("int8", "int16")
ALL = (*QUANTISED, "float32")


def operator(name: str, *dtypes: str) -> Callable[[Build], Build]:
    """Register the builder of a case for some types."""

    def register(build: Build) -> Build:
        CASES[name] = (dtypes, build)
        return build

    return register


def model_of(name: str, dtype: str, seed: int) -> bytes:
    """The model of a case."""
    return CASES[name][1](Case(Maker(seed), dtype))


def _unary(
    kind: str, *dtypes: str, options: Options = None, scale: float = 0.0, zero: int | None = None
) -> None:
    def build(c: Case) -> bytes:
        x = c.input((1, 3, 5, 4), zero=0 if zero is not None else None)
        y = c.value((1, 3, 5, 4), scale=scale, zero=zero)
        return c.finish(kind, (x,), y, options=options)

    operator(kind, *dtypes)(build)


for _kind in ("FLOOR", "CEIL", "ROUND", "SIN", "COS", "SQUARE", "NEG", "EXP"):
    _unary(_kind, "float32")
for _kind in ("ABS", "HARD_SWISH", "ELU", "RELU", "RELU6"):
    _unary(_kind, *(("int8", "int16", "float32") if _kind in ("ABS", "RELU") else ("int8", "float32")))
_unary("LEAKY_RELU", *ALL, options=("LeakyReluOptions", {"Alpha": 0.1}))


@operator("LOGISTIC", *ALL)
def _logistic(c: Case) -> bytes:
    eight = c.dtype == "int8"
    x = c.input((2, 3, 7), zero=None if eight else 0)
    return c.finish(
        "LOGISTIC", (x,), c.value((2, 3, 7), scale=1 / (256 if eight else 32768), zero=-128 if eight else 0)
    )


@operator("TANH", *ALL)
def _tanh(c: Case) -> bytes:
    x = c.input((2, 3, 7), zero=None if c.dtype == "int8" else 0)
    return c.finish("TANH", (x,), c.value((2, 3, 7), scale=1 / (128 if c.dtype == "int8" else 32768), zero=0))


@operator("SOFTMAX", *ALL)
def _softmax(c: Case) -> bytes:
    eight = c.dtype == "int8"
    y = c.value((3, 7), scale=1 / (256 if eight else 32768), zero=-128 if eight else 0)
    return c.finish("SOFTMAX", (c.input((3, 7)),), y, options=("SoftmaxOptions", {"Beta": 1.0}))


@operator("LOG_SOFTMAX", "int8", "float32")
def _log_softmax(c: Case) -> bytes:
    return c.finish("LOG_SOFTMAX", (c.input((3, 7)),), c.value((3, 7), scale=16 / 256, zero=127))


@operator("RSQRT", "int8", "float32")
def _rsqrt(c: Case) -> bytes:
    x = c.input((2, 9))
    if c.dtype == "int8":  # of values that are not negative
        c.maker.spec.tensors[x].zero_point = (-128,)
        return c.finish("RSQRT", (x,), c.value((2, 9), scale=float(c.random.uniform(0.01, 0.2))))
    y = c.maker.spec.add("ABS", (x,), c.value((2, 9)))
    return c.finish("RSQRT", (y,), c.value((2, 9)))


@operator("RELU6 of words", "int16")
def _relu6_of_words(c: Case) -> bytes:
    """With a zero point that TFLM, which keeps stored values, does not ask to be 0."""
    scale = float(c.random.uniform(0.0001, 0.001))
    x = c.input((1, 3, 5, 4), scale=scale, zero=int(c.random.integers(-90, 90)))
    return c.finish("RELU6", (x,), c.like(x, (1, 3, 5, 4)))


def _whole(name: str, *dtypes: str) -> None:
    @operator(f"{name} of whole numbers", *dtypes)
    def build(c: Case) -> bytes:
        a, b, y = (c.bare(shape, c.dtype) for shape in ((2, 3, 4), (4,), (2, 3, 4)))
        c.maker.spec.inputs += [a, b]
        return c.finish(name, (a, b), y)


_whole("MAXIMUM", "int8", "int16", "int64")
_whole("MINIMUM", "int8", "int16", "int64")
_whole("SQUARED_DIFFERENCE", "int32")
for _kind in ("MUL", "MAXIMUM", "SQUARED_DIFFERENCE", "LESS"):

    def _of_scaled_words(c: Case, kind: str = _kind) -> bytes:
        """Scales that differ, which TFLM does not read."""
        last = ((2, 3, 4), "bool" if kind == "LESS" else "int32")
        a, b, y = (c.bare(*tensor) for tensor in (((2, 3, 4), "int32"), ((4,), "int32"), last))
        for number, one in enumerate((a, b, y), start=1):
            c.maker.spec.tensors[one].scale, c.maker.spec.tensors[one].zero_point = (0.1 * number,), (0,)
        c.maker.spec.inputs += [a, b]
        return c.finish(kind, (a, b), y)

    operator(f"{_kind} of scaled words", "int32")(_of_scaled_words)


@operator("SQRT", "float32")
def _sqrt(c: Case) -> bytes:
    x = c.input((2, 9))
    y = c.maker.spec.add("SQUARE", (x,), c.value((2, 9)))
    return c.finish("SQRT", (y,), c.value((2, 9)))


@operator("LOG", "float32")
def _log(c: Case) -> bytes:
    x = c.input((2, 9))
    y = c.maker.spec.add("EXP", (x,), c.value((2, 9)))
    return c.finish("LOG", (y,), c.value((2, 9)))


@operator("PRELU", *ALL)
def _prelu(c: Case) -> bytes:
    return c.finish("PRELU", (c.input((1, 3, 4, 5)), c.weights((1, 1, 5))), c.value((1, 3, 4, 5)))


def _binary(kind: str, *dtypes: str, options: str = "", broadcast: bool = True) -> None:
    def build(c: Case) -> bytes:
        wide = c.random.integers(0, 2) and broadcast
        a, b = c.input((1, 3, 4, 5)), c.input((1, 1, 1, 5) if wide else (1, 3, 4, 5))
        y = c.value((1, 3, 4, 5))
        activation = 0 if (kind, c.dtype) == ("ADD", "int32") else int(c.random.integers(0, 2))
        fields = {"FusedActivationFunction": activation} if options in _FUSED else {}
        return c.finish(kind, (a, b), y, options=(options, fields) if options else None)

    operator(kind, *dtypes)(build)


_FUSED = ("AddOptions", "SubOptions", "MulOptions", "DivOptions")
_binary("ADD", *ALL, "int32", options="AddOptions")
_binary("SUB", *ALL, "int32", options="SubOptions")
_binary("MUL", *ALL, "int32", options="MulOptions")
_binary("SQUARED_DIFFERENCE", *ALL)
_binary("FLOOR_DIV", "float32")
_binary("FLOOR_MOD", "float32")


@operator("DIV", "int8", "float32")
def _div(c: Case) -> bytes:
    a = c.input((1, 3, 4, 5))
    if (
        c.dtype == "int8"
    ):  # where TFLM shifts by more than 31 bits, its results are those of the host's processor
        scale = float(np.float32(c.random.uniform(0.01, 0.1)))
        data = c.random.integers(10, 120, (1, 1, 1, 5)).astype(np.int8)
        b = c.maker.spec.tensor("divisor", "int8", data.shape, scale=(scale,), zero_point=(-3,), data=data)
        y = c.value((1, 3, 4, 5), scale=c.maker.spec.tensors[a].scale[0] / scale / 40)
        return c.finish("DIV", (a, b), y, options=("DivOptions", {"FusedActivationFunction": 0}))
    b = c.maker.spec.add("EXP", (c.input((1, 3, 4, 5)),), c.value((1, 3, 4, 5), zero=-128))
    options = ("DivOptions", {"FusedActivationFunction": 0})
    return c.finish("DIV", (a, b), c.value((1, 3, 4, 5)), options=options)


@operator("MAXIMUM", *ALL, "int32")
def _maximum(c: Case) -> bytes:
    a = c.input((1, 3, 4, 5))
    b = c.like(a, (1, 3, 4, 5))
    c.maker.spec.inputs.append(b)
    return c.finish("MAXIMUM", (a, b), c.like(a, (1, 3, 4, 5)))


@operator("MINIMUM", *ALL, "int32")
def _minimum(c: Case) -> bytes:
    a = c.input((1, 3, 4, 5))
    b = c.like(a, (1, 1, 1, 5))
    c.maker.spec.inputs.append(b)
    return c.finish("MINIMUM", (a, b), c.like(a, (1, 3, 4, 5)))


@operator("ADD_N", "int8", "float32")
def _add_n(c: Case) -> bytes:
    first = c.input((2, 5))
    others = [c.like(first, (2, 5)) for _ in range(2)]
    c.maker.spec.inputs += others
    return c.finish("ADD_N", (first, *others), c.value((2, 5)))


for _kind in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):

    def _compare(c: Case, kind: str = _kind) -> bytes:
        a, b = c.input((1, 3, 4, 5)), c.input((1, 1, 1, 5))
        return c.finish(kind, (a, b), c.value((1, 3, 4, 5), "bool"))

    operator(_kind, "int8", "float32", "int32")(_compare)

for _kind in ("LOGICAL_AND", "LOGICAL_OR"):

    def _logical(c: Case, kind: str = _kind) -> bytes:
        return c.finish(kind, (c.input((2, 5)), c.input((2, 5))), c.value((2, 5)))

    operator(_kind, "bool")(_logical)


@operator("LOGICAL_NOT", "bool")
def _logical_not(c: Case) -> bytes:
    return c.finish("LOGICAL_NOT", (c.input((2, 5)),), c.value((2, 5)))


@operator("SELECT_V2", *ALL)
def _select(c: Case) -> bytes:
    a = c.input((1, 3, 4, 5))
    b = c.like(a, (1, 3, 4, 5))
    c.maker.spec.inputs.append(b)
    return c.finish("SELECT_V2", (c.input((1, 3, 4, 5), "bool"), a, b), c.like(a, (1, 3, 4, 5)))


def _reduction(kind: str, *dtypes: str, equal: bool = False) -> None:
    def build(c: Case) -> bytes:
        axes = [[1, 2], [3], [1], [2, 3]][int(c.random.integers(0, 4))]
        keep = bool(c.random.integers(0, 2))
        shape = (1, 3, 4, 5)
        left = tuple(1 if i in axes else e for i, e in enumerate(shape) if keep or i not in axes)
        x = c.input(shape)
        y = c.like(x, left) if equal else c.value(left)
        return c.finish(kind, (x, c.constant(axes)), y, options=("ReducerOptions", {"KeepDims": keep}))

    operator(kind, *dtypes)(build)


_reduction("MEAN", *ALL)
_reduction("SUM", *ALL)
_reduction("REDUCE_MAX", "int8", "float32", equal=True)
_reduction("REDUCE_MIN", "int8", "float32", equal=True)


@operator("ARG_MAX", "int8", "float32")
def _arg_max(c: Case) -> bytes:
    return c.finish(
        "ARG_MAX",
        (c.input((2, 7)), c.constant([1])),
        c.value((2,), "int32"),
        options=("ArgMaxOptions", {"OutputType": 2}),
    )


@operator("L2_NORMALIZATION", "int8", "float32")
def _l2_normalization(c: Case) -> bytes:
    y = c.value((2, 7), scale=1 / 128, zero=0)
    return c.finish(
        "L2_NORMALIZATION", (c.input((2, 7)),), y, options=("L2NormOptions", {"FusedActivationFunction": 0})
    )


@operator("BATCH_MATMUL", *ALL)
def _batch_matmul(c: Case) -> bytes:
    turned = bool(c.random.integers(0, 2))
    a, b = c.input((1, 2, 3, 6)), c.input((1, 2, 5, 6) if turned else (1, 2, 6, 5))
    y = c.value((1, 2, 3, 5), scale=0.3 if c.dtype == "int8" else 0.0005)
    return c.finish(
        "BATCH_MATMUL", (a, b), y, options=("BatchMatMulOptions", {"AdjX": False, "AdjY": turned})
    )


@operator("BATCH_MATMUL of a constant", "int8", "float32")
def _batch_matmul_of_a_constant(c: Case) -> bytes:
    a, b = c.input((1, 3, 6)), c.weights((1, 6, 5))
    y = c.value((1, 3, 5), scale=0.05)
    return c.finish("BATCH_MATMUL", (a, b), y, options=("BatchMatMulOptions", {"AdjX": False, "AdjY": False}))


@operator("FULLY_CONNECTED of two inputs", "int8", "float32")
def _dense_of_two(c: Case) -> bytes:
    a, b = c.input((1, 3, 6)), c.input((5, 6))
    y = c.value((3, 5), scale=0.3 if c.dtype == "int8" else 0.0005)
    return c.finish(
        "FULLY_CONNECTED", (a, b, -1), y, options=("FullyConnectedOptions", {"KeepNumDims": False})
    )


@operator("GATHER of a run", "int8", "float32")
def _gather_of_a_run(c: Case) -> bytes:
    chosen = c.value((2,), "int32")
    found = (c.input((2, 7)), c.constant([1]))
    c.maker.spec.add("ARG_MAX", found, chosen, ("ArgMaxOptions", {"OutputType": 2}))
    table = c.weights((7, 3))
    return c.finish("GATHER", (table, chosen), c.like(table, (2, 3)), options=("GatherOptions", {"Axis": 0}))


@operator("DYNAMIC_UPDATE_SLICE", *ALL)
def _update_slice(c: Case) -> bytes:
    x = c.input((3, 5, 2))
    part = c.like(x, (2, 3, 2))
    c.maker.spec.inputs.append(part)
    return c.finish("DYNAMIC_UPDATE_SLICE", (x, part, c.input((3,), "int32")), c.like(x, (3, 5, 2)))


@operator("REDUCE_ALL", "bool")
def _reduce_all(c: Case) -> bytes:
    x = c.input((2, 3))
    options = ("ReducerOptions", {"KeepDims": False})
    return c.finish("REDUCE_ALL", (x, c.constant([1])), c.value((2,)), options=options)


@operator("CUMSUM", "int8", "float32")
def _cumsum(c: Case) -> bytes:
    fields = {"Exclusive": bool(c.random.integers(0, 2)), "Reverse": bool(c.random.integers(0, 2))}
    return c.finish(
        "CUMSUM", (c.input((2, 4, 3)), c.constant([1])), c.value((2, 4, 3)), options=("CumsumOptions", fields)
    )


@operator("GATHER", "int8", "float32")
def _gather(c: Case) -> bytes:
    x = c.input((5, 3))
    return c.finish(
        "GATHER", (x, c.constant([4, 0, 2])), c.like(x, (3, 3)), options=("GatherOptions", {"Axis": 0})
    )


@operator("GATHER_ND", "int8", "float32")
def _gather_nd(c: Case) -> bytes:
    x = c.input((4, 5, 3))
    return c.finish("GATHER_ND", (x, c.constant([[1, 2], [3, 0]])), c.like(x, (2, 3)))


@operator("EMBEDDING_LOOKUP", "float32", "int8")
def _embedding_lookup(c: Case) -> bytes:
    table = c.weights((6, 4))
    rows = c.maker.spec.tensor("rows", "int32", (3,), data=np.array([5, 0, 2], np.int32))
    y = c.like(table, (3, 4)) if c.dtype == "float32" else c.value((3, 4), "float32")
    total = c.maker.spec.add("EMBEDDING_LOOKUP", (rows, table), y)
    x = c.input((3, 4), "float32")
    return c.finish(
        "ADD", (x, total), c.value((3, 4), "float32"), options=("AddOptions", {"FusedActivationFunction": 0})
    )


@operator("SPACE_TO_DEPTH", "int8", "float32")
def _space_to_depth(c: Case) -> bytes:
    x = c.input((1, 4, 6, 3))
    return c.finish(
        "SPACE_TO_DEPTH", (x,), c.like(x, (1, 2, 3, 12)), options=("SpaceToDepthOptions", {"BlockSize": 2})
    )


@operator("DEPTH_TO_SPACE", "int8", "float32")
def _depth_to_space(c: Case) -> bytes:
    x = c.input((1, 2, 3, 12))
    return c.finish(
        "DEPTH_TO_SPACE", (x,), c.like(x, (1, 4, 6, 3)), options=("DepthToSpaceOptions", {"BlockSize": 2})
    )


@operator("SPACE_TO_BATCH_ND", "int8", "float32")
def _space_to_batch(c: Case) -> bytes:
    x = c.input((1, 4, 6, 2))  # without edges, whose content TFLM leaves to chance
    inputs = (x, c.constant([2, 3]), c.constant([[0, 0], [0, 0]]))
    return c.finish("SPACE_TO_BATCH_ND", inputs, c.like(x, (6, 2, 2, 2)))


@operator("BATCH_TO_SPACE_ND", "int8", "float32")
def _batch_to_space(c: Case) -> bytes:
    x = c.input((6, 2, 2, 2))
    inputs = (x, c.constant([2, 3]), c.constant([[1, 0], [0, 1]]))
    return c.finish("BATCH_TO_SPACE_ND", inputs, c.like(x, (1, 3, 5, 2)))


@operator("BROADCAST_TO", "int8", "float32")
def _broadcast_to(c: Case) -> bytes:
    x = c.input((1, 3, 1, 2))
    return c.finish("BROADCAST_TO", (x, c.constant([2, 3, 4, 2])), c.like(x, (2, 3, 4, 2)))


@operator("REVERSE_V2", "int8", "float32")
def _reverse(c: Case) -> bytes:
    x = c.input((2, 3, 4))
    return c.finish("REVERSE_V2", (x, c.constant([1])), c.like(x, (2, 3, 4)))


@operator("FILL", "int8", "float32")
def _fill(c: Case) -> bytes:
    x = c.input((2, 3))
    value = c.constant(3, c.dtype)
    if c.dtype == "int8":
        c.maker.spec.tensors[value].scale = c.maker.spec.tensors[x].scale
        c.maker.spec.tensors[value].zero_point = c.maker.spec.tensors[x].zero_point
    y = c.maker.spec.add("FILL", (c.constant([2, 3]), value), c.like(x, (2, 3)))
    return c.finish("MAXIMUM", (x, y), c.like(x, (2, 3)))


@operator("ZEROS_LIKE", "float32", "int32", "int8")
def _zeros_like(c: Case) -> bytes:
    x = c.input((2, 3))
    y = c.maker.spec.add("ZEROS_LIKE", (x,), c.like(x, (2, 3)))
    return c.finish("MAXIMUM", (x, y), c.like(x, (2, 3)))


def _window(kind: str, *dtypes: str) -> None:
    def build(c: Case) -> bytes:
        x = c.input((1, 6, 5, 3), zero=None if c.dtype == "int8" else 0)
        fields = {
            "Padding": 1,
            "StrideW": 1,
            "StrideH": 2,
            "FusedActivationFunction": int(c.random.choice([0, 1, 3])),
        }
        scale = 0.05 if c.dtype == "int8" else 0.0005
        if kind == "CONV_2D":
            fields |= {"DilationWFactor": 1, "DilationHFactor": 1}
            y = c.value((1, 2, 3, 4), scale=scale)
            return c.finish(
                kind, (x, c.weights((4, 3, 3, 3)), c.bias(4)), y, options=("Conv2DOptions", fields)
            )
        if kind == "DEPTHWISE_CONV_2D":
            fields |= {"DilationWFactor": 1, "DilationHFactor": 1, "DepthMultiplier": 1}
            y = c.value((1, 2, 3, 3), scale=scale)
            options = ("DepthwiseConv2DOptions", fields)
            return c.finish(kind, (x, c.weights((1, 3, 3, 3)), c.bias(3)), y, options=options)
        if kind == "TRANSPOSE_CONV":
            del fields["FusedActivationFunction"]
            y = c.value((1, 13, 7, 4), scale=scale)
            inputs = (c.constant([1, 13, 7, 4]), c.weights((4, 3, 3, 3)), x, c.bias(4))
            return c.finish(kind, inputs, y, options=("TransposeConvOptions", fields))
        fields |= {"FilterWidth": 2, "FilterHeight": 3}
        y = c.like(x, (1, 2, 4, 3))
        return c.finish(kind, (x,), y, options=("Pool2DOptions", fields))

    operator(kind, *dtypes)(build)


for _kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "MAX_POOL_2D", "AVERAGE_POOL_2D"):
    _window(_kind, *ALL)
_window("L2_POOL_2D", "float32")


@operator("FULLY_CONNECTED", *ALL)
def _fully_connected(c: Case) -> bytes:
    fields = {"FusedActivationFunction": int(c.random.choice([0, 1, 3]))}
    x = c.input((2, 9), zero=None if c.dtype == "int8" else 0)
    y = c.value((2, 5), scale=0.05 if c.dtype == "int8" else 0.0005)
    return c.finish(
        "FULLY_CONNECTED", (x, c.weights((5, 9)), c.bias(5)), y, options=("FullyConnectedOptions", fields)
    )


@operator("RESIZE_BILINEAR", "int8", "float32")
def _resize_bilinear(c: Case) -> bytes:
    flags = int(c.random.integers(0, 3))
    fields = {"AlignCorners": flags == 1, "HalfPixelCenters": flags == 2}
    x = c.input((1, 3, 4, 2))
    inputs = (x, c.constant([5, 9]))
    return c.finish(
        "RESIZE_BILINEAR", inputs, c.like(x, (1, 5, 9, 2)), options=("ResizeBilinearOptions", fields)
    )


@operator("RESIZE_NEAREST_NEIGHBOR", *ALL)
def _resize_nearest(c: Case) -> bytes:
    flags = int(c.random.integers(0, 3))
    fields = {"AlignCorners": flags == 1, "HalfPixelCenters": flags == 2}
    x = c.input((1, 3, 4, 2))
    options = ("ResizeNearestNeighborOptions", fields)
    return c.finish(
        "RESIZE_NEAREST_NEIGHBOR", (x, c.constant([5, 9])), c.like(x, (1, 5, 9, 2)), options=options
    )


@operator("TRANSPOSE", *ALL)
def _transpose(c: Case) -> bytes:
    x = c.input((2, 3, 4))
    return c.finish("TRANSPOSE", (x, c.constant([2, 0, 1])), c.like(x, (4, 2, 3)))


@operator("CONCATENATION", *ALL, "int32")
def _concatenation(c: Case) -> bytes:
    a = c.input((1, 2, 3))
    b = c.like(a, (1, 4, 3))
    c.maker.spec.inputs.append(b)
    return c.finish(
        "CONCATENATION", (a, b), c.like(a, (1, 6, 3)), options=("ConcatenationOptions", {"Axis": 1})
    )


@operator("PAD", *ALL)
def _pad(c: Case) -> bytes:
    x = c.input((1, 2, 3, 2))
    return c.finish("PAD", (x, c.constant([[0, 0], [1, 2], [0, 1], [0, 0]])), c.like(x, (1, 5, 4, 2)))


@operator("SPLIT", *ALL)
def _split(c: Case) -> bytes:
    x = c.input((1, 4, 6))
    parts = [c.like(x, (1, 4, 3)) for _ in range(2)]
    return c.finish("SPLIT", (c.constant(2), x), *parts, options=("SplitOptions", {"NumSplits": 2}))


@operator("QUANTIZE", "float32", "int8", "int16")
def _quantize(c: Case) -> bytes:
    target = {"float32": "int8", "int8": "int16", "int16": "int8"}[c.dtype]
    return c.finish("QUANTIZE", (c.input((2, 9)),), c.value((2, 9), target))


@operator("DEQUANTIZE", "int8", "int16")
def _dequantize(c: Case) -> bytes:
    return c.finish("DEQUANTIZE", (c.input((2, 9)),), c.value((2, 9), "float32"))


def _cast(*dtypes: str, to: str) -> None:
    @operator(f"CAST to {to}", *dtypes)
    def build(c: Case) -> bytes:
        stated = bool(c.random.integers(0, 2))  # a scale, which is not read
        x, y = (c.value((2, 9), d) if stated else c.bare((2, 9), d) for d in (c.dtype, to))
        c.maker.spec.inputs.append(x)
        return c.finish("CAST", (x,), y)


for _to in ("int8", "int16", "int32", "float32", "bool"):
    _cast(*(d for d in ("int8", "int16", "int32", "float32") if d != _to), to=_to)
