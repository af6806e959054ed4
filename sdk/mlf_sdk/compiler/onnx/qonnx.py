# SPDX-License-Identifier: Apache-2.0
"""Operators of QONNX, which Brevitas, QKeras's exporter and FINN write, as standard nodes.

Source: QONNX's definitions of Quant, BipolarQuant, Trunc and MultiThreshold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import refuse
from mlf_sdk.compiler.onnx.steps import Steps
from mlf_sdk.compiler.operators import Array

_DOMAINS: Final = ("", "qonnx.custom_op.general.", "onnx.brevitas.", "finn.custom_op.general.")
_MOST_THRESHOLDS: Final = 31
_REAL: Final = 1  # an element type in ONNX's numbers


def _quant(steps: Steps) -> None:
    """Quant and IntQuant: (clip(round(x / scale + zero point)) - zero point) * scale."""
    scale, zero, bits = (_known(steps, i) for i in (1, 2, 3))
    signed, narrow = (bool(steps.node.attribute(name, 0)) for name in ("signed", "narrow"))
    width = _whole(bits, "width")
    if width == 1 and signed:
        _signs(steps, scale)
        return
    low, high = _limits(width, signed=signed, narrow=narrow)
    mode = _mode(steps, "ROUND")
    if _stored(steps, scale, zero, (low, high), mode):
        return
    y = steps.add("Div", steps.real(), steps.constant(scale))
    y = _moved(steps, "Add", y, zero)
    y = steps.add("Max", steps.add("Min", y, steps.constant(high)), steps.constant(low))
    y = _moved(steps, "Sub", _ROUNDED[mode](steps, y), zero)
    steps.add("Mul", y, steps.constant(scale), output=steps.raw.outputs[0])


def _stored(steps: Steps, scale: Array, zero: Array, limits: tuple[float, float], mode: str) -> bool:
    """Add 8-bit integers and their scale, where those stand for the same numbers; False where they don't."""
    low, high = limits
    dtype = np.int8 if low < 0 else np.uint8
    info, x, output = np.iinfo(dtype), steps.node.input(), steps.raw.outputs[0]
    if zero.any() or low < info.min or high > info.max or mode not in ("ROUND", "HALF_EVEN"):
        return False
    axes = [axis for axis, extent in enumerate(scale.shape) if extent > 1]
    axis = axes[0] + x.rank - scale.ndim if axes else 0
    if axis < 0 or len(axes) > 1 or (axes and (x.data is None or scale.size != x.shape[axis])):
        return False
    scales = steps.constant(scale.reshape(-1) if axes else scale.reshape(()))
    point = steps.constant(np.zeros(scale.size if axes else (), dtype), dtype)
    if x.data is not None:
        integers = np.clip(np.round(x.data.astype(np.float32) / scale), low, high)
        stored = steps.constant(integers, dtype)
    else:
        name = steps.real()
        if (low, high) != (info.min, info.max):
            least, most = (steps.constant(limit * scale.reshape(())) for limit in limits)
            name = steps.add("Clip", name, least, most)
        stored = steps.add("QuantizeLinear", name, scales, point)
    steps.add("DequantizeLinear", stored, scales, point, output=output, axis=axis)
    return True


def _signs(steps: Steps, scale: Array) -> None:
    """The scale, or its negative where the input is below 0."""
    positive = steps.add("GreaterOrEqual", steps.real(), steps.constant(0))
    given = steps.constant(scale), steps.constant(-scale)
    steps.add("Where", positive, *given, output=steps.raw.outputs[0])


def _bipolar(steps: Steps) -> None:
    _signs(steps, _known(steps, 1))


def _trunc(steps: Steps) -> None:
    """Trunc: integers that lose bits; five inputs keep the scale, six state that of the result."""
    given = [_known(steps, i) for i in range(1, len(steps.raw.inputs))]
    if len(given) not in (4, 5):
        refuse(f"{len(given) + 1} inputs; five or six are defined")
    scale, zero = given[:2]
    y = _moved(steps, "Add", steps.add("Div", steps.real(), steps.constant(scale)), zero)
    y = steps.add("Round", y)
    mode = _mode(steps, "FLOOR")
    if len(given) == 4:
        power = 2.0 ** (_whole(given[2], "width") - _whole(given[3], "width"))
        y = _ROUNDED[mode](steps, steps.add("Div", y, steps.constant(power)))
        wanted, point = scale, zero
    else:
        wanted = given[3]
        lost = 2 ** np.round(np.log2(wanted / scale))
        signed, narrow = (
            bool(steps.node.attribute(name, one)) for name, one in (("signed", 1), ("narrow", 0))
        )
        low, high = _limits(_whole(given[4], "width"), signed=signed, narrow=narrow)
        y = steps.add("Div", y, steps.constant(lost))
        y = steps.add("Max", steps.add("Min", y, steps.constant(high)), steps.constant(low))
        y, point = _ROUNDED[mode](steps, y), zero / lost
    steps.add("Mul", _moved(steps, "Sub", y, point), steps.constant(wanted), output=steps.raw.outputs[0])


def _multi_threshold(steps: Steps) -> None:
    """MultiThreshold: the number of thresholds (channels, count) that the input reaches, scaled and moved."""
    x, thresholds = steps.node.input(), _known(steps, 1)
    layout = str(steps.node.attribute("data_layout", "")) or ("NWC" if x.rank == 3 else "NC")
    axis = layout.find("C") if "C" in layout else 1
    if thresholds.ndim != 2 or axis >= x.rank or thresholds.shape[0] not in (1, x.shape[axis]):
        refuse(f"thresholds {thresholds.shape} of an input {x.shape}")
    if not 1 <= thresholds.shape[1] <= _MOST_THRESHOLDS:
        refuse(f"{thresholds.shape[1]} thresholds; 1 to {_MOST_THRESHOLDS} are supported")
    shape, name, total = (-1, *(1,) * (x.rank - 1 - axis)), steps.real(), ""
    for column in thresholds.T:
        reached = steps.add("GreaterOrEqual", name, steps.constant(column.reshape(shape)))
        one = steps.add("Cast", reached, to=_REAL)
        total = steps.add("Add", total, one) if total else one
    scale, bias = (float(steps.node.attribute(f"out_{n}", d)) for n, d in (("scale", 1), ("bias", 0)))
    scaled = steps.add("Mul", total, steps.constant(scale))
    steps.add("Add", scaled, steps.constant(bias), output=steps.raw.outputs[0])


def _away(steps: Steps, kind: str, x: str, added: float = 0.0) -> str:
    """A magnitude that is moved and rounded, with its sign again."""
    magnitude = steps.add("Add", steps.add("Abs", x), steps.constant(added))
    return steps.add("Mul", steps.add("Sign", x), steps.add(kind, magnitude))


_ROUNDED: Final[dict[str, Callable[[Steps, str], str]]] = {
    "ROUND": lambda steps, x: steps.add("Round", x),
    "HALF_EVEN": lambda steps, x: steps.add("Round", x),
    "CEIL": lambda steps, x: steps.add("Ceil", x),
    "FLOOR": lambda steps, x: steps.add("Floor", x),
    "UP": lambda steps, x: _away(steps, "Ceil", x),
    "DOWN": lambda steps, x: _away(steps, "Floor", x),
    "HALF_UP": lambda steps, x: _away(steps, "Floor", x, 0.5),
    "HALF_DOWN": lambda steps, x: _away(steps, "Ceil", x, -0.5),
}


def _mode(steps: Steps, default: str) -> str:
    mode = str(steps.node.attribute("rounding_mode", default)).upper()
    if mode not in _ROUNDED:
        refuse(f"the rounding mode {mode[:40]} is not known")
    return mode


def _moved(steps: Steps, kind: str, x: str, zero: Array) -> str:
    """A sum with, or difference from, a zero point that is not 0."""
    return steps.add(kind, x, steps.constant(zero)) if zero.any() else x


def _known(steps: Steps, position: int) -> Array:
    """Real numbers of a constant input."""
    return steps.node.data(position, "parameter").astype(np.float32)


def _whole(bits: Array, what: str) -> int:
    width = bits.reshape(-1)
    if width.size != 1 or not 1 <= width[0] <= 32 or width[0] != np.round(width[0]):
        refuse(f"the {what} {width[:4].tolist()} in bits; one of 1 to 32 is supported")
    return int(width[0])


def _limits(width: int, *, signed: bool, narrow: bool) -> tuple[float, float]:
    """The smallest and the largest integer of so many bits; a narrow type lacks one of them."""
    if signed:
        return -(2.0 ** (width - 1)) + narrow, 2.0 ** (width - 1) - 1
    return 0.0, 2.0**width - 1 - narrow


_KINDS: Final[dict[str, Callable[[Steps], None]]] = {
    "Quant": _quant,
    "IntQuant": _quant,
    "BipolarQuant": _bipolar,
    "Trunc": _trunc,
    "MultiThreshold": _multi_threshold,
}
EXPANSIONS: Final = {domain + kind: expand for domain in _DOMAINS for kind, expand in _KINDS.items()}
