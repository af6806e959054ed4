# SPDX-License-Identifier: Apache-2.0
"""Sentences about the cause of a fault that hold on every architecture."""

from __future__ import annotations

_NULL_PAGE = 0x400  # an address below it is a null pointer plus an offset


def is_null(address: int) -> bool:
    """True for a null pointer, or one with the offset of an element."""
    return address < _NULL_PAGE


def bad_pointer(address: int) -> str:
    """The reason of an access to an address that is not allowed."""
    return "null pointer" if is_null(address) else "invalid pointer or index"


def bad_jump(address: int) -> str:
    """The cause of a jump to an address that is not code."""
    kind = "null" if is_null(address) else "invalid"
    return (
        f"jump to 0x{address:08x}, which is not code: {kind} function pointer or overwritten return address"
    )


def undefined(instruction: str) -> str:
    """The cause of an undefined instruction."""
    shown = f" ({instruction})" if instruction else ""
    return f"undefined instruction{shown}: code built for another CPU, or a trap"
