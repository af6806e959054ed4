# SPDX-License-Identifier: Apache-2.0
"""Types of placeholders as a bundle's header spells them: ``i8[S:0.05 O:-3][-6.25,6.5]<1 x 2 x 6>``."""

from __future__ import annotations

import math
import re
from typing import Final

import msgspec

from mlf_sdk.ir.dtype import INT, DType
from mlf_sdk.ir.tensor import Quantisation
from mlf_sdk.tools.checks import shown

MAX_DIMENSIONS: Final = 16
MAX_ELEMENTS: Final = 1 << 31

_KINDS: Final = {
    "float": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float64": "float64",
    "i8": "int8",
    "ui8": "uint8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "uindex8": "uint8",
    "index32": "int32",
    "index64": "int64",
    "bool": "bool",
}
_NUMBER: Final = r"[-+]?[0-9.]+(?:e[-+]?[0-9]+)?|[-+]?inf|[-+]?nan"
_TYPE: Final = re.compile(
    rf"([a-z0-9]+)(?:\[S:({_NUMBER}) O:(-?[0-9]+)\](?:\[[^\]]*\])?)?\s*<([0-9x: ]*)>", re.ASCII
)


class TypeTextError(ValueError):
    """Text that is no type of a placeholder, or of one that is not supported; says why."""


class PlaceholderType(msgspec.Struct, frozen=True, kw_only=True):
    """Element type, extents, and scale and offset of a quantised one."""

    dtype: DType
    shape: tuple[int, ...]
    quantisation: Quantisation | None = None

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes, without the padding behind them."""
        return self.dtype.bytes_of(self.shape)


def parse_type(text: str) -> PlaceholderType:
    """Read the type of a placeholder.

    Raises:
        TypeTextError: it is none, or one that is not supported.
    """
    match = _TYPE.fullmatch(text.strip())
    if match is None:
        raise TypeTextError(f"{shown(text)} is not a type")
    kind, scale, offset, extents = match.groups()
    if kind not in _KINDS:
        raise TypeTextError(f"the element type {shown(kind)} is not supported")
    quantisation = None
    if scale is not None:
        quantisation = Quantisation(scale=(float(scale),), zero_point=(int(offset[:12]),))
    made = PlaceholderType(
        dtype=DType.parse(_KINDS[kind]), shape=_shape(extents, text), quantisation=quantisation
    )
    if made.elements > MAX_ELEMENTS:
        raise TypeTextError(f"{shown(text)} has more than {MAX_ELEMENTS} elements")
    return made


def type_text(kind: PlaceholderType) -> str | None:
    """The type as `parse_type` reads it; None: bundles have no such type."""
    names = {dtype: name for name, dtype in reversed(_KINDS.items())}
    name = names.get(kind.dtype.name)
    if name is None:
        return None
    quantisation = kind.quantisation
    if quantisation is not None and quantisation.axis is None:
        low, high = _limits(kind.dtype)
        (scale,), (zero,) = quantisation.scale, quantisation.zero_point
        limits = f"{(low - zero) * scale:.6g},{(high - zero) * scale:.6g}"
        name += f"[S:{scale:.9g} O:{zero}][{limits}]"
    return f"{name}<{' x '.join(map(str, kind.shape))}>"


def _limits(dtype: DType) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    return (
        (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1)
        if dtype.code == INT
        else (0, (1 << dtype.bits) - 1)
    )


def _shape(text: str, whole: str) -> tuple[int, ...]:
    if not text.strip():
        return ()
    parts = [part.strip() for part in text.split("x")]
    if any(":" in part for part in parts):
        raise TypeTextError(f"{shown(whole)} is a padded tensor, which is not supported")
    if len(parts) > MAX_DIMENSIONS or not all(part.isdigit() and len(part) <= 10 for part in parts):
        raise TypeTextError(f"{shown(whole)} has no usable extents")
    return tuple(map(int, parts))
