# SPDX-License-Identifier: Apache-2.0
"""Fault status registers of Cortex-M: meaning of the bits, and the most probable cause of a fault.

Bits: Armv7-M Architecture Reference Manual (DDI 0403), B3.2.15 and B3.2.16; STKOF: Armv8-M (DDI 0553).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mlf_sdk.analysis.machine.causes import bad_jump, bad_pointer, is_null, undefined

REGISTER_ROWS: Final = (
    ("pc", "lr", "sp", "xpsr"),
    ("r0", "r1", "r2", "r3", "r12"),
    ("cfsr", "hfsr", "mmfar", "bfar"),
)
"""Registers of a fault, as they are shown."""

_EXCEPTIONS = {
    2: "nmi",
    3: "hardfault",
    4: "memfault",
    5: "busfault",
    6: "usagefault",
    7: "securefault",
}
_CFSR = {
    0: ("IACCVIOL", "instruction fetch from a region that is not executable"),
    1: ("DACCVIOL", "data access refused by the MPU"),
    3: ("MUNSTKERR", "MPU fault while the registers were unstacked on return from an exception"),
    4: ("MSTKERR", "MPU fault while the registers were stacked: stack overflow"),
    5: ("MLSPERR", "MPU fault while the floating-point registers were saved"),
    7: ("MMARVALID", ""),
    8: ("IBUSERR", "instruction fetch from an address without memory"),
    9: ("PRECISERR", "data access to an address without memory"),
    10: ("IMPRECISERR", "write to an address without memory, some instructions before pc"),
    11: ("UNSTKERR", "bus fault while the registers were unstacked on return from an exception"),
    12: ("STKERR", "bus fault while the registers were stacked: stack overflow"),
    13: ("LSPERR", "bus fault while the floating-point registers were saved"),
    15: ("BFARVALID", ""),
    16: ("UNDEFINSTR", "undefined instruction"),
    17: ("INVSTATE", "jump to an address without the Thumb bit"),
    18: ("INVPC", "return from an exception with an invalid EXC_RETURN"),
    19: ("NOCP", "floating-point or coprocessor instruction, and the unit is absent or disabled"),
    20: ("STKOF", "stack pointer below its limit"),
    24: ("UNALIGNED", "access to an address that is not a multiple of the access size"),
    25: ("DIVBYZERO", "integer division by zero"),
}
_HFSR = {
    1: ("VECTTBL", "vector table could not be read"),
    30: ("FORCED", "escalated: the handler of the fault was disabled or active"),
    31: ("DEBUGEVT", "breakpoint without a debugger"),
}
_MMARVALID, _BFARVALID = 1 << 7, 1 << 15
_DACCVIOL, _PRECISERR, _IMPRECISERR = 1 << 1, 1 << 9, 1 << 10
_UNDEFINSTR, _INVSTATE, _NOCP, _UNALIGNED, _DIVBYZERO = 1 << 16, 1 << 17, 1 << 19, 1 << 24, 1 << 25
_BAD_JUMP = 1 | 1 << 8 | _INVSTATE
_ACCESS = re.compile(
    r"(?:^(?:ldm|stm)\w* |\[)(?P<base>\w+)(?:, (?:#(?P<offset>-?\w+)|(?P<index>\w+)))?(?:\]|!?, \{)"
)

Registers = Mapping[str, int]


def describe_status(registers: Registers) -> tuple[str, ...]:
    """Describe the set bits of CFSR and HFSR, each by its name and meaning."""
    set_bits = [
        pair
        for name, bits in (("cfsr", _CFSR), ("hfsr", _HFSR))
        for bit, pair in bits.items()
        if registers.get(name, 0) >> bit & 1
    ]
    return tuple(f"{name}: {meaning}" if meaning else name for name, meaning in set_bits)


def fault_address(registers: Registers) -> int | None:
    """Address of the refused data access; None where the CPU does not report it."""
    status = registers.get("cfsr", 0)
    if status & _MMARVALID:
        return registers.get("mmfar")
    return registers.get("bfar") if status & _BFARVALID else None


def fault_kind(kind: str, number: int | None, registers: Registers) -> str:
    """Name of a fault; ``number``: of the exception, where the device reports that."""
    return kind if number is None else _EXCEPTIONS.get(number, "unexpected-exception")


def status_note(kind: str, registers: Registers) -> str:
    """Say why there is no status; empty where there is."""
    if registers.get("cfsr") or registers.get("hfsr") or kind != "hardfault":
        return ""
    return "no fault status: Armv6-M (Cortex-M0, M0+) has no such registers"


def probable_cause(kind: str, registers: Registers, *, instruction: str, in_code: bool) -> str:
    """Most probable cause of a fault, in a sentence; empty where nothing can be said.

    Args:
        kind: of the fault.
        registers: as reported by the device.
        instruction: disassembly at pc; empty when not known.
        in_code: whether pc lies in the code of the image.
    """
    status = registers.get("cfsr", 0)
    if not in_code or status & _BAD_JUMP:
        return bad_jump(registers.get("pc", 0))
    if not status and kind == "hardfault":
        return _cause_from_instruction(registers, instruction)
    return _cause_of_access(registers, status) or _cause_of_instruction(status, instruction)


def _cause_of_access(registers: Registers, status: int) -> str:
    address = fault_address(registers)
    if address is not None:
        why = bad_pointer(address)
        place = "which the MPU protects" if status & _MMARVALID else "where there is no memory"
        return f"access to 0x{address:08x}, {place}: {why}"
    if status & _IMPRECISERR:
        return "write through an invalid pointer, some instructions before pc"
    if status & (_DACCVIOL | _PRECISERR):
        return "access to an address that is not allowed: invalid pointer or index"
    if status & _UNALIGNED:
        return "unaligned access of several words: the address is not a multiple of 4"
    return "integer division by zero" if status & _DIVBYZERO else ""


def _cause_of_instruction(status: int, instruction: str) -> str:
    shown = f" ({instruction})" if instruction else ""
    if status & _NOCP or (instruction.startswith("v") and status & _UNDEFINSTR):
        return f"floating-point instruction{shown} on a CPU without it: code built for another CPU"
    return undefined(instruction) if status & _UNDEFINSTR else ""


def _cause_from_instruction(registers: Registers, instruction: str) -> str:
    """Derive the cause from the instruction at pc: Armv6-M has no fault status registers."""
    access = _ACCESS.search(instruction)
    if access is None:
        return undefined(instruction)
    base, index = (registers.get(access[name] or "") for name in ("base", "index"))
    known = base is not None and (index is not None or not access["index"])
    address = (base or 0) + (index or int(access["offset"] or "0", 0)) & 0xFFFFFFFF
    place = f" to 0x{address:08x}" if known else ""
    bad = "invalid pointer or index" if known and address % 4 == 0 else "unaligned or invalid pointer"
    why = "null pointer" if known and is_null(address) else bad
    return f"invalid access{place} by `{instruction}`: {why}"
