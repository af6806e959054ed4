# SPDX-License-Identifier: Apache-2.0
"""Tensors of a model."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field

from mlf_sdk.ir.dtype import DType


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
