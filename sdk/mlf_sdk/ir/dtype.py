# SPDX-License-Identifier: Apache-2.0
"""Element types of tensors, as DLPack describes them and as TVM spells them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.tools.checks import shown

if TYPE_CHECKING:
    import numpy as np

INT: Final = 0
UINT: Final = 1
FLOAT: Final = 2
HANDLE: Final = 3
BFLOAT: Final = 4

MAX_LANES: Final = 256

_PREFIX: Final = {INT: "int", UINT: "uint", FLOAT: "float", HANDLE: "handle", BFLOAT: "bfloat"}
_CODE: Final = {prefix: code for code, prefix in _PREFIX.items()}
_BITS: Final = {
    INT: (1, 2, 4, 8, 16, 32, 64),
    UINT: (1, 2, 4, 8, 16, 32, 64),
    FLOAT: (16, 32, 64),
    HANDLE: (32, 64),
    BFLOAT: (16,),
}
_NUMPY_KIND: Final = {INT: "i", UINT: "u", FLOAT: "f"}
_SPELLING: Final = re.compile(r"(int|uint|float|handle|bfloat)([0-9]{1,3})?(?:x([0-9]{1,4}))?", re.ASCII)


class DType(msgspec.Struct, frozen=True, kw_only=True):
    """One element type: DLPack's code, bits and lanes.

    Attributes:
        code: 0 int, 1 uint, 2 float, 3 handle, 4 bfloat.
        bits: bits of one lane; ``bool`` is a uint of 1 bit.
        lanes: elements side by side in a vector; 1 for a scalar.

    Raises:
        InputError: the three do not describe a type that TVM has.
    """

    code: int
    bits: int
    lanes: int = 1

    def __post_init__(self) -> None:
        """Validate code, bits and lanes."""
        if self.bits not in _BITS.get(self.code, ()) or not 1 <= self.lanes <= MAX_LANES:
            raise InputError(
                f"no such element type: code {self.code}, {self.bits} bits, {self.lanes} lanes",
            )

    @classmethod
    def parse(cls, text: str) -> DType:
        """Read TVM's spelling: ``float32``, ``int8``, ``bool``, ``float32x4``, ``bfloat16``, ``handle``.

        Raises:
            InputError: the text is not the name of an element type.
        """
        if text == "bool":
            return cls(code=UINT, bits=1)
        match = _SPELLING.fullmatch(text)
        if match is None or (match[2] is None and match[1] != "handle"):
            raise InputError(f"no such element type: {shown(text)}")
        return cls(code=_CODE[match[1]], bits=int(match[2] or 64), lanes=int(match[3] or 1))

    @property
    def name(self) -> str:
        """TVM's spelling of the type."""
        if self.code == UINT and self.bits == 1 and self.lanes == 1:
            return "bool"
        return f"{_PREFIX[self.code]}{self.bits}" + (f"x{self.lanes}" if self.lanes > 1 else "")

    @property
    def size_bytes(self) -> int:
        """Bytes of one element in memory: each lane takes whole bytes."""
        return (self.bits + 7) // 8 * self.lanes

    def bytes_of(self, shape: Iterable[int]) -> int:
        """Bytes of a tensor with these extents."""
        return math.prod(shape) * self.size_bytes

    @property
    def numpy(self) -> np.dtype[Any]:
        """The little-endian numpy type with the same layout.

        Raises:
            InputError: numpy has none (bfloat16, sub-byte integers, handles, vectors).
        """
        import numpy as np  # slow to import, and not needed to inspect a model

        if self.name == "bool":
            return np.dtype(np.bool_)
        if self.code not in _NUMPY_KIND or self.bits < 8 or self.lanes != 1:
            raise InputError(f"numpy has no element type for {self.name}")
        return np.dtype(f"<{_NUMPY_KIND[self.code]}{self.bits // 8}")

    def __str__(self) -> str:
        """The name."""
        return self.name
