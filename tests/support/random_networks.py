# SPDX-License-Identifier: Apache-2.0
"""Random .tflite networks: operators of one type that feed each other, with branches, sums and concatenations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from operator_cases import CASES, Case, Options
from tflite_models import Maker, ModelSpec, TensorSpec, write_model

Shape = tuple[int, ...]
MOST = 1 << 12  # elements of a tensor
_ACTIVATIONS = (0, 0, 1, 1, 2, 3)
_ALIGNED = ("LOGISTIC", "TANH", "SOFTMAX")


class Unfit(Exception):
    """An operator that the network has no place for."""


class Network(Case):
    """A network under construction; what operators read is taken from what others wrote, where it fits."""

    def __init__(self, seed: int, dtype: str, *, alone: bool = False) -> None:
        """Start a network.

        Args:
            alone: operators read inputs of the network alone.
        """
        super().__init__(Maker(seed), dtype)
        self.alone = alone
        self.live: list[int] = []

    @property
    def spec(self) -> ModelSpec:
        return self.maker.spec

    def pick(self, *choices: Any) -> Any:
        """One of the choices."""
        return choices[int(self.random.integers(len(choices)))]

    def between(self, low: int, high: int) -> int:
        """A number from low to high, small ones more often."""
        return low + int((high - low + 1) * self.random.random() ** 1.6)

    def maybe(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def shape(self, x: int) -> Shape:
        return self.spec.tensors[x].shape

    def tensor(self, x: int) -> TensorSpec:
        return self.spec.tensors[x]

    def value(self, shape: Shape, dtype: str = "", *, scale: float = 0.0, zero: int | None = None) -> int:
        if math.prod(shape) > MOST:
            raise Unfit(f"a tensor of shape {shape}")
        if zero is None and (dtype or self.dtype) == "int8" and self.maybe(0.4):
            zero = self.pick(-128, 0, 127, -127, 1)
        return super().value(shape, dtype, scale=scale, zero=zero)

    def input(self, shape: Shape, dtype: str = "", **more: Any) -> int:
        """A tensor that others wrote, with the shape that is wanted; an input of the network where none fits."""
        dtype = dtype or self.dtype
        count = math.prod(shape)
        fit = [
            x
            for x in self.live
            if self.tensor(x).dtype == dtype and math.prod(self.shape(x)) >= count and not more
        ]
        if self.alone or not fit or self.maybe(0.1):
            return super().input(shape, dtype, **more)
        x = fit[int(self.random.integers(len(fit)))]
        total = math.prod(self.shape(x))
        if total > count:
            flat = self.same(x, "RESHAPE", (total,), (self.constant([total]),))
            bounds = tuple(self.constant([n]) for n in (total - count, total, 1))
            x = self.same(flat, "STRIDED_SLICE", (count,), bounds, ("StridedSliceOptions", {}))
        if self.shape(x) != shape:
            x = self.same(x, "RESHAPE", shape, (self.constant(shape),))
        return x

    def same(self, x: int, kind: str, shape: Shape, more: Shape = (), options: Options = None) -> int:
        """An operator whose output has the quantisation of its input."""
        if math.prod(shape) > MOST:
            raise Unfit(f"a tensor of shape {shape}")
        return self.add(kind, (x, *more), self.like(x, shape), options)

    def add(self, kind: str, inputs: Shape, y: int, options: Options = None) -> int:
        self._give(y)
        return self.spec.add(kind, inputs, y, options)

    def finish(self, kind: str, inputs: Shape, *outputs: int, options: Options = None) -> bytes:
        """Add an operator; the file is written by `file` when the network is done."""
        self.spec.add(kind, inputs, outputs[0], options)
        self.spec.operators[-1].outputs = outputs
        for y in outputs:
            self._give(y)
        return b""

    def _give(self, y: int) -> None:
        """Have others read a value that they have a meaning for.

        Not of bytes and words without a scale, as CAST gives, nor of words with a zero point, which many of TFLM's operators refuse.
        """
        tensor = self.tensor(y)
        stored = tensor.dtype in ("int8", "uint8", "int16")
        if not stored or (tensor.scale and not (tensor.dtype == "int16" and any(tensor.zero_point))):
            self.live.append(y)

    def image(self) -> int:
        """A tensor of four dimensions."""
        found = [x for x in self.live if len(self.shape(x)) == 4 and self.tensor(x).dtype == self.dtype]
        if found and self.maybe(0.9):
            near = found[-4:]
            return near[int(self.random.integers(len(near)))]
        shape = (self.pick(1, 1, 1, 1, 2, 3), self.side(), self.side(), self.channels())
        if math.prod(shape) > MOST:
            shape = (1, *shape[1:3], min(4, shape[3]))
        return super().input(shape, zero=None if self.dtype == "int8" else 0)

    def any(self) -> int:
        """A tensor of the network's type."""
        found = [x for x in self.live if self.tensor(x).dtype == self.dtype]
        return found[int(self.random.integers(len(found)))] if found and self.maybe(0.95) else self.image()

    def side(self) -> int:
        """Extent of an axis of space."""
        return 1 if self.maybe(0.08) else self.between(1, 17)

    def channels(self) -> int:
        return self.pick(1, 2, 3, 4, 5, 7, 8, 8, 11, 12, 16, 16, 17, 20, 24, 32, 35)

    def layer_weights(
        self, x: int, shape: Shape, axis: int, taps: int, *, channelled: bool
    ) -> tuple[int, float]:
        """Weights, and a scale of the output at which most of it is neither lost nor saturated."""
        if self.dtype == "float32":
            return self.constant(self.random.normal(0, 1 / math.sqrt(taps), shape), "float32"), 0.0
        count = shape[axis] if channelled else 1
        most = self.pick(127, 127, 127, 100, 60, 12, 3)
        out = float(self.random.uniform(0.01, 0.2)) / (1 if self.dtype == "int8" else 256)
        # Sums of random products are this wide in units of the scales of input and weights.
        wide = (73 if self.dtype == "int8" else 18000) * most * 0.58 * math.sqrt(taps)
        wanted = out * (40 if self.dtype == "int8" else 10000) / wide / self.tensor(x).scale[0]
        scales = self.random.uniform(0.4, 1.5, count) * wanted
        if self.maybe(0.1):
            scales *= self.pick(0.02, 0.2, 6.0)
        data = self.random.integers(-most, most + 1, shape)
        if self.maybe(0.2):
            data *= self.random.integers(0, 2, shape)
        if self.maybe(0.05):
            data[self.random.random(shape) < 0.3] = -128 if not channelled else 127
        name = f"w{len(self.spec.tensors)}"
        number = self.spec.tensor(
            name,
            "int8",
            shape,
            scale=tuple(float(np.float32(s)) for s in scales),
            zero_point=(0,) * count,
            axis=axis if count > 1 else 0,
            data=data.astype(np.int8),
        )
        return number, out

    def layer_bias(self, x: int, w: int, count: int, *, scaled: bool = False) -> int:
        """A bias in the scale of the sums, or none."""
        if self.maybe(0.2):
            return -1
        if self.dtype == "float32":
            return self.constant(self.random.normal(0, 0.5, count), "float32")
        wide = self.pick(200, 3000, 20000)
        data = self.random.integers(-wide, wide, count)
        number = self.constant(data, "int32" if self.dtype == "int8" else "int64")
        if scaled or self.maybe(0.5):
            scales = [self.tensor(x).scale[0] * s for s in self.tensor(w).scale]
            self.tensor(number).scale = tuple(float(np.float32(s)) for s in scales)
            self.tensor(number).zero_point = (0,) * len(scales)
        return number

    def window(self, x: int, *, dilated: bool, most: int = 5) -> tuple[Shape, Shape, dict[str, Any], Shape]:
        """Size, dilation, fields of the options and extents of the output of a window over x."""
        _, h, w, _ = self.shape(x)
        same = self.maybe(0.5)
        size = tuple(
            extent if self.maybe(0.07) and extent < 12 else self.between(1, most) for extent in (h, w)
        )
        strides = tuple(self.pick(1, 1, 1, 2, 2, 3) for _ in range(2))
        dilations = tuple(self.pick(1, 1, 1, 1, 2, 3) if dilated else 1 for _ in range(2))
        if self.maybe(0.4):  # as most networks have them
            size = (3, 3) if self.maybe(0.6) else (1, 1)
            strides, dilations = self.pick((1, 1), (1, 1), (2, 2)), (1, 1)
        spans = [(k - 1) * d + 1 for k, d in zip(size, dilations, strict=True)]
        if same:
            extents = tuple(-(-e // s) for e, s in zip((h, w), strides, strict=True))
        else:
            extents = tuple((e - k) // s + 1 for e, k, s in zip((h, w), spans, strides, strict=True))
        if min(extents) < 1 or any(e < k for e, k in zip((h, w), spans, strict=True) if not same):
            raise Unfit("a window larger than its input")
        fields = {"Padding": 0 if same else 1, "StrideH": strides[0], "StrideW": strides[1]}
        if dilated:
            fields |= {"DilationHFactor": dilations[0], "DilationWFactor": dilations[1]}
        return size, dilations, fields | {"FusedActivationFunction": self.pick(*_ACTIVATIONS)}, extents

    def file(self, *, all_values: bool = False) -> bytes:
        """The file; its outputs are the values that nothing reads.

        Args:
            all_values: what any operator writes is an output.
        """
        read = {i for one in self.spec.operators for i in one.inputs}
        written = [i for one in self.spec.operators for i in one.outputs]
        self.spec.outputs = [i for i in written if all_values or i not in read]
        return write_model(self.spec)


Step = Callable[[Network], None]
STEPS: dict[str, tuple[float, tuple[str, ...], Step]] = {}


def step(weight: float, *dtypes: str) -> Callable[[Step], Step]:
    """Register a step that adds operators to networks of some types."""

    def register(make: Step) -> Step:
        STEPS[make.__name__.strip("_")] = (weight, dtypes or ("int8", "int16", "float32"), make)
        return make

    return register


@step(5)
def _convolution(n: Network) -> None:
    x = n.image()
    b, _, _, c = n.shape(x)
    size, _, fields, extents = n.window(x, dilated=True)
    groups = n.pick(*[g for g in range(1, c + 1) if c % g == 0]) if n.maybe(0.15) else 1
    outputs = groups * max(1, n.channels() // groups)
    taps = size[0] * size[1] * c // groups
    if taps * outputs > 20000:
        raise Unfit("weights")
    w, scale = n.layer_weights(x, (outputs, *size, c // groups), 0, taps, channelled=n.maybe(0.7))
    y = n.value((b, *extents, outputs), scale=scale)
    bias = n.layer_bias(x, w, outputs)
    n.add("CONV_2D", (x, w, bias), y, ("Conv2DOptions", fields))


@step(4)
def _depthwise(n: Network) -> None:
    x = n.image()
    b, _, _, c = n.shape(x)
    size, _, fields, extents = n.window(x, dilated=True)
    multiplier = n.pick(1, 1, 1, 2, 3, 8) if c < 9 else 1
    taps = size[0] * size[1]
    w, scale = n.layer_weights(x, (1, *size, c * multiplier), 3, taps, channelled=n.maybe(0.7))
    y = n.value((b, *extents, c * multiplier), scale=scale)
    bias = n.layer_bias(x, w, c * multiplier)
    options = ("DepthwiseConv2DOptions", fields | {"DepthMultiplier": multiplier})
    # TFLM reads beyond the inputs where a bias of this operator is left out by a number of -1.
    n.add("DEPTHWISE_CONV_2D", (x, w) if bias < 0 else (x, w, bias), y, options)


@step(1.5)
def _transposed(n: Network) -> None:
    x = n.image()
    b, h, w, c = n.shape(x)
    size = (n.between(1, 4), n.between(1, 4))
    strides = (n.pick(1, 2, 2, 3), n.pick(1, 2, 2, 3))
    same = n.maybe(0.5)
    extents = tuple(
        e * s if same else (e - 1) * s + max(k, 1) for e, s, k in zip((h, w), strides, size, strict=True)
    )
    outputs = n.pick(1, 2, 3, 4, 8, 9)
    taps = size[0] * size[1] * c
    weights, scale = n.layer_weights(x, (outputs, *size, c), 0, taps, channelled=n.maybe(0.7))
    y = n.value((b, *extents, outputs), scale=scale)
    inputs = (n.constant((b, *extents, outputs)), weights, x)
    bias = n.layer_bias(x, weights, outputs)
    fields = {"Padding": 0 if same else 1, "StrideH": strides[0], "StrideW": strides[1]}
    n.add("TRANSPOSE_CONV", inputs if bias < 0 else (*inputs, bias), y, ("TransposeConvOptions", fields))


@step(3)
def _dense(n: Network) -> None:
    x = n.any()
    shape = n.shape(x)
    if not shape:
        raise Unfit("a scalar")
    keep = n.maybe(0.4)
    inputs = shape[-1] if keep else math.prod(shape[1:]) if len(shape) > 1 else shape[0]
    outputs = n.between(1, 40)
    if inputs * outputs > 20000:
        raise Unfit("weights")
    w, scale = n.layer_weights(x, (outputs, inputs), 0, inputs, channelled=n.dtype == "int8" and n.maybe(0.3))
    rows = math.prod(shape) // inputs
    y = n.value((*shape[:-1], outputs) if keep else (rows, outputs), scale=scale)
    fields = {"FusedActivationFunction": n.pick(*_ACTIVATIONS), "KeepNumDims": keep}
    n.add(
        "FULLY_CONNECTED",
        (x, w, n.layer_bias(x, w, outputs, scaled=True)),
        y,
        ("FullyConnectedOptions", fields),
    )


@step(3)
def _pooling(n: Network) -> None:
    x = n.image()
    size, _, fields, extents = n.window(x, dilated=False, most=4)
    fields |= {"FilterHeight": size[0], "FilterWidth": size[1]}
    kind = n.pick("MAX_POOL_2D", "AVERAGE_POOL_2D", *(("L2_POOL_2D",) if n.dtype == "float32" else ()))
    b, _, _, c = n.shape(x)
    n.same(x, kind, (b, *extents, c), options=("Pool2DOptions", fields))


@step(4)
def _sum(n: Network) -> None:
    """A sum or another function of two tensors: of one shape, or one of them broadcast, or constant."""
    a = n.any()
    shape = n.shape(a)
    partners = [x for x in n.live if n.shape(x) == shape and n.tensor(x).dtype == n.dtype and x != a]
    if partners and n.maybe(0.7):
        b = n.pick(*partners)
    elif n.maybe(0.5):
        small = tuple(1 if n.maybe(0.5) else e for e in shape)
        small = small[n.between(0, len(small)) :] if n.maybe(0.3) else small
        b = n.weights(small, 0.02) if n.dtype != "int16" else n.input(small)
    else:
        b = a
    kind = n.pick("ADD", "ADD", "ADD", "SUB", "MUL", "MUL")
    scale = 0.0
    if n.dtype != "float32":
        one, two = n.tensor(a).scale[0], n.tensor(b).scale[0]
        scale = n.random.uniform(0.7, 1.6) * (
            one * two * (90 if n.dtype == "int8" else 5000) if kind == "MUL" else max(one, two)
        )
    if n.maybe(0.3):
        a, b = b, a
    y = n.value(tuple(np.broadcast_shapes(n.shape(a), n.shape(b))), scale=scale)
    options = (f"{kind.title()}Options", {"FusedActivationFunction": n.pick(*_ACTIVATIONS)})
    n.add(kind, (a, b), y, options)


@step(1)
def _extreme(n: Network) -> None:
    a = n.any()
    others = [x for x in n.live if n.tensor(x).scale == n.tensor(a).scale and n.shape(x) == n.shape(a)]
    others = [
        x for x in others if n.tensor(x).zero_point == n.tensor(a).zero_point and n.tensor(x).dtype == n.dtype
    ]
    b = n.pick(*others) if others else a
    n.same(a, n.pick("MAXIMUM", "MINIMUM"), n.shape(a), (b,))


@step(2)
def _joined(n: Network) -> None:
    """Two to four tensors behind each other along an axis, each in the quantisation of the first."""
    first = n.any()
    shape = n.shape(first)
    if not shape:
        raise Unfit("a scalar")
    axis = n.between(0, len(shape) - 1) if n.maybe(0.4) else len(shape) - 1

    def fits(x: int) -> bool:
        other = n.shape(x)
        alike = len(other) == len(shape) and n.tensor(x).dtype == n.dtype
        return alike and all(i == axis or a == b for i, (a, b) in enumerate(zip(shape, other, strict=True)))

    fit = [x for x in n.live if fits(x)] or [first]
    parts = [first] + [n.pick(*fit) for _ in range(n.between(1, 3))]
    if n.dtype != "float32":
        for i, x in enumerate(parts[1:], 1):
            there = (n.tensor(x).scale, n.tensor(x).zero_point)
            if there != (n.tensor(first).scale, n.tensor(first).zero_point):
                parts[i] = n.add("QUANTIZE", (x,), n.like(first, n.shape(x)))
    y = n.like(
        first, tuple(sum(n.shape(p)[axis] for p in parts) if i == axis else e for i, e in enumerate(shape))
    )
    if math.prod(n.shape(y)) > MOST:
        raise Unfit("a long concatenation")
    turned = axis - len(shape) if n.maybe(0.3) else axis
    n.add("CONCATENATION", tuple(parts), y, ("ConcatenationOptions", {"Axis": turned}))


@step(2)
def _activation(n: Network) -> None:
    x = n.any()
    kinds = ["LOGISTIC", "TANH", "RELU", "LEAKY_RELU"]
    if n.dtype != "int16":
        kinds += ["RELU6", "HARD_SWISH", "ELU"]
    kind = n.pick(*kinds)
    scale, zero = 0.0, None
    if n.dtype != "float32" and kind in _ALIGNED:
        eight = n.dtype == "int8"
        scale = {"LOGISTIC": 1 / 256, "TANH": 1 / 128}[kind] if eight else 1 / 32768
        zero = -128 if eight and kind == "LOGISTIC" else 0
    elif n.dtype != "float32":
        scale = n.tensor(x).scale[0] * float(n.random.uniform(0.5, 1.5))
    options = (
        ("LeakyReluOptions", {"Alpha": float(n.random.uniform(0, 1.2))}) if kind == "LEAKY_RELU" else None
    )
    n.add(kind, (x,), n.value(n.shape(x), scale=scale, zero=zero), options)


@step(0.7)
def _softmax(n: Network) -> None:
    x = n.any()
    if not n.shape(x):
        raise Unfit("a scalar")
    eight = n.dtype == "int8"
    y = n.value(n.shape(x), scale=1 / 256 if eight else 1 / 32768, zero=-128 if eight else 0)
    n.add("SOFTMAX", (x,), y, ("SoftmaxOptions", {"Beta": float(n.pick(1.0, 1.0, 0.5, 2.0))}))


@step(1)
def _edges(n: Network) -> None:
    x = n.any()
    shape = n.shape(x)
    if not 1 <= len(shape) <= 4:
        raise Unfit("its rank")
    if n.maybe(0.25) and n.dtype != "int16":
        mode = n.pick(0, 1)
        edges = [[n.between(0, max(0, min(2, e - 1 + mode))) for _ in range(2)] for e in shape]
        kind, options = "MIRROR_PAD", ("MirrorPadOptions", {"Mode": 1 - mode if mode else 0})
        options = ("MirrorPadOptions", {"Mode": mode})
    else:
        edges = [[n.between(0, 2), n.between(0, 2)] for _ in shape]
        kind, options = "PAD", None
    wide = tuple(e + a + b for e, (a, b) in zip(shape, edges, strict=True))
    n.same(x, kind, wide, (n.constant(edges),), options)


@step(2)
def _moved(n: Network) -> None:
    """TRANSPOSE, RESHAPE, SLICE or STRIDED_SLICE."""
    x = n.any()
    shape = n.shape(x)
    if not 1 <= len(shape) <= 4:
        raise Unfit("its rank")
    kind = n.pick("TRANSPOSE", "RESHAPE", "SLICE", "STRIDED_SLICE")
    if kind == "TRANSPOSE":
        order = n.random.permutation(len(shape))
        n.same(x, kind, tuple(shape[i] for i in order), (n.constant(order),))
    elif kind == "RESHAPE":
        wide = (
            1,
            shape[0],
            math.prod(shape[1:-1]) if len(shape) > 2 else 1,
            shape[-1] if len(shape) > 1 else 1,
        )
        new = n.pick((math.prod(shape),), wide, (shape[0], math.prod(shape[1:])))
        n.same(x, kind, new, (n.constant(new),))
    elif kind == "SLICE":
        begin = [n.between(0, e - 1) for e in shape]
        size = [n.between(1, e - b) for e, b in zip(shape, begin, strict=True)]
        n.same(x, kind, tuple(size), (n.constant(begin), n.constant(size)))
    else:
        begin = [n.between(0, e - 1) for e in shape]
        end = [n.between(b + 1, e) for e, b in zip(shape, begin, strict=True)]
        strides = [n.pick(1, 1, 2, 3) for _ in shape]
        new = tuple(-(-(e - b) // s) for b, e, s in zip(begin, end, strides, strict=True))
        n.same(x, kind, new, tuple(map(n.constant, (begin, end, strides))), ("StridedSliceOptions", {}))


@step(1)
def _parts(n: Network) -> None:
    x = n.any()
    shape = n.shape(x)
    axes = [i for i, e in enumerate(shape) if e > 1 and e % n.pick(2, 3) == 0]
    if not axes:
        raise Unfit("nothing to split")
    axis = n.pick(*axes)
    count = n.pick(*[k for k in (2, 3) if shape[axis] % k == 0] or [1])
    new = tuple(e // count if i == axis else e for i, e in enumerate(shape))
    parts = [n.like(x, new) for _ in range(count)]
    n.finish("SPLIT", (n.constant(axis), x), *parts, options=("SplitOptions", {"NumSplits": count}))


@step(1)
def _mean(n: Network) -> None:
    x = n.any()
    shape = n.shape(x)
    if not 2 <= len(shape) <= 4:
        raise Unfit("its rank")
    axes = (
        [1, 2]
        if len(shape) == 4 and n.maybe(0.5)
        else sorted({n.between(0, len(shape) - 1) for _ in range(2)})
    )
    keep = n.maybe(0.5)
    left = tuple(1 if i in axes else e for i, e in enumerate(shape) if keep or i not in axes)
    if not left:
        raise Unfit("a scalar")
    kind = n.pick("MEAN", "MEAN", "SUM")
    count = math.prod(shape[i] for i in axes)
    scale = 0.0
    if n.dtype != "float32":
        grown = math.sqrt(count) if kind == "SUM" else 1 / math.sqrt(count)
        scale = n.tensor(x).scale[0] * max(grown, 0.3) * float(n.random.uniform(0.7, 1.5))
    options = ("ReducerOptions", {"KeepDims": keep})
    n.add(
        kind,
        (x, n.constant([a - len(shape) if n.maybe(0.2) else a for a in axes])),
        n.value(left, scale=scale),
        options,
    )


@step(0.7)
def _resized(n: Network) -> None:
    x = n.image()
    b, h, w, c = n.shape(x)
    size = (n.between(1, 3 * h), n.between(1, 3 * w))
    kind = "RESIZE_NEAREST_NEIGHBOR" if n.dtype == "int16" or n.maybe(0.5) else "RESIZE_BILINEAR"
    flag = n.pick({}, {"AlignCorners": True}, {"HalfPixelCenters": True})
    options = ("ResizeBilinearOptions" if kind.endswith("LINEAR") else "ResizeNearestNeighborOptions", flag)
    n.same(x, kind, (b, *size, c), (n.constant(size),), options)


@step(5)
def _case(n: Network) -> None:
    """One of the operators that have a model of their own, on values of the network."""
    # Quotients of zero stop TFLM.
    names = [
        x for x, (dtypes, _) in CASES.items() if n.dtype in dtypes and x not in ("FLOOR_DIV", "FLOOR_MOD")
    ]
    CASES[n.pick(*names)][1](n)


def random_network(seed: int, dtype: str, size: int = 0, without: frozenset[str] = frozenset()) -> Network:
    """A network of ``size`` steps, 5 to 15 by default.

    Args:
        without: kinds of operators that are left out.
    """
    n = Network(seed, dtype)
    size = size or int(n.random.integers(5, 16))
    draw_steps(n, size, [name for name, (_, dtypes, _) in STEPS.items() if dtype in dtypes], without)
    return n


def draw_steps(n: Network, size: int, names: list[str], without: frozenset[str] = frozenset()) -> None:
    """Add ``size`` steps of some names, or fewer where hardly any fits."""
    weights = np.array([STEPS[name][0] for name in names])
    n.live.append(n.image())
    done = tries = 0
    while done < size and tries < 20 * size:
        tries += 1
        name = names[int(n.random.choice(len(names), p=weights / weights.sum()))]
        before = len(n.spec.tensors), len(n.spec.operators), len(n.spec.inputs), list(n.live)
        try:
            STEPS[name][2](n)
            kinds = {one.kind for one in n.spec.operators[before[1] :]}
            if kinds & without:
                raise Unfit("left out")
            done += 1
        except Unfit:
            del n.spec.tensors[before[0] :], n.spec.operators[before[1] :], n.spec.inputs[before[2] :]
            n.live = before[3]
