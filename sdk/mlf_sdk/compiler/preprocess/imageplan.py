# SPDX-License-Identifier: Apache-2.0
"""From a frame of a camera to a model's input: all that is decided once, in whole numbers.

Each pixel of the input is decoded to 8-bit channels where it lies in the frame, interpolated in fixed
point, and looked up in a table with a stored value for each of the 256, in which are the model's scale and
zero point.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Final

from mlf_sdk.compiler.preprocess.section import refuse, stored_limits
from mlf_sdk.ir.tensor import InputFacts, Section

WEIGHT_BITS: Final = 11
"""Bits of the fraction of interpolation weights: a product of two with a pixel fits 31 bits."""
GREY: Final = (19595, 38470, 7471)
"""Weights of red, green and blue in grey: ITU-R BT.601, times 65536."""
_LONGEST: Final = 8192
_RANGE: Final = "State the real values of 0 and 255 in training: range = [0.0, 1.0], or mean and std."


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """Preprocessing of a frame.

    Attributes:
        size: width and height of the frame in pixels.
        shape: of the frame as an array of bytes; an odd row of pairs ends with a pixel that is not used.
        crop: x, y, width, height in the frame.
        width, height: of the input.
        colour: of its channels.
        planar: each channel of the input lies together.
        columns, rows: for each of the input its place in the crop, and the weight of the next one.
        yuv: weights of yuyv and uyvy.
        values: stored value for each of 256; one table, or one a channel.
        dtype: of the input.
    """

    frame: str
    size: tuple[int, int]
    shape: tuple[int, ...]
    crop: tuple[int, int, int, int]
    width: int
    height: int
    colour: str
    planar: bool
    columns: tuple[tuple[int, int], ...]
    rows: tuple[tuple[int, int], ...]
    yuv: Yuv
    values: tuple[tuple[float, ...], ...]
    dtype: str

    @property
    def channels(self) -> int:
        """Channels of the input."""
        return 1 if self.colour == "grey" else 3

    @property
    def is_interpolated(self) -> bool:
        """Return whether any pixel of the input is made of several of the frame."""
        return any(weight for _, weight in (*self.columns, *self.rows))

    @property
    def title(self) -> str:
        """Description for people."""
        x, y, width, height = self.crop
        crop = "" if (width, height) == self.size else f", {width}x{height} at {x},{y}"
        frame = f"{self.frame} {self.size[0]}x{self.size[1]}"
        return f"{frame}{crop} to {self.colour} {self.width}x{self.height}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Yuv:
    """Weights from luma and chroma to red, green and blue, times 65536 (ITU-R BT.601)."""

    black: int
    luma: int
    red_v: int
    green_u: int
    green_v: int
    blue_u: int


def _yuv(*, limited: bool) -> Yuv:
    luma, chroma = (255 / 219, 255 / 224) if limited else (1.0, 1.0)
    red, blue = 0.299, 0.114
    green = 1 - red - blue
    weights = (
        luma,
        2 * (1 - red) * chroma,
        2 * (1 - blue) * blue / green * chroma,
        2 * (1 - red) * red / green * chroma,
        2 * (1 - blue) * chroma,
    )
    names = ("luma", "red_v", "green_u", "green_v", "blue_u")
    return Yuv(
        black=16 if limited else 0,
        **{name: round(weight * 65536) for name, weight in zip(names, weights, strict=True)},
    )


def plan_image(section: Section, facts: InputFacts) -> ImagePlan:
    """Decide everything about the preprocessing of frames.

    Raises:
        InputError: a key that is missing or does not fit the frame or the input; it is named.
    """
    size = [_extent(section, key) for key in ("width", "height")]
    height, width, channels, planar = _input_of(section, facts)
    crop = _crop(section, size[0], size[1], width, height)
    if (section.frame or "").startswith("bayer") and min(size) < 2:
        refuse("frame", "a mosaic has at least 2 x 2 pixels")
    nearest = section.resize == "nearest"
    return ImagePlan(
        frame=section.frame or "",
        size=(size[0], size[1]),
        shape=_frame_shape(section.frame or "", size[0], size[1]),
        crop=crop,
        width=width,
        height=height,
        colour=_colour(section, channels),
        planar=planar and channels > 1,
        columns=_places(crop[2], width, nearest=nearest),
        rows=_places(crop[3], height, nearest=nearest),
        yuv=_yuv(limited=section.yuv == "limited"),
        values=_values(section, facts, channels),
        dtype=facts.dtype,
    )


def _extent(section: Section, key: str) -> int:
    value = getattr(section, key)
    if value is None:
        refuse(key, "it is missing", f"State the {key} of a frame in pixels.")
    if not 1 <= value <= _LONGEST:
        refuse(key, f"{value} is not within 1 to {_LONGEST}")
    return int(value)


def _frame_shape(frame: str, width: int, height: int) -> tuple[int, ...]:
    if frame in ("rgb888", "bgr888"):
        return height, width, 3
    if frame in ("rgb565", "rgb565be"):
        return height, width, 2
    if frame in ("yuyv", "uyvy"):
        return height, width + width % 2, 2
    return height, width


def _input_of(section: Section, facts: InputFacts) -> tuple[int, int, int, bool]:  # noqa: RET503 (refuse)
    """Height, width and channels of the input, and whether channels come first."""
    shape = facts.shape
    if len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    planar = section.layout == "nchw"
    if len(shape) == 2 and section.layout is None:
        return shape[0], shape[1], 1, False
    if len(shape) == 3:
        if section.layout is None:
            planar = shape[2] not in (1, 3) and shape[0] in (1, 3)
        height, width, channels = (shape[1], shape[2], shape[0]) if planar else shape
        if channels in (1, 3) and max(height, width) <= _LONGEST:
            return height, width, channels, planar
    refuse(
        "layout" if section.layout else "",
        f"the input has the shape {list(facts.shape)}: an image has height, width, and 1 or 3 channels",
    )


def _colour(section: Section, channels: int) -> str:
    colour = section.colour or ("grey" if channels == 1 else "rgb")
    if (colour == "grey") != (channels == 1):
        refuse("colour", f"{colour}, but the input has {channels} channel{'s' if channels > 1 else ''}")
    return colour


def _crop(
    section: Section, frame_width: int, frame_height: int, width: int, height: int
) -> tuple[int, int, int, int]:
    if section.crop is None:
        return 0, 0, frame_width, frame_height
    if section.crop == "center":
        wide = max(1, min(frame_width, frame_height * width // height))
        high = max(1, min(frame_height, frame_width * height // width))
        return (frame_width - wide) // 2, (frame_height - high) // 2, wide, high
    x, y, wide, high = section.crop
    if min(x, y) < 0 or min(wide, high) < 1 or x + wide > frame_width or y + high > frame_height:
        refuse(
            "crop",
            f"{list(section.crop)} does not lie within the frame of {frame_width} x {frame_height}",
            'Give [x, y, width, height] in pixels of the frame, or "center".',
        )
    return x, y, wide, high


def _places(size: int, wanted: int, *, nearest: bool) -> tuple[tuple[int, int], ...]:
    """Place, and weight of the next one, of ``wanted`` pixels in a line of ``size``; centres are aligned."""
    result = []
    for pixel in range(wanted):
        place = (2 * pixel + 1) * size  # of its centre, in halves of 1 / wanted
        if nearest:
            result.append((place // (2 * wanted), 0))
            continue
        at, rest = divmod(place - wanted, 2 * wanted)
        if at < 0 or at >= size - 1:
            result.append((min(max(at, 0), size - 1), 0))
        else:
            result.append((at, ((rest << WEIGHT_BITS) + wanted) // (2 * wanted)))
    return tuple(result)


def _values(section: Section, facts: InputFacts, channels: int) -> tuple[tuple[float, ...], ...]:
    """Stored value of the input for each of 256 pixels, in one table or one a channel."""
    limits = stored_limits(facts, "images")
    tables = tuple(
        tuple(_stored(low + (high - low) * pixel / 255, facts, limits) for pixel in range(256))
        for low, high in _ranges(section, channels)
    )
    return tables[:1] if len(set(tables)) == 1 else tables


def _ranges(section: Section, channels: int) -> list[tuple[float, float]]:
    """Real values of 0 and 255 in each channel."""
    if (section.range is None) == (section.mean is None and section.std is None):
        both = section.range is not None
        refuse("range", "mean or std is stated as well" if both else "it is missing", "" if both else _RANGE)
    if section.range is not None:
        if not all(map(math.isfinite, section.range)):
            refuse("range", "its values must be finite")
        return [section.range] * channels
    mean, std = (_numbers(section, key, channels) for key in ("mean", "std"))
    return [(-m / s, (1 - m) / s) for m, s in zip(mean, std, strict=True)]


def _numbers(section: Section, key: str, channels: int) -> list[float]:
    value = getattr(section, key)
    numbers = (
        [0.0 if key == "mean" else 1.0]
        if value is None
        else list(value)
        if isinstance(value, tuple)
        else [value]
    )
    if len(numbers) not in (1, channels):
        refuse(key, f"{len(numbers)} values for {channels} channels")
    if not all(map(math.isfinite, numbers)) or (key == "std" and min(numbers) <= 0):
        refuse(key, "its values must be finite" + (" and > 0" if key == "std" else ""))
    return numbers * (channels // len(numbers))


def _stored(real: float, facts: InputFacts, limits: tuple[int, int] | None) -> float:
    """Stored value of a real one: the nearest, halves away from zero; without limits a float."""
    if limits is None:
        return float(struct.unpack("f", struct.pack("f", real))[0])
    least, most = limits
    scaled = real / facts.scale
    nearest = math.floor(abs(scaled) + 0.5) * (1 if scaled >= 0 else -1)
    return min(max(nearest + facts.zero_point, least), most)
