# SPDX-License-Identifier: Apache-2.0
"""Memories that the user chose for parts of a model: `--place`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.planner.layout import Bank


class Pins(msgspec.Struct, frozen=True, kw_only=True):
    """Memories that the user chose.

    Attributes:
        weights, arena, state: of all of a kind; empty: the planner chooses.
        code: of kernels; empty: where code lies.
        ahead: ``no``: no weights are copied ahead of their layer; empty: where that pays.
        names: of single tensors, steps, or constants, by name; they come before the kinds.
    """

    weights: str = ""
    arena: str = ""
    state: str = ""
    code: str = ""
    ahead: str = ""
    names: Mapping[str, str] = {}


KINDS = ("weights", "arena", "state")
AUTO = "auto"
_AHEAD = "ahead"


def parse_pins(texts: Sequence[str]) -> Pins:
    """Pins in the values of ``--place``: ``auto``, or ``NAME=MEMORY`` with commas between them.

    Raises:
        InputError: a value is of another form, or a name has two memories.
    """
    kinds: dict[str, str] = {}
    names: dict[str, str] = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        if part == AUTO:
            continue
        name, equals, memory = (one.strip() for one in part.rpartition("="))
        if not (name and equals and memory):
            raise InputError(
                f"invalid value '{part}'",
                where="--place",
                hint="Give auto, or weights, arena, state, code or a NAME with =MEMORY, and commas between.",
            )
        if name == _AHEAD and memory != "no":
            raise InputError(
                f"invalid value '{part}'", where="--place", hint="Copies ahead can be switched off: ahead=no."
            )
        chosen = kinds if name in (*KINDS, "code", _AHEAD) else names
        if chosen.setdefault(name, memory) != memory:
            raise InputError(f"'{name}' has two memories: {chosen[name]} and {memory}", where="--place")
    return Pins(**kinds, names=names)


def check_pins(pins: Pins, banks: Sequence[Bank], board: str) -> None:
    """Refuse pins to a memory that the board lacks, or that can't hold what is pinned there.

    Raises:
        InputError: with the memories that there are.
    """
    by_name = {bank.name: bank for bank in banks}
    known = ", ".join(f"{bank.name} ({bank.size_bytes:,} bytes free)" for bank in banks)
    pinned = {**{kind: getattr(pins, kind) for kind in KINDS if getattr(pins, kind)}, **pins.names}
    for name, memory in pinned.items():
        if memory not in by_name:
            raise InputError(
                f"{board} has no memory '{memory}' for {name}", where="--place", hint=f"It has: {known}."
            )
        if name in ("arena", "state") and not by_name[memory].is_ram:
            ram = ", ".join(bank.name for bank in banks if bank.is_ram)
            raise InputError(
                f"{memory} can't be written: {name} needs RAM", where="--place", hint=f"Its RAM: {ram}."
            )
