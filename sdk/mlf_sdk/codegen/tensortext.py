# SPDX-License-Identifier: Apache-2.0
"""Types, quantisation and names of tensors as text: for people, and in C."""

from __future__ import annotations

from collections.abc import Sequence

from mlf_sdk.ir.dtype import FLOAT, INT, UINT, DType
from mlf_sdk.ir.model import Tensor
from mlf_sdk.tools.ctext import Values, c_float


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
    quantisation = tensor.quantisation
    if quantisation is None or quantisation.axis is not None:
        return {"scale": "", "zero_point": ""}
    return {"scale": c_float(quantisation.scale[0]), "zero_point": str(quantisation.zero_point[0])}


_CONVERTED_BITS = (8, 16)  # of stored values whose difference from a zero point is exact as a float
_VERBS = {"input": "quantise", "output": "dequantise"}


def positions(c_name: str, direction: str, tensors: Sequence[Values]) -> list[Values]:
    """Values for ``model.h.j2``: ``NAME_input`` where there is one input, else ``NAME_input_0`` and so on.

    A name that a tensor has anyway is left to that tensor.

    Args:
        direction: ``input`` or ``output``.
        tensors: values of all tensors of that direction, in order.
    """
    taken = {tensor["accessor"]: tensor for tensor in tensors}
    result = []
    for number, tensor in enumerate(tensors):
        stem = direction if len(tensors) == 1 else f"{direction}_{number}"
        accessor = f"{c_name}_{stem}"
        owner = taken.get(accessor, tensor)
        if owner is tensor:
            result.append(
                {
                    "tensor": tensor,
                    "macro": f"{c_name}_{stem}".upper(),
                    "accessor": accessor,
                    "renamed": accessor != tensor["accessor"],
                    "converter": f"{c_name}_{_VERBS[direction]}_{stem}",
                    "limits": _limits(tensor),
                }
            )
    return result


def _limits(tensor: Values) -> tuple[int, int] | None:
    """Least and greatest stored value of a quantised tensor that is converted; None: it is not."""
    bits, code = tensor["bits"], tensor["code"]
    if not tensor["scale"] or bits not in _CONVERTED_BITS or tensor["lanes"] != 1 or code not in (INT, UINT):
        return None
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if code == INT else (0, (1 << bits) - 1)
