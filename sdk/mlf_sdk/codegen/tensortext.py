# SPDX-License-Identifier: Apache-2.0
"""Types and quantisation of tensors as text: for people, and in C."""

from __future__ import annotations

from mlf_sdk.ir.dtype import FLOAT, INT, DType
from mlf_sdk.ir.model import Tensor
from mlf_sdk.tools.ctext import c_float


def type_text(tensor: Tensor) -> str:
    """Type of a tensor for people: ``int8 [1, 32, 32, 3]``."""
    return f"{tensor.dtype.name} [{', '.join(map(str, tensor.shape))}]"


_C_TYPES = {(FLOAT, 32): "float", (FLOAT, 64): "double"}


def c_type(dtype: DType) -> str:
    """C type of one element; bytes or bit patterns for types that C lacks."""
    if (dtype.code, dtype.bits) in _C_TYPES and dtype.lanes == 1:
        return _C_TYPES[dtype.code, dtype.bits]
    if dtype.lanes == 1 and dtype.bits in (8, 16, 32, 64):
        return f"{'int' if dtype.code == INT else 'uint'}{dtype.bits}_t"
    return "uint8_t"


def quantisation_text(tensor: Tensor) -> dict[str, str]:
    """Scale and zero point of a whole tensor, as C literals; empty texts without them."""
    found = tensor.quantisation
    if found is None or found.axis is not None:
        return {"scale": "", "zero_point": ""}
    return {"scale": c_float(found.scale[0]), "zero_point": str(found.zero_point[0])}
