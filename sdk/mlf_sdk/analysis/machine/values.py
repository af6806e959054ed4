# SPDX-License-Identifier: Apache-2.0
"""Values that instructions put into registers: constants, stack addresses, words of known objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class StackAddress(msgspec.Struct, frozen=True):
    """An address ``bytes`` below the stack pointer on entry of the function."""

    bytes: int


class Loaded(msgspec.Struct, frozen=True):
    """A word loaded from the object that lies at ``address``; which word is not known."""

    address: int


Value = int | StackAddress | Loaded


def joined(one: Mapping[int, Any], other: Mapping[int, Any], *, exact: bool = False) -> dict[int, Any]:
    """Join the registers of two ways that meet: equal values stay, of addresses on the stack the lower.

    Args:
        exact: keep equal values only. A loop that counts an address down would never end otherwise.
    """
    kept: dict[int, Any] = {}
    for register, value in one.items():
        entry = other.get(register)
        if entry == value:
            kept[register] = value
        elif not exact and isinstance(entry, StackAddress) and isinstance(value, StackAddress):
            kept[register] = max(entry, value, key=lambda address: address.bytes)
    return kept
