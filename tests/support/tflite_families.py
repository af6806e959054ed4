# SPDX-License-Identifier: Apache-2.0
"""Small quantised models of many families: transformers, segmentation, detection, recurrent and 16-bit networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tflite_models import Maker

Shape = tuple[int, ...]
Options = tuple[str, dict[str, Any]] | None
WORD = 1 / 32768


class Net(Maker):
    """A model under construction: each method adds an operator and gives the number of its output."""

    def __init__(self, seed: int, dtype: str = "int8") -> None:
        super().__init__(seed)
        self.dtype = dtype

    def shape(self, x: int) -> Shape:
        return self.spec.tensors[x].shape

    def value(self, shape: Shape, scale: float = 0.0, zero: int | None = None) -> int:
        wide = self.dtype == "int16"
        scale = scale or float(self.random.uniform(0.02, 0.08)) / (128 if wide else 1)
        zero = (0 if wide else int(self.random.integers(-40, 40))) if zero is None else zero
        name = f"t{len(self.spec.tensors)}"
        return self.spec.tensor(
            name, self.dtype, shape, scale=(float(np.float32(scale)),), zero_point=(zero,)
        )

    def integers(self, data: Any) -> int:
        array = np.array(data, np.int32)
        return self.spec.tensor(f"c{len(self.spec.tensors)}", "int32", array.shape, data=array)

    def constant(self, shape: Shape, scale: float = 0.02, low: int = -127) -> int:
        data = self.random.integers(low, 128, shape).astype(np.int8)
        name = f"c{len(self.spec.tensors)}"
        return self.spec.tensor(
            name, "int8", shape, data=data, scale=(float(np.float32(scale)),), zero_point=(0,)
        )

    def op(
        self, kind: str, inputs: Shape, shape: Shape, options: Options = None, like: int | None = None,
        scale: float = 0.0, zero: int | None = None,
    ) -> int:  # fmt: skip
        y = self.value(shape, scale, zero) if like is None else self.same_scale(like, shape)
        return self.spec.add(kind, inputs, y, options)

    def other(self, kind: str, inputs: Shape, dtype: str, shape: Shape, options: Options = None) -> int:
        """An operator whose output is not quantised."""
        y = self.spec.tensor(f"o{len(self.spec.tensors)}", dtype, shape)
        return self.spec.add(kind, inputs, y, options)

    def rows(self, x: int, outputs: int, scale: float = 0.0) -> int:
        """A fully connected layer over the last axis."""
        wide = self.dtype == "int16"
        inputs = self.shape(x)[-1]
        w = self.constant((outputs, inputs), 0.01)
        data = self.random.integers(-2000, 2000, outputs).astype(np.int64 if wide else np.int32)
        b = self.spec.tensor(f"b{len(self.spec.tensors)}", str(data.dtype), (outputs,), data=data)
        fields = {"FusedActivationFunction": 0, "KeepNumDims": True}
        shape = (*self.shape(x)[:-1], outputs)
        scale = scale or (0.0003 if wide else 0.15)
        return self.op("FULLY_CONNECTED", (x, w, b), shape, ("FullyConnectedOptions", fields), scale=scale)

    def wide_conv(self, x: int, channels: int, stride: int, *, depthwise: bool) -> int:
        """A 3x3 convolution of 16-bit values."""
        n, h, w, c = self.shape(x)
        weights = self.weights((1, 3, 3, c) if depthwise else (channels, 3, 3, c), 3 if depthwise else 0)
        data = self.random.integers(-20000, 20000, channels).astype(np.int64)
        b = self.spec.tensor(f"b{len(self.spec.tensors)}", "int64", (channels,), data=data)
        fields = {"Padding": 0, "StrideW": stride, "StrideH": stride}
        fields |= {"DilationWFactor": 1, "DilationHFactor": 1}
        kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        fields |= {"DepthMultiplier": 1} if depthwise else {}
        options = ("DepthwiseConv2DOptions" if depthwise else "Conv2DOptions", fields)
        return self.op(
            kind, (x, weights, b), (n, -(-h // stride), -(-w // stride), channels), options, scale=0.001
        )

    def reshape(self, x: int, shape: Shape) -> int:
        return self.op("RESHAPE", (x, self.integers(shape)), shape, like=x)

    def transpose(self, x: int, order: Shape) -> int:
        shape = tuple(self.shape(x)[i] for i in order)
        return self.op("TRANSPOSE", (x, self.integers(order)), shape, like=x)

    def two(self, kind: str, a: int, b: int, scale: float = 0.0, zero: int | None = None) -> int:
        shape = tuple(np.broadcast_shapes(self.shape(a), self.shape(b)))
        options = (f"{kind.title()}Options", {"FusedActivationFunction": 0})
        return self.op(kind, (a, b), shape, options, scale=scale, zero=zero)

    def mean(self, x: int, axes: list[int], *, keep: bool = True) -> int:
        shape = tuple(1 if i in axes else e for i, e in enumerate(self.shape(x)) if keep or i not in axes)
        return self.op("MEAN", (x, self.integers(axes)), shape, ("ReducerOptions", {"KeepDims": keep}))

    def product(self, a: int, b: int, *, turned: bool = False) -> int:
        columns = self.shape(b)[-2 if turned else -1]
        options = ("BatchMatMulOptions", {"AdjX": False, "AdjY": turned})
        return self.op("BATCH_MATMUL", (a, b), (*self.shape(a)[:-1], columns), options, scale=0.1)

    def soft(self, x: int) -> int:
        wide = self.dtype == "int16"
        scale, zero = (WORD, 0) if wide else (1 / 256, -128)
        return self.op(
            "SOFTMAX", (x,), self.shape(x), ("SoftmaxOptions", {"Beta": 1.0}), scale=scale, zero=zero
        )

    def function(self, kind: str, x: int, **more: Any) -> int:
        return self.op(kind, (x,), self.shape(x), **more)

    def split(self, x: int, kind: str, others: Shape, shapes: list[Shape], options: Options) -> list[int]:
        parts = [self.same_scale(x, shape) for shape in shapes]
        inputs = (x, *others)
        self.spec.add(kind, inputs, parts[0], options)
        self.spec.operators[-1].outputs = tuple(parts)
        return parts

    def layer_norm(self, x: int) -> int:
        last = len(self.shape(x)) - 1
        mean = self.mean(x, [last])
        spread = self.op("SQUARED_DIFFERENCE", (x, mean), self.shape(x))
        variance = self.mean(spread, [last])
        self.spec.tensors[variance].zero_point = (-128,)
        root = self.function("RSQRT", variance)
        gain = self.two("MUL", root, self.constant(self.shape(x)[-1:]))
        shift = self.two("SUB", self.constant(self.shape(x)[-1:]), self.two("MUL", mean, gain))
        return self.two("ADD", self.two("MUL", x, gain), shift)


def _transformer() -> bytes:
    n = Net(1)
    x = n.input((1, 6, 16))
    norm = n.layer_norm(x)
    q, k, v = (n.transpose(n.reshape(n.rows(norm, 16), (1, 6, 2, 8)), (0, 2, 1, 3)) for _ in range(3))
    scores = n.two("MUL", n.product(q, k, turned=True), n.constant((), 0.003, 100))
    mixed = n.transpose(n.product(n.soft(scores), v), (0, 2, 1, 3))
    x = n.two("ADD", x, n.rows(n.reshape(mixed, (1, 6, 16)), 16))
    hidden = n.function("HARD_SWISH", n.rows(n.layer_norm(x), 32), scale=0.08)
    x = n.two("ADD", x, n.rows(hidden, 16))
    return n.finish(n.soft(n.rows(n.mean(x, [1], keep=False), 5)))


def _attention_without_batches() -> bytes:
    """Both operands of a fully connected layer are computed, as converters make of a product of matrices."""
    n = Net(2)
    x = n.input((1, 5, 12))
    q, k, v = (n.reshape(n.rows(x, 12), (5, 12)) for _ in range(3))
    options = ("FullyConnectedOptions", {"FusedActivationFunction": 0})
    scores = n.op("FULLY_CONNECTED", (q, k, -1), (5, 5), options, scale=0.1)
    mixed = n.product(n.soft(scores), v)
    bounds = tuple(n.integers(b) for b in ([0, 0], [1, 12], [1, 1]))
    return n.finish(
        n.rows(n.op("STRIDED_SLICE", (mixed, *bounds), (1, 12), ("StridedSliceOptions", {}), mixed), 4)
    )


def _tokens() -> bytes:
    n = Net(3)
    tokens = n.spec.tensor("tokens", "int32", (1, 7))
    n.spec.inputs.append(tokens)
    least = n.other("MAXIMUM", (tokens, n.integers(0)), "int32", (1, 7))
    known = n.other("MINIMUM", (least, n.integers(9)), "int32", (1, 7))
    table = n.constant((10, 8))
    found = n.op("GATHER", (table, known), (1, 7, 8), ("GatherOptions", {"Axis": 0}), table)
    return n.finish(n.rows(n.mean(found, [1], keep=False), 3))


def _squeeze_and_excite() -> bytes:
    n = Net(4)
    x = n.function("HARD_SWISH", n.conv(n.input((1, 8, 8, 8)), 16, (3, 3), 2, same=True), scale=0.1)
    deep = n.conv(x, 16, (5, 5), 1, same=True, depthwise=True)
    small = n.conv(n.mean(deep, [1, 2]), 4, (1, 1), 1, same=True, activation=1)
    gates = n.logistic(n.conv(small, 16, (1, 1), 1, same=True))
    y = n.conv(n.two("MUL", deep, gates), 8, (1, 1), 1, same=True)
    return n.finish(n.rows(n.reshape(n.pool(y, 4, largest=False), (1, 8)), 4))


def _segmentation() -> bytes:
    n = Net(5)
    first = n.conv(n.input((1, 8, 8, 4)), 8, (3, 3), 1, same=True, activation=1)
    low = n.conv(n.pool(first, 2, largest=True), 16, (3, 3), 1, same=True, activation=1)
    inputs = (n.integers([1, 8, 8, 8]), n.weights((8, 2, 2, 16), 0), low, n.bias(8))
    options = ("TransposeConvOptions", {"Padding": 0, "StrideW": 2, "StrideH": 2})
    up = n.op("TRANSPOSE_CONV", inputs, (1, 8, 8, 8), options, first)
    both = n.op("CONCATENATION", (first, up), (1, 8, 8, 16), ("ConcatenationOptions", {"Axis": 3}), first)
    classes = n.soft(n.conv(both, 3, (1, 1), 1, same=True))
    size = n.integers([8, 8])
    bilinear = ("ResizeBilinearOptions", {"HalfPixelCenters": True})
    nearest = ("ResizeNearestNeighborOptions", {"HalfPixelCenters": True})
    smooth = n.op("RESIZE_BILINEAR", (low, size), (1, 8, 8, 16), bilinear, low)
    total = n.two("ADD", smooth, n.op("RESIZE_NEAREST_NEIGHBOR", (low, size), (1, 8, 8, 16), nearest, low))
    mask = n.other(
        "ARG_MAX", (classes, n.integers(3)), "int32", (1, 8, 8), ("ArgMaxOptions", {"OutputType": 2})
    )
    return n.finish(mask, n.logistic(n.conv(total, 1, (3, 3), 1, same=True)))


def _super_resolution() -> bytes:
    n = Net(6)
    x = n.conv(n.input((1, 6, 6, 1)), 12, (5, 5), 1, same=True, activation=1)
    y = n.conv(x, 4, (3, 3), 1, same=True)
    return n.finish(
        n.op("DEPTH_TO_SPACE", (y,), (1, 12, 12, 1), ("DepthToSpaceOptions", {"BlockSize": 2}), y)
    )


def _shuffled_groups() -> bytes:
    n = Net(7)
    x = n.input((1, 4, 4, 8))
    shapes = [(1, 4, 4, 3), (1, 4, 4, 5)]
    parts = n.split(
        x, "SPLIT_V", (n.integers([3, 5]), n.integers(3)), shapes, ("SplitVOptions", {"NumSplits": 2})
    )
    a, b = n.conv(parts[0], 4, (1, 1), 1, same=True), n.conv(parts[1], 4, (3, 3), 1, same=True)
    n.spec.tensors[b].scale = n.spec.tensors[a].scale
    n.spec.tensors[b].zero_point = n.spec.tensors[a].zero_point
    both = n.op("CONCATENATION", (a, b), (1, 4, 4, 8), ("ConcatenationOptions", {"Axis": -1}), a)
    mixed = n.transpose(n.reshape(both, (1, 4, 4, 2, 4)), (0, 1, 2, 4, 3))
    return n.finish(n.pool(n.reshape(mixed, (1, 4, 4, 8)), 4, largest=False))


def _unrolled_gru() -> bytes:
    n = Net(8)
    x = n.input((1, 3, 6))
    steps = n.split(x, "UNPACK", (), [(1, 6)] * 3, ("UnpackOptions", {"Num": 3, "Axis": 1}))
    hidden, one = n.constant((1, 8), 0.01), n.constant((), 1 / 127, 127)
    for step in steps:
        z, r = (n.logistic(n.two("ADD", n.rows(step, 8), n.rows(hidden, 8))) for _ in range(2))
        fresh = n.two("ADD", n.rows(step, 8), n.two("MUL", r, n.rows(hidden, 8)))
        fresh = n.function("TANH", fresh, scale=1 / 128, zero=0)
        hidden = n.two("ADD", n.two("MUL", z, hidden), n.two("MUL", n.two("SUB", one, z), fresh))
    return n.finish(n.rows(hidden, 3))


def _detection() -> bytes:
    n = Net(9)
    x = n.input((1, 4, 4, 8))
    boxes = n.reshape(n.conv(x, 12, (3, 3), 1, same=True), (1, 48, 4))
    scores = n.logistic(n.reshape(n.conv(x, 9, (3, 3), 1, same=True), (1, 48, 3)))
    axis = n.integers([2])
    best = n.op("REDUCE_MAX", (scores, axis), (1, 48), ("ReducerOptions", {"KeepDims": False}), scores)
    kinds = n.other(
        "ARG_MAX", (scores, n.integers(2)), "int32", (1, 48), ("ArgMaxOptions", {"OutputType": 2})
    )
    bounds = tuple(n.integers(b) for b in ([0, 0, 0], [0, 0, 2], [1, 1, 1]))
    options = ("StridedSliceOptions", {"BeginMask": 7, "EndMask": 3})
    places = n.op("STRIDED_SLICE", (boxes, *bounds), (1, 48, 2), options, boxes)
    sizes = n.op("SLICE", (boxes, n.integers([0, 0, 2]), n.integers([-1, -1, 2])), (1, 48, 2), None, boxes)
    return n.finish(n.other("DEQUANTIZE", (best,), "float32", (1, 48)), kinds, places, sizes)


def _embedding_of_a_face() -> bytes:
    n = Net(10)
    x = n.conv(n.input((1, 6, 6, 3)), 8, (3, 3), 2, same=True, activation=1)
    y = n.rows(n.mean(x, [1, 2], keep=False), 16)
    options = ("L2NormOptions", {"FusedActivationFunction": 0})
    scores = n.rows(y, 6)
    log = n.function("LOG_SOFTMAX", scores, scale=16 / 256, zero=127)
    return n.finish(n.function("L2_NORMALIZATION", y, options=options, scale=1 / 128, zero=0), log)


def _denoiser_of_words() -> bytes:
    n = Net(11, "int16")
    x = n.value((1, 1, 24), 0.0003)
    n.spec.inputs.append(x)
    gate = n.function("LOGISTIC", n.rows(x, 16), scale=WORD)
    y = n.two("MUL", gate, n.function("TANH", n.rows(x, 16), scale=WORD), WORD)
    total = n.two("ADD", n.rows(y, 24), x, 0.0006)
    leaky = n.function("LEAKY_RELU", total, options=("LeakyReluOptions", {"Alpha": 0.2}))
    return n.finish(n.soft(leaky))


def _convolutions_of_words() -> bytes:
    n = Net(12, "int16")
    x = n.value((1, 6, 8, 4), 0.0003)
    n.spec.inputs.append(x)
    y = n.wide_conv(n.wide_conv(x, 6, 1, depthwise=False), 6, 2, depthwise=True)
    pooled = n.pool(n.pool(y, 2, largest=False), 2, largest=True)
    padded = n.op("PAD", (pooled, n.integers([[0, 0], [1, 0], [0, 1], [0, 0]])), (1, 2, 2, 6), None, pooled)
    mean = n.mean(padded, [1, 2], keep=False)
    n.dtype = "int8"
    return n.finish(n.function("QUANTIZE", mean))


def _pyramid() -> bytes:
    n = Net(13)
    x = n.input((1, 8, 8, 4))
    edges = n.integers([[0, 0], [1, 1], [1, 1], [0, 0]])
    wide = n.op("MIRROR_PAD", (x, edges), (1, 10, 10, 4), ("MirrorPadOptions", {"Mode": 0}), x)
    first = n.conv(wide, 8, (3, 3), 1, same=False, activation=1)
    low = n.conv(n.pool(first, 2, largest=True), 8, (1, 1), 1, same=True)
    inputs = (low, n.integers([8, 8]))
    up = n.op("RESIZE_NEAREST_NEIGHBOR", inputs, (1, 8, 8, 8), ("ResizeNearestNeighborOptions", {}), low)
    total = n.two("ADD", first, up)
    pair = n.op(
        "PACK", (total, total), (2, 1, 8, 8, 8), ("PackOptions", {"ValuesCount": 2, "Axis": 0}), total
    )
    return n.finish(n.op("REVERSE_V2", (pair, n.integers([0])), n.shape(pair), None, pair))


def _chosen_values() -> bytes:
    n = Net(14)
    x = n.input((1, 8))
    y = n.rows(x, 8)
    truth = n.other("GREATER", (x, y), "bool", (1, 8))
    other = n.op("MAXIMUM", (y, y), (1, 8), None, y)
    chosen = n.op("SELECT_V2", (truth, other, y), (1, 8), None, y)
    spread = n.op("SQUARED_DIFFERENCE", (x, chosen), (1, 8))
    total = n.op("SUM", (spread, n.integers([1])), (1,), ("ReducerOptions", {"KeepDims": False}), scale=2.0)
    return n.finish(total, n.op("CUMSUM", (chosen, n.integers(1)), (1, 8), ("CumsumOptions", {}), scale=0.4))


FAMILIES: dict[str, Callable[[], bytes]] = {
    build.__name__.strip("_").replace("_", " "): build
    for build in (
        _transformer, _attention_without_batches, _tokens, _squeeze_and_excite, _segmentation, _super_resolution,
        _shuffled_groups, _unrolled_gru, _detection, _embedding_of_a_face, _denoiser_of_words,
        _convolutions_of_words, _pyramid, _chosen_values,
    )
}  # fmt: skip
