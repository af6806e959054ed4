# SPDX-License-Identifier: Apache-2.0
"""Build attributes of RISC-V objects, and their compatibility with a board.

Source: RISC-V ELF psABI, "Attributes" (section .riscv.attributes).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlf_sdk.analysis.machine.attributes import read_tags

_ARCH = 5
_ARCHITECTURE = re.compile(r"rv(32|64|128)([ieg])(.*)")
_VERSION = re.compile(r"\d+p\d+|\d+")
_LAST_VERSION = re.compile(r"\d+p\d+$")  # of a name of several letters, which may have digits of its own
_GENERAL = "imafd"  # what g stands for, with two of _IMPLIED
_IMPLIED = frozenset({"zicsr", "zifencei", "zmmul", "zca", "zaamo", "zalrsc", "zvl32b"})
"""Parts of extensions with a letter, and what start-up and compilers take for granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RiscvAttributes:
    """Build attributes of an object.

    Attributes:
        arch: as the compiler wrote it, e.g. ``rv32i2p1_m2p0_c2p0``; empty: not stated.
    """

    arch: str

    @property
    def target(self) -> str:
        """The instruction sets, for people."""
        return (
            self.arch[:4] + "_".join(map(_unversioned, self.arch[4:].split("_"))) if self.arch else "RISC-V"
        )

    @property
    def base(self) -> str:
        """``rv32i``, ``rv32e``, ``rv64i``; empty when it is not stated or not understood."""
        match = _ARCHITECTURE.fullmatch(self.arch)
        return f"rv{match[1]}{'i' if match[2] == 'g' else match[2]}" if match else ""

    @property
    def extensions(self) -> frozenset[str]:
        """Extensions that its code may use."""
        match = _ARCHITECTURE.fullmatch(self.arch)
        return _extensions(match[2], match[3]) if match else frozenset()

    @property
    def has_fpu_registers(self) -> bool:
        """True when the code may use floating-point or vector registers."""
        return bool(self.extensions & {"f", "d", "q", "v"})

    def may_use_fpu(self, *, for_double: bool = False) -> bool:
        """Return True when instructions of an FPU are allowed, or such that compute in double."""
        return ("d" if for_double else "f") in self.extensions

    def problems(self, cpu: str, fpu: str, float_abi: str, *, computes_in_double: bool) -> list[str]:
        """List the reasons why a board cannot run or link an object (see BuildAttributes)."""
        board = RiscvAttributes(arch=cpu)
        if not self.base:
            return ["its instruction sets are not stated"]
        if self.base != board.base:
            return [f"it is code for {self.base.upper()}, which a {cpu} does not run"]
        lacking = sorted(self.extensions - board.extensions - _IMPLIED, key=lambda name: (len(name), name))
        if not lacking:
            return []
        named = ", ".join(name.upper() if len(name) == 1 else name.capitalize() for name in lacking)
        return [f"it uses the extension{'s' * (len(lacking) > 1)} {named}, which a {cpu} does not have"]


def _unversioned(part: str) -> str:
    """Letters of extensions, or one extension with a longer name, without versions."""
    return (_LAST_VERSION if part.startswith(("z", "s", "x")) else _VERSION).sub("", part)


def _extensions(base: str, rest: str) -> frozenset[str]:
    result = set(_GENERAL[1:]) if base == "g" else set()
    for part in map(_unversioned, rest.split("_")):
        result |= {part} if part.startswith(("z", "s", "x")) else set(part)
    return frozenset(result)


def read_attributes(data: memoryview, byte_order: str) -> RiscvAttributes:
    """Read the content of a ``.riscv.attributes`` section.

    Args:
        byte_order: ``little`` or ``big``.

    Raises:
        AttributesError: it is malformed.
    """
    tags = read_tags(data, byte_order, vendor="riscv", is_text=lambda tag: tag % 2 == 1)
    return RiscvAttributes(arch=str(tags.get(_ARCH, "")))
