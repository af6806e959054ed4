# SPDX-License-Identifier: Apache-2.0
"""Preprocessing in numpy: bit for bit what the C of `imagecode` and `audiocode` computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.preprocess.audioplan import AudioPlan
from mlf_sdk.compiler.preprocess.imageplan import GREY, WEIGHT_BITS, ImagePlan
from mlf_sdk.compiler.reference import Interpreter

_ONE: Final = 1 << WEIGHT_BITS
_HALF: Final = 1 << (2 * WEIGHT_BITS - 1)


def image_input(plan: ImagePlan, frame: Array) -> Array:
    """Input of the model for one frame: (height, width, channels), or (channels, height, width) where planar.

    Args:
        frame: bytes of the plan's shape.
    """
    pixels = decoded(plan, frame).astype(np.int64)
    x, y, width, height = plan.crop
    pixels = pixels[y : y + height, x : x + width]
    columns, rows = (np.array(places, np.int64).reshape(-1, 2) for places in (plan.columns, plan.rows))
    right, down = columns[:, 1][None, :, None], rows[:, 1][:, None, None]
    upper, lower = (
        (_ONE - right) * pixels[at][:, columns[:, 0]]
        + right * pixels[at][:, columns[:, 0] + (columns[:, 1] > 0)]
        for at in (rows[:, 0], rows[:, 0] + (rows[:, 1] > 0))
    )
    result = (_ONE - down) * upper + down * lower + _HALF >> 2 * WEIGHT_BITS
    tables = np.array(plan.values, plan.dtype)
    stored = np.stack([tables[c % len(tables)][result[..., c]] for c in range(plan.channels)], axis=-1)
    return np.ascontiguousarray(np.moveaxis(stored, -1, 0) if plan.planar else stored)


def decoded(plan: ImagePlan, frame: Array) -> Array:
    """Channels of each pixel of a frame, 0 to 255: (height, width, 1 or 3) in the order of the input."""
    width, height = plan.size
    frame = frame.reshape(plan.shape).astype(np.int64)
    kind = plan.frame.partition("-")[0]
    parts = _DECODERS[kind](plan, frame)[:height, :width]
    if plan.colour == "grey":
        return parts if parts.shape[-1] == 1 else _grey(parts)
    parts = np.repeat(parts, 3, axis=-1) if parts.shape[-1] == 1 else parts
    return parts[..., ::-1] if plan.colour == "bgr" else parts


def _grey(rgb: Array) -> Array:
    return (rgb.astype(np.int64) @ np.array(GREY)[:, None] + (1 << 15)) >> 16


def _packed(plan: ImagePlan, frame: Array) -> Array:
    high, low = (1, 0) if plan.frame == "rgb565" else (0, 1)
    words = frame[..., high].astype(np.int64) << 8 | frame[..., low].astype(np.int64)
    red, green, blue = words >> 11, words >> 5 & 63, words & 31
    return np.stack([red << 3 | red >> 2, green << 2 | green >> 4, blue << 3 | blue >> 2], axis=-1)


def _pairs(plan: ImagePlan, frame: Array) -> Array:
    """Luma and chroma of pairs of pixels."""
    luma, chroma = (0, 1) if plan.frame == "yuyv" else (1, 0)
    yuv = plan.yuv
    y = (frame[..., luma].astype(np.int64) - yuv.black) * yuv.luma + (1 << 15)
    if plan.colour == "grey":
        return np.clip(y >> 16, 0, 255)[..., None]
    u, v = (np.repeat(frame[:, k::2, chroma].astype(np.int64) - 128, 2, axis=1) for k in (0, 1))
    rgb = [y + yuv.red_v * v, y - yuv.green_u * u - yuv.green_v * v, y + yuv.blue_u * u]
    return np.clip(np.stack(rgb, axis=-1) >> 16, 0, 255)


def _mosaic(plan: ImagePlan, frame: Array) -> Array:
    """Colours that a pixel lacks are means of its nearest neighbours; the mosaic is mirrored at the edges."""
    grid = np.pad(frame.astype(np.int64), 1, mode="reflect")
    centre, up, down = grid[1:-1, 1:-1], grid[:-2, 1:-1], grid[2:, 1:-1]
    left, right = grid[1:-1, :-2], grid[1:-1, 2:]
    corners = grid[:-2, :-2] + grid[:-2, 2:] + grid[2:, :-2] + grid[2:, 2:] + 2 >> 2
    cross, beside, above = up + down + left + right + 2 >> 2, left + right + 1 >> 1, up + down + 1 >> 1
    red_y, red_x = divmod(plan.frame.partition("-")[2].index("r"), 2)
    rows, columns = np.indices(centre.shape) & 1
    in_red_row, in_red_column = rows == red_y, columns == red_x
    cases = [in_red_row & in_red_column, in_red_row, in_red_column]  # red, green beside red, green above red
    red = np.select(cases, [centre, beside, above], corners)
    green = np.select([in_red_row == in_red_column], [cross], centre)
    blue = np.select(cases, [corners, above, beside], centre)
    return np.stack([red, green, blue], axis=-1)


_DECODERS: Final[dict[str, Callable[[ImagePlan, Array], Array]]] = {
    "grey8": lambda _, frame: frame[..., None],
    "rgb888": lambda _, frame: frame,
    "bgr888": lambda _, frame: frame[..., ::-1],
    "rgb565": _packed,
    "rgb565be": _packed,
    "yuyv": _pairs,
    "uyvy": _pairs,
    "bayer": _mosaic,
}


def audio_input(plan: AudioPlan, samples: Array) -> Array:
    """Input of the model for the samples of an inference: (windows, features); estimates start anew."""
    interpreter = Interpreter(plan.graph)
    begins = range(0, plan.windows * plan.stride, plan.stride)
    rows = [interpreter.run([samples[begin : begin + plan.window]])[0] for begin in begins]
    return stored(plan, np.stack(rows).astype(np.int64))


def stored(plan: AudioPlan, features: Array) -> Array:
    """Stored values of int64 features (windows, channels)."""
    if plan.cosines is not None:
        features = features @ plan.cosines.T.astype(np.int64)
    if plan.limits is None:
        return features.astype(np.float32) * np.float32(plan.unit)
    scaled = (features * plan.multiplier + (1 << (plan.shift - 1)) >> plan.shift) + plan.zero_point
    return np.clip(scaled, *plan.limits).astype(plan.dtype)
