# SPDX-License-Identifier: Apache-2.0
"""A deterministic sample for a model's inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from mlf_sdk.codegen.tensortext import c_type
from mlf_sdk.ir.dtype import FLOAT, INT, UINT, DType
from mlf_sdk.ir.model import Model
from mlf_sdk.ir.step import frames_of
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.tools.ctext import byte_rows


class SampleOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An output of a model for the sample, as a run has given it.

    Attributes:
        data: its bytes, little-endian.
        tolerance: permitted absolute difference of an element of 32-bit float; all else is equal bit by bit.
    """

    data: bytes
    tolerance: float = 0.0


def pattern_bytes(dtype: DType, elements: int, *, salt: int = 0) -> bytes:
    """Bytes of repeatable, varied values: the same on every machine.

    Floats lie in [-1, 1), integers cover their range, booleans alternate.
    """
    count = elements * dtype.lanes
    index = np.arange(count, dtype=np.uint64) + np.uint64(salt)
    mixed = (index * np.uint64(2654435761) + np.uint64(12345)) % np.uint64(1 << 32)
    bits, code = dtype.bits, dtype.code
    if code == FLOAT and bits in (16, 32, 64):
        unit = mixed.astype(np.float64) / float(1 << 31) - 1.0
        return unit.astype(f"<f{bits // 8}").tobytes()
    if bits == 1:
        return (mixed >> np.uint64(16) & np.uint64(1)).astype(np.uint8).tobytes()
    if bits in (8, 16, 32, 64):
        values = (mixed >> np.uint64(max(0, 32 - bits))).astype(f"<u{bits // 8}")
        return values.view(f"<{'i' if code == INT else 'u'}{bits // 8}").tobytes()
    size_bytes = elements * dtype.size_bytes
    return bytes(mixed.astype(np.uint8))[:size_bytes].ljust(size_bytes, b"\0")


def pattern_array(dtype: DType, shape: tuple[int, ...], *, salt: int = 0) -> npt.NDArray[np.generic]:
    """Repeatable, varied array of a shape.

    Raises:
        InputError: numpy has no type for the tensor's elements.
    """
    data = np.frombuffer(pattern_bytes(dtype, math.prod(shape), salt=salt), dtype=dtype.numpy)
    return data.reshape(shape)


def sample_values(layout: ModelLayout, outputs: Sequence[SampleOutput] = ()) -> dict[str, object]:
    """Values for ``sample.h.j2``: an array for each input, how it is computed, and outputs that are known.

    Args:
        outputs: all of the model for the sample; none: not known.
    """
    model = layout.model
    inputs = [_sample(model, index) for index in range(len(model.inputs))]
    return {
        "inputs": [{"size_bytes": len(data), "rows": byte_rows(data)} for data in inputs],
        "outputs": [
            {
                "size_bytes": len(one.data),
                "rows": byte_rows(one.data),
                "tolerance": f"{one.tolerance:.9e}f",
            }
            for one in outputs
        ],
        "num_outputs": len(model.outputs),
        "computed": computed_pattern({model.tensors[tensor].dtype for tensor in model.inputs}),
    }


def _sample(model: Model, index: int) -> bytes:
    """Pattern for an input; zeros before that of a window which is no whole number of frames."""
    tensor = model.tensors[model.inputs[index]]
    frames = frames_of(model.provenance.options, tensor.shape) if len(model.inputs) == 1 else None
    if frames is None:
        return pattern_bytes(tensor.dtype, tensor.elements, salt=index)
    data = pattern_bytes(tensor.dtype, math.prod(frames.window))
    return bytes(frames.count * tensor.size_bytes - len(data)) + data


def computed_pattern(dtypes: set[DType]) -> dict[str, str] | None:
    """C type of an element and its value from ``mixed``, as in `pattern_bytes`; None where there is none."""
    if len(dtypes) != 1:
        return None
    (dtype,) = dtypes
    if dtype.lanes == 1 and (dtype.code, dtype.bits) == (FLOAT, 32):
        # The difference from one half of the range, rounded once; a power of two changes no bit of it.
        return {"c_type": "float", "value": "(float)(int32_t)(mixed - 2147483648u) * (1.0f / 2147483648.0f)"}
    if dtype.lanes == 1 and dtype.code in (INT, UINT) and dtype.bits in (8, 16, 32):
        name = c_type(dtype)
        return {"c_type": name, "value": f"({name})(mixed >> {32 - dtype.bits}u)"}
    return None
