# SPDX-License-Identifier: Apache-2.0
"""Use of a kernel's parameters, as far as it follows from its code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from mlf_sdk.analysis.c.arguments import element_type
from mlf_sdk.analysis.c.calllist import PassedArgument
from mlf_sdk.analysis.c.fills import ArgumentUse, argument_uses
from mlf_sdk.analysis.c.syntax import UnreadableError
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.frontends.readcode import Code
from mlf_sdk.ir.dtype import FLOAT, INT, UINT, DType

_TYPES: Final = {
    "float": DType(code=FLOAT, bits=32),
    "double": DType(code=FLOAT, bits=64),
    **{f"int{bits}_t": DType(code=INT, bits=bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": DType(code=UINT, bits=bits) for bits in (8, 16, 32, 64)},
}
_BYTE: Final = DType(code=UINT, bits=8)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a memory pool that a kernel uses as its own workspace.

    Attributes:
        index: number of the part among the kernel's arguments.
        first, end: bytes from the start of the pool.
    """

    index: int
    first: int
    end: int


class ParameterUse(msgspec.Struct, frozen=True, kw_only=True):
    """Use of one parameter.

    Attributes:
        dtype: of the elements.
        extent_bytes: no access lies at or beyond; None when that is not known.
        is_used: the code names it; so it always is of a packed kernel.
        is_written: the code writes to it.
        may_write: it writes to it, or passes it to code that may.
        is_filled: all of ``extent_bytes`` are written, each before it is read.
        is_kept: its address may outlive the call.
        scratch: parts of a memory pool that are filled before they are read; nothing else in it is used.
    """

    dtype: DType
    extent_bytes: int | None
    is_used: bool
    is_written: bool
    may_write: bool
    is_filled: bool
    is_kept: bool
    scratch: tuple[Part, ...] = ()

    def size_bytes(self, argument: PassedArgument) -> int | None:
        """Bytes of the tensor that is passed: as its descriptor says, else as the code accesses it."""
        if argument.shape is None or argument.dtype is None:
            return self.extent_bytes
        return argument.dtype.bytes_of(argument.shape)


def parameter_uses(function: FunctionDefinition, code: Code, count: int) -> tuple[ParameterUse, ...]:
    """Uses of a kernel's arguments in order.

    Args:
        count: arguments of a packed kernel, which its signature does not state.
    """
    effects = code.effects.of(function)
    number = count if function.is_packed else len(function.parameters)
    written = effects.written | effects.kept
    try:
        known = () if code.whole else argument_uses(function)
    except UnreadableError:
        known = ()
    uses = {use.index: use for use in known}
    result = []
    for index in range(number):
        parameter = None if function.is_packed else function.parameters[index]
        use = uses.get(index)
        type_ = use.element_type if use is not None else ""
        dtype = _TYPES.get(element_type(type_ or (parameter.type[:-1] if parameter else "")), _BYTE)
        extent = None if use is None or use.elements is None else use.elements * dtype.size_bytes
        result.append(
            ParameterUse(
                dtype=dtype,
                extent_bytes=extent,
                is_used=parameter is None or parameter.name in function.words,
                is_written=index in written,
                may_write=index in written or index in effects.handed,
                is_filled=use is not None and use.is_filled,
                is_kept=index in effects.kept,
                scratch=_scratch(index, known) if use is not None and not use.is_direct else (),
            )
        )
    return tuple(result)


def _scratch(index: int, known: Iterable[ArgumentUse]) -> tuple[Part, ...]:
    """Parts of a pool that a kernel fills; none when it reads any that it has not filled."""
    result = []
    for use in known:
        if use.part_of is None or use.part_of[0] != index:
            continue
        if use.element_type and (not use.is_filled or use.element_type not in _TYPES):
            return ()
        first = use.part_of[1]
        end = first + (use.elements or 0) * (_TYPES[use.element_type].size_bytes if use.element_type else 0)
        result.append(Part(index=use.index, first=first, end=end))
    return tuple(part for part in result if part.first < part.end) or tuple(result)
