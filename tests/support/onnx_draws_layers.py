# SPDX-License-Identifier: Apache-2.0
"""Draws of layers with windows or weights, of normalisation, recurrent layers and interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_draws import axis_of, bias, draws, factors, ints, parameter, put, real, reshaped, weights
from onnx_network import Array, Network, Unfit, Value


def window_of(
    n: Network, space: tuple[int, ...], *, dilated: bool = True, weighted: bool = True
) -> dict[str, Any]:
    """Attributes of a window, of a layer with weights or of pooling: extents, strides, dilations, a padding."""
    rank = len(space)
    size = [n.choice((1, 2, 3, 3, 4, 5)) for _ in range(rank)]
    size = [min(k, e) for k, e in zip(size, space, strict=True)]
    found: dict[str, Any] = {"kernel_shape": size}
    mode = n.choice(("", "", "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"))
    same = mode.startswith("SAME")
    if n.chance(0.6):  # with SAME, also such as leave elements between windows out
        found["strides"] = [n.choice((1, 1, 2, 3, *((3, 4, 5) if same else ()))) for _ in range(rank)]
    if dilated and n.chance(0.4) and not (same and weighted):  # ONNX Runtime doesn't have both
        found["dilations"] = [
            n.choice([d for d in (1, 2, 3) if d == 1 or (k - 1) * d < e])
            for k, e in zip(size, space, strict=True)
        ]
    if mode == "pads":
        found["pads"] = [n.integer(0, max(k - 1, 0)) if n.chance(0.7) else 0 for k in (*size, *size)]
    elif mode:
        found["auto_pad"] = mode
    return found


def _picture(n: Network) -> Value:
    """Channels over one to three axes."""
    return real(n, 4, 4, 4, 3, 5, fits=lambda v: v.shape[1] <= 32 and min(v.shape[2:]) >= 1)


@draws("Conv")
def conv(n: Network) -> None:
    x = _picture(n)
    channels = x.shape[1]
    groups = channels if n.chance(0.35) else n.divisor(channels) if n.chance(0.3) else 1
    outputs = groups * n.choice((1, 1, 1, 2, 3)) if groups > 1 else n.choice((1, 2, 3, 4, 5, 7, 8, 8, 12, 16))
    if outputs > 32:
        outputs = groups
    found = window_of(n, x.shape[2:])
    w = weights(n, (outputs, channels // groups, *found["kernel_shape"]), 0)
    if n.chance(0.4):
        del found["kernel_shape"]
    if groups > 1 or n.chance(0.1):
        found["group"] = groups
    operands = [x, w, *([bias(n, outputs, x, w)] if n.chance(0.7) else [])]
    put(n, n.node("Conv", *operands, **found))


@draws("ConvTranspose")
def conv_transpose(n: Network) -> None:
    x = real(n, 4, 4, 3, fits=lambda v: v.shape[1] <= 16 and max(v.shape[2:]) <= 10)
    channels, space = x.shape[1], x.shape[2:]
    groups = n.divisor(channels) if n.chance(0.4) else 1
    outputs = n.choice((1, 2, 3, 4, 8)) if groups < 4 else n.choice((1, 2))
    found = window_of(n, space)
    size = found.pop("kernel_shape")
    w = weights(n, (channels, outputs, *size), None)
    if n.chance(0.3):
        found["kernel_shape"] = size
    if groups > 1:
        found["group"] = groups
    strides, dilations = (found.get(name, [1] * len(space)) for name in ("strides", "dilations"))
    if n.chance(0.3):
        found["output_padding"] = [
            n.integer(0, max(s, d) - 1) for s, d in zip(strides, dilations, strict=True)
        ]
    elif n.chance(0.15) and found.get("auto_pad", "NOTSET") != "VALID":
        found.pop("pads", None)
        found["output_shape"] = [
            max((e - 1) * s + 1, e * s - n.integer(0, 1)) for e, s in zip(space, strides, strict=True)
        ]
    operands = [x, w, *([n.normal(outputs * groups)] if n.chance(0.6) else [])]
    put(n, n.node("ConvTranspose", *operands, **found))


@draws("MaxPool", styles=("qoperator",))
def stored_pool(n: Network) -> None:
    pool(n, "MaxPool")


@draws("MaxPool", "AveragePool")
def pool(n: Network, kind: str) -> None:
    largest = kind == "MaxPool"
    if n.style == "qoperator" or (largest and n.opset >= 12 and n.chance(0.15)):
        found = n.pick(lambda v: v.data.dtype.name in ("int8", "uint8") and v.rank in (3, 4, 5))
        if found is None:
            raise Unfit("no stored picture")
        x = found
    else:
        x = _picture(n)
    since = 10 if largest else 19
    found = window_of(n, x.shape[2:], dilated=n.opset >= since, weighted=False)
    if n.opset >= 10 and n.chance(0.35):
        found["ceil_mode"] = 1
    if not largest and n.chance(0.4):
        found["count_include_pad"] = 1
    if largest and n.style == "float" and n.opset >= 8 and x.rank < 5 and n.chance(0.15):
        found |= {"storage_order": n.integer(0, 1)} if n.chance(0.6) else {}
        put(n, *n.node(kind, x, outputs=2, **found))
        return
    y = n.node(kind, x, **found)
    y.scale, y.zero = x.scale, x.zero
    put(n, y)


@draws("GlobalAveragePool", "GlobalMaxPool")
def global_pool(n: Network, kind: str) -> None:
    put(n, n.node(kind, _picture(n)))


@draws("Gemm")
def gemm(n: Network) -> None:
    a = real(n, 2)
    found: dict[str, Any] = {}
    if n.chance(0.25):
        found["transA"] = 1
    rows, inner = a.shape[::-1] if found else a.shape
    columns = n.choice((1, 2, 3, 5, 8, 10, 16))
    if n.chance(0.5):
        found["transB"] = 1
    shape = (columns, inner) if "transB" in found else (inner, columns)
    other = n.pick(lambda v: v.is_real and v.shape == shape)
    b = other if other is not None and n.chance(0.5) else weights(n, shape, 0 if "transB" in found else 1)
    for name in ("alpha", "beta"):
        if n.chance(0.2):
            found[name] = float(n.choice((0.5, -1.25, 2.0)))
    operands = [a, b]
    if n.opset < 11 or n.chance(0.7):
        operands.append(_gemm_bias(n, a, b, rows, columns))
    put(n, n.node("Gemm", *operands, **found))


def _gemm_bias(n: Network, a: Value, b: Value, rows: int, columns: int) -> Value:
    if n.chance(0.6):
        return bias(n, columns, a, b)
    shape = n.choice(((), (1,), (columns,), (1, columns), (rows, 1), (rows, columns), (1, 1)))
    other = n.pick(lambda v: v.is_real and v.shape == shape)
    return other if other is not None and n.chance(0.5) else n.normal(*shape)


@draws("MatMul")
def mat_mul(n: Network) -> None:
    a = real(n, 1, 2, 3, 4)
    inner = a.shape[-1]
    columns = n.choice((1, 2, 3, 5, 8, 12))
    choice = n.integer(0, 5)
    if choice == 0 and a.rank > 1:
        other = n.pick(
            lambda v: v.is_real and v.rank >= 2 and v.shape[-2] == inner and v.shape[:-2] == a.shape[:-2]
        )
        b = other if other is not None else n.fresh((*a.shape[:-2], inner, columns))
    elif choice == 1:
        b = weights(n, (inner,), None)
    elif choice == 2:
        b = weights(n, (*(1 if n.chance(0.5) else e for e in a.shape[:-2]), inner, columns), None)
    elif choice == 3 and a.rank > 1:
        b = n.node("Transpose", a, perm=[*range(a.rank - 2), a.rank - 1, a.rank - 2])
    else:
        b = weights(n, (inner, columns), 1)
    if n.chance(0.1) and a.rank == 2:
        a, b = weights(n, (columns, a.shape[0]), None), a
    put(n, n.node("MatMul", a, b))


def _normal(n: Network, *shape: int) -> Value:
    return parameter(n, (n.random.standard_normal(shape) * 0.4).astype(np.float32))


@draws("BatchNormalization")
def batch_normalization(n: Network) -> None:
    x = real(n, 2, 3, 4, 4)
    c = x.shape[1]
    variance = parameter(n, n.random.uniform(0.3, 2, c).astype(np.float32))
    found: dict[str, Any] = {"epsilon": 1e-3} if n.chance(0.4) else {}
    if n.chance(0.2):
        found["momentum"] = 0.7
    if n.chance(0.1) and n.opset >= 14:
        found["training_mode"] = 0
    put(n, n.node("BatchNormalization", x, _normal(n, c), _normal(n, c), _normal(n, c), variance, **found))


def _spread(rows: Array) -> None:
    """Refuse rows whose numbers lie close together: rounding of their mean would be most of what is left."""
    rows = rows.astype(np.float64)
    if (rows.var(axis=-1) < 0.03 * rows.mean(axis=-1) ** 2 + 1e-4).any():
        raise Unfit("not well conditioned")


@draws("InstanceNormalization", "GroupNormalization")
def group_normalization(n: Network, kind: str) -> None:
    x = real(n, 3, 4, fits=lambda v: np.prod(v.shape[2:]) > 1)
    found: dict[str, Any] = {"epsilon": 1e-2} if n.chance(0.4) else {}
    count = x.shape[1]
    if kind == "GroupNormalization":
        found["num_groups"] = n.divisor(count)
        if n.opset < 21:
            count = found["num_groups"]
        if n.opset >= 21 and n.chance(0.3):
            found["stash_type"] = 1
    _spread(x.data.reshape(x.shape[0] * found.get("num_groups", count), -1))
    put(n, n.node(kind, x, _normal(n, count), _normal(n, count), **found))


@draws("LayerNormalization", "RMSNormalization")
def layer_normalization(n: Network, kind: str) -> None:
    x = real(n, 2, 3, 4, fits=lambda v: v.shape[-1] > 1)
    found: dict[str, Any] = {}
    axis = -1
    if n.chance(0.6):
        axis = found["axis"] = axis_of(n, x.rank)
    if n.chance(0.4):
        found["epsilon"] = 1e-3
    if n.chance(0.2):
        found["stash_type"] = 1
    shape = x.shape[axis:]
    if kind == "LayerNormalization":
        _spread(x.data.reshape(-1, int(np.prod(shape))))
    if n.chance(0.2):
        shape = tuple(1 if n.chance(0.5) else e for e in shape)
    operands = [x, _normal(n, *shape)]
    if kind == "LayerNormalization" and n.chance(0.6):
        operands.append(_normal(n, *shape))
    put(n, n.node(kind, *operands, **found))


_CELLS = {"LSTM": (4, 3), "GRU": (3, 2), "RNN": (1, 1)}


@draws("LSTM", "GRU", "RNN", styles=("float",))
def recurrent(n: Network, kind: str) -> None:
    gates, per = _CELLS[kind]
    x = real(n, 3, fits=lambda v: v.shape[0] <= 8 and v.shape[1] <= 4)
    hidden, direction = n.integer(1, 6), n.choice(("", "forward", "reverse", "bidirectional"))
    d = 2 if direction == "bidirectional" else 1
    steps, batch, size = x.shape
    found: dict[str, Any] = {"hidden_size": hidden}
    if direction:
        found["direction"] = direction
    if n.chance(0.3):
        found["activations"] = [n.choice(("Sigmoid", "Tanh", "Relu")) for _ in range(per)] * d
    if kind == "GRU" and n.chance(0.5):
        found["linear_before_reset"] = 1
    operands: list[Value | None] = [x, n.normal(d, gates * hidden, size), n.normal(d, gates * hidden, hidden)]
    operands.append(n.normal(d, 2 * gates * hidden) if n.chance(0.7) else None)
    operands.append(n.constant(np.full(batch, steps, np.int32)) if n.chance(0.2) else None)
    for _ in range(2 if kind == "LSTM" else 1):
        start = (n.random.uniform(-1, 1, (d, batch, hidden))).astype(np.float32)
        operands.append(None if n.chance(0.5) else n.constant(start) if n.chance(0.5) else n.input(start))
    while operands[-1] is None:
        operands.pop()
    count = 3 if kind == "LSTM" else 2
    wanted = sorted({n.integer(0, count - 1) for _ in range(count)})
    made = n.node(kind, *operands, outputs=wanted[-1] + 1, wanted=wanted, **found)
    put(n, *(made if isinstance(made, list) else [made]))


def _size(n: Network, extent: int) -> int:
    return max(1, min(n.choice((extent, 2 * extent, extent + 1, extent // 2, extent - 1, 3 * extent)), 24))


@draws("Resize")
def resize(n: Network) -> None:
    x = real(n, 4, 4, 3, fits=lambda v: max(v.shape) <= 24)
    axes = list(range(2, x.rank))
    mode = n.choice(("nearest", "nearest", "linear", "linear", "cubic"))
    found: dict[str, Any] = {"mode": mode}
    if n.opset < 11:
        scales = n.constant(np.array([1, 1, *(n.choice((1, 2, 3)) for _ in axes)], np.float32))
        if mode == "cubic" or (mode == "linear" and x.rank != 4):
            found["mode"] = "nearest"
        put(n, n.node("Resize", x, scales, **found))
        return
    coordinates = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    coordinates += ["half_pixel_symmetric"] * (n.opset >= 19) + ["tf_crop_and_resize"] * (mode == "nearest")
    if n.chance(0.8):
        found["coordinate_transformation_mode"] = n.choice(coordinates)
    if mode == "nearest" and n.chance(0.7):
        found["nearest_mode"] = n.choice(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    if mode == "cubic":
        found |= {"cubic_coeff_a": -0.5} if n.chance(0.5) else {}
        found |= {"exclude_outside": 1} if n.chance(0.3) else {}
    if n.opset >= 18 and n.chance(0.5):
        found["axes"] = chosen = axes
    else:
        chosen = list(range(x.rank))
    region = None
    if found.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        start = [0.0 if a < 2 else 0.125 for a in chosen]
        region = n.constant(np.array(start + [1.0 if a < 2 else 0.75 for a in chosen], np.float32))
    elif n.opset < 13:
        region = n.constant(np.zeros(0, np.float32))
    put(n, _resized(n, x, chosen, region, found))


def _resized(n: Network, x: Value, chosen: list[int], region: Value | None, found: dict[str, Any]) -> Value:
    if n.chance(0.5):
        sizes = [x.shape[a] if a < 2 else _size(n, x.shape[a]) for a in chosen]
        if n.opset >= 18 and n.chance(0.5):
            found["keep_aspect_ratio_policy"] = n.choice(("stretch", "not_larger", "not_smaller"))
            if found["keep_aspect_ratio_policy"] != "stretch" and "axes" not in found:
                raise Unfit("the policy would change the channels")
        empty = n.constant(np.zeros(0, np.float32)) if n.opset < 13 else None
        return n.node("Resize", x, region, empty, ints(n, sizes), **found)
    scales = [1.0 if a < 2 else float(n.choice((0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0))) for a in chosen]
    return n.node("Resize", x, region, n.constant(np.array(scales, np.float32)), **found)


@draws("Upsample")
def upsample(n: Network) -> None:
    x = real(n, 4, fits=lambda v: max(v.shape) <= 12)
    if n.opset > 9:
        raise Unfit("Resize took its place")
    scales = [1.0, 1.0, float(n.choice((1, 2, 3))), float(n.choice((1, 2)))]
    found = {"mode": n.choice(("nearest", "linear"))}
    if n.opset < 9:
        put(n, n.node("Upsample", x, scales=scales, **found))
    else:
        put(n, n.node("Upsample", x, n.constant(np.array(scales, np.float32)), **found))


@draws("Softmax", "LogSoftmax")
def softmax(n: Network, kind: str) -> None:
    x = real(n, 1, 2, 3, 4)
    put(n, n.node(kind, x, **({"axis": axis_of(n, x.rank)} if n.chance(0.8) else {})))


@draws("MeanVarianceNormalization", styles=("float",))
def mean_variance_normalization(n: Network) -> None:
    """Of numbers that spread: it is defined by the difference of two means."""

    def spreads(v: Value) -> bool:
        mean, variance = (f(v.data.astype(np.float64), axis=(0, 2, 3)) for f in (np.mean, np.var))
        return bool((np.abs(mean) > 0.05).all() and (variance > 0.3 * mean**2).all())

    x = real(n, 4, fits=spreads)
    if not spreads(x):
        raise Unfit("not well conditioned")
    put(n, n.node("MeanVarianceNormalization", x, **({"axes": [0, 2, 3]} if n.chance(0.5) else {})))


@draws("Flatten")
def flatten(n: Network) -> None:
    x = real(n, 2, 3, 4)
    put(
        n,
        n.node(
            "Flatten", x, **({"axis": axis_of(n, x.rank) if n.opset >= 11 else 1} if n.chance(0.6) else {})
        ),
    )


@draws("Reshape")
def reshape(n: Network) -> None:
    x = real(n)
    y = reshaped(n, x, factors(n, x.data.size, n.integer(1, 5)))
    n.pool.append(y)
