# SPDX-License-Identifier: Apache-2.0
"""Generations of exported libraries: the symbol of the serialized modules decides layout and kernel ABI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from mlf_sdk.frontends.filetype import MODULE_SYMBOLS


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """A range of TVM releases whose libraries have one form.

    Attributes:
        symbol: end of the name of the serialized modules; a system library has its prefix before it.
        title: releases, for people.
        tree_first: the import tree comes first, and each payload has a length.
        ffi: kernels take four arguments (tvm-ffi); else six (packed).
        kernel_prefix: of a kernel's symbol, before the name that bytecode calls it by.
        constants: kind of a constant in bytecode by type index.
    """

    symbol: str
    title: str
    tree_first: bool
    ffi: bool
    kernel_prefix: str
    constants: Mapping[int, str]


_KINDS: Final = ("tensor", "dtype", "shape", "string", "int", "float")
_FFI: Final = {1: "int", 3: "float", 5: "dtype", 65: "string"}

GENERATIONS: Final = (
    Generation(
        symbol=MODULE_SYMBOLS[0],
        title="0.22 or later",
        tree_first=True,
        ffi=True,
        kernel_prefix="__tvm_ffi_",
        constants=_FFI | {69: "shape", 70: "tensor"},
    ),
    Generation(
        symbol=MODULE_SYMBOLS[1],
        title="0.21",
        tree_first=False,
        ffi=True,
        kernel_prefix="",
        constants=_FFI | {71: "shape", 72: "tensor"},
    ),
    Generation(
        symbol=MODULE_SYMBOLS[2],
        title="0.20 or earlier",
        tree_first=False,
        ffi=False,
        kernel_prefix="",
        constants=dict(enumerate(_KINDS)),
    ),
)


def generation_of(symbol: str) -> Generation | None:
    """The generation that names its serialized modules so; None: it is another symbol."""
    return next((one for one in GENERATIONS if symbol.endswith(one.symbol)), None)
