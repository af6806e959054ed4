# SPDX-License-Identifier: Apache-2.0
"""A tensor of an ONNX model, and errors of its nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, Value, refuse
from mlf_sdk.compiler.operators import Array
from mlf_sdk.ir.tensor import Quantisation

Shape = tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class Tensor:
    """A tensor of the model.

    Attributes:
        shape: in the order of ONNX.
        data: of a constant.
        nchw: its value, in the order of ONNX.
        nhwc: value of four axes with channels last, as layers read and write them.
        base: a tensor with the same elements in the same order, in another shape.
        stored: of a constant that was dequantised: its integers.
    """

    name: str
    dtype: np.dtype[Any]
    shape: Shape
    data: Array | None = field(default=None, repr=False)
    nchw: Value | None = None
    nhwc: Value | None = None
    base: Tensor | None = None
    stored: Tensor | None = None
    quantisation: Quantisation | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def known(self) -> Array | None:
        """Data of a constant, dequantised where it is stored; None for what is computed at run time."""
        if self.data is None and self.stored is not None and self.stored.data is not None:
            return dequantised(self.stored)
        return self.data

    @classmethod
    def of_value(cls, value: Value, shape: Shape, *, nhwc: bool) -> Tensor:
        """The tensor whose elements a value holds, with channels last or in the order of ONNX."""
        return cls(
            name=value.name, dtype=value.dtype, shape=shape, quantisation=value.quantisation,
            nchw=None if nhwc else value, nhwc=value if nhwc else None,
        )  # fmt: skip


def kept_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Type in which elements are computed: every real number in single precision."""
    return FLOAT32 if dtype.kind not in "iub" else dtype


def kept(data: Array, name: str) -> Array:
    """Elements of a constant in the type in which they are computed; refuses what that can't hold."""
    with np.errstate(over="ignore"):
        result = np.ascontiguousarray(data.astype(kept_type(data.dtype))).reshape(data.shape)
    if data.dtype == np.float64 and (beyond := np.isinf(result) & np.isfinite(data)).any():
        refuse(f"constant '{name}' holds {data[beyond][0]:.3g}, which single precision can't hold")
    return result


def dequantised(stored: Tensor) -> Array:
    """Real numbers of constant integers."""
    if stored.data is None or stored.quantisation is None:
        raise AssertionError(f"'{stored.name}' is not a quantised constant")
    q = stored.quantisation
    shape = [1] * stored.rank
    if q.axis is not None:
        shape[q.axis] = -1
    scale = np.array(q.scale, np.float32).reshape(shape)
    return (stored.data.astype(np.int64) - np.array(q.zero_point).reshape(shape)).astype(np.float32) * scale


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < max(rank, 1):
        refuse(f"axis {axis} of a tensor with {rank} dimensions")
    return axis % max(rank, 1)


def check_broadcast(tensor: Tensor, shape: Shape) -> None:
    """Refuse a tensor that can't be broadcast to a shape, which itself stays as it is."""
    own = (1,) * (len(shape) - tensor.rank) + tensor.shape
    if len(own) != len(shape) or any(e not in (1, f) for e, f in zip(own, shape, strict=True)):
        refuse(f"an operand {tensor.shape} can't be broadcast to {shape}")


def check_vector(tensor: Tensor, count: int) -> None:
    """Refuse a tensor that doesn't have one axis of a number of elements."""
    if tensor.shape != (count,):
        refuse(f"a parameter {tensor.shape} of {count} channels")
