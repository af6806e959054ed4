# SPDX-License-Identifier: Apache-2.0
"""Tensors of a model, a table of them, and what comes before an input."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.names import NameTable


class TensorKind(enum.Enum):
    """Origin and lifetime of a tensor's bytes."""

    INPUT = "input"  # written by the caller before a run
    CONSTANT = "constant"  # in the parameters, never written
    INTERMEDIATE = "intermediate"  # written by a step, valid within a run
    STATE = "state"  # keeps its value from one run to the next; initialised once


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantisation:
    """Affine quantisation: real value = scale * (stored value - zero point).

    Attributes:
        scale, zero_point: one for the whole tensor, or one for each index along ``axis``.
        axis: of per-axis quantisation; None for the whole tensor.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor of a model.

    Attributes:
        id: index into ``Model.tensors``.
        name: the name in the archive, for people.
        c_name: legal, unique and bounded C identifier fragment.
        shape: extents; empty for a scalar.
        alias_of: id of the tensor whose storage this one shares.
        offset_bytes: distance from the start of that tensor's storage.
        data: a constant's bytes, or the initial ones of a state (None: zeros); little-endian, row-major.
        quantisation: None for a tensor that is not quantised, or where the file does not state it.
    """

    id: int
    name: str
    c_name: str
    dtype: DType
    shape: tuple[int, ...]
    kind: TensorKind
    alias_of: int | None = None
    offset_bytes: int = 0
    data: bytes | None = field(default=None, repr=False)
    quantisation: Quantisation | None = None

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of one instance."""
        return self.dtype.bytes_of(self.shape)


Frame = Literal[
    "grey8", "rgb888", "bgr888", "rgb565", "rgb565be", "yuyv", "uyvy",
    "bayer-rggb", "bayer-bggr", "bayer-grbg", "bayer-gbrg",
]  # fmt: skip


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The section ``[pre]`` of a configuration; it has ``frame`` for images, ``rate`` for sound.

    Attributes:
        input: name of the model's input; empty: the only one.
        range: real values that the darkest and the brightest pixel (0 and 255) stand for.
        mean, std: in place of ``range``: real value = (pixel / 255 - mean) / std; one each, or one a channel.
        frame: pixels of the frame, whose rows have no gaps.
        width, height: of the frame in pixels.
        crop: ``[x, y, width, height]`` of what is used; ``center``: as much as has the shape of the input.
        resize: how it is brought to the size of the input.
        colour: what the input's channels are; None: ``grey`` of one channel, ``rgb`` of three.
        layout: order of the input's dimensions; None: by the place of the one that is 1 or 3.
        yuv: values of yuyv and uyvy: 0 to 255 (JPEG), or 16 to 235 and 240 (ITU-R BT.601).
        rate: samples a second, of 16 bits.
        window_ms, stride_ms: length of a window, and the distance from one to the next.
        channels: of the mel filter bank.
        low_hz, high_hz: ends of the filter bank.
        coefficients: of the cosine transform of the logarithms (MFCC); None: the logarithms themselves.
        noise: subtract an estimate of the noise from each channel.
        gain: control the gain of each channel by that estimate.
        unit: real value of 1 as a feature; see `mlf_sdk.compiler.preprocess.inputs`.
    """

    input: str = ""
    range: tuple[float, float] | None = None
    mean: float | tuple[float, ...] | None = None
    std: float | tuple[float, ...] | None = None
    frame: Frame | None = None
    width: int | None = None
    height: int | None = None
    crop: Literal["center"] | tuple[int, int, int, int] | None = None
    resize: Literal["bilinear", "nearest"] = "bilinear"
    colour: Literal["grey", "rgb", "bgr"] | None = None
    layout: Literal["nhwc", "nchw"] | None = None
    yuv: Literal["full", "limited"] = "full"
    rate: int | None = None
    window_ms: int = 30
    stride_ms: int = 20
    channels: int = 40
    low_hz: int = 125
    high_hz: int = 7500
    coefficients: int | None = None
    noise: bool = False
    gain: bool = False
    unit: float | None = None


IMAGE_KEYS = ("range", "mean", "std", "width", "height", "crop", "resize", "colour", "layout", "yuv")
"""Keys of images alone."""
AUDIO_KEYS = (
    "window_ms",
    "stride_ms",
    "channels",
    "low_hz",
    "high_hz",
    "coefficients",
    "noise",
    "gain",
    "unit",
)
"""Keys of sound alone."""


class InputFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of the input that preprocessing writes.

    Attributes:
        dtype: name of its type, such as ``int8``.
        scale: real value = scale * (stored value - zero_point); 0: it is not quantised.
    """

    shape: tuple[int, ...]
    dtype: str
    scale: float = 0.0
    zero_point: int = 0


class Preprocessing(msgspec.Struct, frozen=True, kw_only=True):
    """A section and the input that it is for.

    Attributes:
        input: its position among those of the model.
        is_step: the model takes what is raw, and its first step writes the input.
    """

    section: Section
    input: int
    facts: InputFacts
    is_step: bool


class TensorTable:
    """Collects tensors; gives each an id and a C name.

    Attributes:
        tensors: by id.
    """

    def __init__(self, tensors: Iterable[Tensor] = ()) -> None:
        """Begin with ``tensors``."""
        self.tensors = list(tensors)
        self._names = NameTable(frozenset(t.c_name.lower() for t in self.tensors))

    def add(
        self,
        name: str,
        dtype: DType,
        shape: tuple[int, ...],
        kind: TensorKind,
        *,
        alias_of: int | None = None,
        offset_bytes: int = 0,
        data: bytes | None = None,
        quantisation: Quantisation | None = None,
    ) -> int:
        """Add a tensor and return its id."""
        tensor = Tensor(
            id=len(self.tensors),
            name=name,
            c_name=self._names.unique(name, fallback="tensor"),
            dtype=dtype,
            shape=shape,
            kind=kind,
            alias_of=alias_of,
            offset_bytes=offset_bytes,
            data=data,
            quantisation=quantisation,
        )
        self.tensors.append(tensor)
        return tensor.id
