# SPDX-License-Identifier: Apache-2.0
"""Causes of traps in machine mode, and the most probable cause of a fault.

Numbers: RISC-V privileged architecture 1.12, table 3.6 (mcause).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlf_sdk.analysis.machine.causes import bad_jump, bad_pointer, undefined

REGISTER_ROWS: Final = (
    ("pc", "ra", "sp"),
    ("a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"),
    ("t0", "t1", "t2", "t3", "t4", "t5", "t6"),
    ("mcause", "mtval"),
)
"""Registers of a fault, as they are shown."""

_INTERRUPT = 1 << 31
_KINDS = {
    0: ("instruction-misaligned", "jump to an address that is not a multiple of an instruction's size"),
    1: ("instruction-access-fault", "instruction fetch from an address that is not allowed or has no memory"),
    2: ("illegal-instruction", "undefined instruction, or one that the core does not have"),
    3: ("breakpoint", "breakpoint without a debugger"),
    4: ("load-misaligned", "load from an address that is not a multiple of its size"),
    5: ("load-access-fault", "load from an address that is not allowed or has no memory"),
    6: ("store-misaligned", "store to an address that is not a multiple of its size"),
    7: ("store-access-fault", "store to an address that is not allowed or has no memory"),
    8: ("ecall", "call of the environment from user mode"),
    11: ("ecall", "call of the environment from machine mode"),
}
_FETCHES, _ACCESSES, _UNALIGNED = (0, 1), (5, 7), (4, 6)


def fault_kind(kind: str, number: int | None, registers: Mapping[str, int]) -> str:
    """Name of a trap."""
    cause = registers["mcause"]
    if kind != "trap":
        return kind
    return "unexpected-exception" if cause & _INTERRUPT else _KINDS.get(cause, ("unexpected-exception",))[0]


def describe_status(registers: Mapping[str, int]) -> tuple[str, ...]:
    """Describe mcause."""
    cause = registers["mcause"]
    if cause & _INTERRUPT:
        return (f"mcause: interrupt {cause & ~_INTERRUPT} without a handler",)
    return (f"mcause: {_KINDS[cause][1]}",) if cause in _KINDS else ()


def status_note(kind: str, registers: Mapping[str, int]) -> str:
    """Say why there is no status; there always is."""
    return ""


def probable_cause(kind: str, registers: Mapping[str, int], *, instruction: str, in_code: bool) -> str:
    """Most probable cause of a fault, in a sentence; empty where nothing can be said.

    Args:
        kind: of the fault.
        registers: as reported by the device.
        instruction: disassembly at pc; empty when not known.
        in_code: whether pc lies in the code of the image.
    """
    cause, address = registers["mcause"], registers.get("mtval", 0)
    shown = f" ({instruction})" if instruction else ""
    if cause & _INTERRUPT:
        return ""
    if cause in _FETCHES or not in_code:
        return bad_jump(registers.get("pc", 0))
    if cause in _ACCESSES:
        return f"access to 0x{address:08x}, where there is no memory: {bad_pointer(address)}"
    if cause in _UNALIGNED:
        return f"unaligned access to 0x{address:08x}: the address is not a multiple of the access size"
    if cause == 2:
        return undefined(instruction)
    return f"the program stopped itself{shown}: a trap, or a failed check" if cause == 3 else ""
