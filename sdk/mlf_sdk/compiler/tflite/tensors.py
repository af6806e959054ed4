# SPDX-License-Identifier: Apache-2.0
"""Tensors of a ``.tflite`` file: what of a description has a meaning, what has none, and what is wrong.

A description that no operator reads can't make a model wrong: TFLM runs it, and so a flaw refuses only the
operator that it matters to. What is set aside is noted, and becomes a finding about the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.operators import Array
from mlf_sdk.ir.tensor import Quantisation

MAX_RANK: Final = 8
MAX_TENSOR_BYTES: Final = 1 << 30
MAX_NAME: Final = 1024
RESOURCE: Final = 13
_INT4: Final = 17
_DTYPES: Final = {
    0: np.float32, 1: np.float16, 2: np.int32, 3: np.uint8, 4: np.int64, 6: np.bool_, 7: np.int16,
    9: np.int8, 10: np.float64, 12: np.uint64, 15: np.uint32, 16: np.uint16, _INT4: np.int8,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTensor:
    """A tensor as the file describes it.

    Attributes:
        dtype: None for a handle of a variable, and for a type that is not supported.
        open: dimensions that the model leaves to the run time; ``shape`` has the extents to compile for.
        flaw: reason why no operator can read or write it; empty: none.
        scale_flaw: reason why ``quantisation`` is None although the file states one; empty: none.
        notes: what the file says of it that has no meaning.
    """

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]
    open: tuple[bool, ...]
    quantisation: Quantisation | None
    data: Array | None = field(repr=False)
    variable: bool
    flaw: str = ""
    scale_flaw: str = ""
    notes: tuple[str, ...] = ()


BLANK: Final = RawTensor(
    name="", dtype=None, shape=(), open=(), quantisation=None, data=None, variable=False, flaw="is damaged"
)


class TensorReader:
    """Reads the tensors of a model."""

    def __init__(self, model: Any, batch: int) -> None:  # noqa: ANN401 - table of the schema
        """Prepare the tables that all tensors share.

        Args:
            model: the root table.
            batch: extent of first dimensions that the file leaves open.
        """
        self.model = model
        self.batch = batch

    def read(self, tensor: Any) -> RawTensor:  # noqa: ANN401 - table of the schema
        """One tensor; what is wrong with it is in its attributes."""
        kind, shape = tensor.Type(), numbers(tensor.ShapeAsNumpy())
        unknown = tuple(e < 0 for e in numbers(tensor.ShapeSignatureAsNumpy()))
        dtype = np.dtype(_DTYPES[kind]) if kind in _DTYPES else None
        if self.batch != 1 and unknown[:1] == (True,) and shape[:1] == (1,):
            shape = (self.batch, *shape[1:])
        flaw = _flaw(kind, dtype, shape)
        raw_tensor = RawTensor(
            name=text(tensor.Name()),
            dtype=dtype,
            shape=() if flaw else shape,
            open=unknown,
            quantisation=None,
            data=None,
            variable=bool(tensor.IsVariable()),
            flaw=flaw,
        )
        if flaw or dtype is None:
            return raw_tensor
        read = self._with_sparse_data if tensor.Sparsity() is not None else self._with_data
        return _with_quantisation(read(raw_tensor, tensor), tensor)

    def _with_sparse_data(self, raw_tensor: RawTensor, tensor: Any) -> RawTensor:  # noqa: ANN401
        """The tensor with all elements of a sparse constant."""
        from mlf_sdk.compiler.tflite.sparse import SparseError, dense  # few models have one

        known = 0 <= tensor.Buffer() < self.model.BuffersLength()
        size = self.model.Buffers(tensor.Buffer()).DataLength() if known else 0
        if raw_tensor.dtype is None or tensor.Type() == _INT4 or not size or size % raw_tensor.dtype.itemsize:
            return replace(
                raw_tensor, flaw=f"is sparse, with {size} bytes of data of type {raw_tensor.dtype}"
            )
        stored = self._with_data(replace(raw_tensor, shape=(size // raw_tensor.dtype.itemsize,)), tensor)
        if stored.data is None:
            return stored
        try:
            return replace(raw_tensor, data=dense(tensor.Sparsity(), stored.data, raw_tensor.shape))
        except SparseError as error:
            return replace(raw_tensor, flaw=error.what)

    def _with_data(self, raw_tensor: RawTensor, tensor: Any) -> RawTensor:  # noqa: ANN401
        """The tensor with its constant data, if any; a byte of int4 holds two values, the low half first."""
        buffer, packed = tensor.Buffer(), tensor.Type() == _INT4
        count = self.model.BuffersLength()
        if not 0 <= buffer < count:
            return replace(raw_tensor, flaw=f"names buffer {buffer}; there are {count}")
        raw = self.model.Buffers(buffer).DataAsNumpy()
        if isinstance(raw, int) or raw is None or raw.size == 0 or raw_tensor.dtype is None:
            return raw_tensor
        elements = math.prod(raw_tensor.shape)
        need = -(-elements // 2) if packed else elements * raw_tensor.dtype.itemsize
        if raw.size < need:
            return replace(raw_tensor, flaw=f"has {raw.size} bytes of data; its shape needs {need}")
        notes = () if raw.size == need else (f"has {raw.size} bytes of data; the first {need} are read",)
        stored = raw[:need]
        if packed:
            stored = np.stack([stored << 4, stored], axis=1).view(np.int8).reshape(-1)[:elements] >> 4
        data = np.frombuffer(stored.tobytes(), raw_tensor.dtype).reshape(raw_tensor.shape)
        return replace(raw_tensor, data=data, notes=notes)


def _flaw(kind: int, dtype: np.dtype[Any] | None, shape: tuple[int, ...]) -> str:
    if dtype is None and kind != RESOURCE:
        return f"has element type {kind}, which is not supported"
    if len(shape) > MAX_RANK or any(e < 0 for e in shape):
        return f"has shape {shape[:MAX_RANK]}"
    size = math.prod(shape) * (dtype.itemsize if dtype else 1)
    return f"has {size} bytes; at most {MAX_TENSOR_BYTES} are read" if size > MAX_TENSOR_BYTES else ""


def _with_quantisation(raw_tensor: RawTensor, tensor: Any) -> RawTensor:  # noqa: ANN401 - table of the schema
    """The tensor with its scales; a statement without a meaning is set aside and noted."""
    table = tensor.Quantization()
    if table is None or not table.ScaleLength() or raw_tensor.dtype is None:
        return raw_tensor
    scales = tuple(float(s) for s in table.ScaleAsNumpy())
    points = tuple(int(z) for z in numbers(table.ZeroPointAsNumpy())) or (0,)
    if raw_tensor.dtype.kind in "fb":
        return _noted(raw_tensor, f"is of {raw_tensor.dtype} and has a scale, which has no meaning")
    points = points * len(scales) if len(points) == 1 else points
    axis = table.QuantizedDimension() if len(scales) > 1 else None
    flaw = _scale_flaw(raw_tensor, scales, points, axis)
    if flaw:
        return _noted(replace(raw_tensor, scale_flaw=flaw), flaw)
    if scales == (0.0,):
        raw_tensor = _noted(
            raw_tensor, "has the scale 0.0; all that it holds is its zero point, which needs none"
        )
    return replace(raw_tensor, quantisation=Quantisation(scale=scales, zero_point=points, axis=axis))


def _scale_flaw(
    raw_tensor: RawTensor, scales: tuple[float, ...], points: tuple[int, ...], axis: int | None
) -> str:
    """Reason why scales and zero points can't be used; empty: they can."""
    shape, dtype = raw_tensor.shape, raw_tensor.dtype
    if axis is not None and not (0 <= axis < len(shape) and shape[axis] == len(scales)):
        return f"of shape {shape} has {len(scales)} scales along dimension {axis}"
    if len(points) != len(scales):
        return f"has {len(points)} zero points for {len(scales)} scales"
    if dtype is not None and dtype.kind in "iu" and dtype.itemsize <= 2:
        limits = np.iinfo(dtype)
        wrong = [z for z in points if not limits.min <= z <= limits.max]
        if wrong:
            return f"has the zero point {wrong[0]}; {dtype} can't hold it"
    bad = [s for s in scales if not (math.isfinite(s) and s > 0)]
    if not bad or (scales == (0.0,) and _is_zero(raw_tensor, points[0])):
        return ""
    return f"has the scale {bad[0]}; it must be finite and > 0"


def _is_zero(raw_tensor: RawTensor, point: int) -> bool:
    """True for a constant whose every element stands for 0, whatever the scale."""
    return raw_tensor.data is not None and bool((raw_tensor.data == point).all())


def _noted(raw_tensor: RawTensor, note: str) -> RawTensor:
    return replace(raw_tensor, notes=(*raw_tensor.notes, note))


def numbers(result: object) -> tuple[int, ...]:
    """Integers of a vector; the schema gives 0 for an absent one."""
    return () if isinstance(result, int) or result is None else tuple(int(x) for x in result)  # type: ignore[attr-defined]


def text(result: bytes | None) -> str:
    """A name, with what is not printable escaped."""
    name = (result or b"")[:MAX_NAME].decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in name)
