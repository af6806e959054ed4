# SPDX-License-Identifier: Apache-2.0
"""A Cortex-M fault in words: status bits, and what usually is behind them.

Bits: Armv7-M Architecture Reference Manual (DDI 0403), B3.2.15 and B3.2.16; STKOF: Armv8-M (DDI 0553).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlf_sdk.triage.faultline import FaultReport

_CFSR = {
    0: ("IACCVIOL", "it jumped to where no code may run"),
    1: ("DACCVIOL", "the memory protection refused a read or write"),
    3: ("MUNSTKERR", "the memory protection refused the return from an exception"),
    4: ("MSTKERR", "the memory protection refused to save the registers: the stack is used up"),
    5: ("MLSPERR", "the memory protection refused to save the floating-point registers"),
    7: ("MMARVALID", ""),
    8: ("IBUSERR", "it jumped to where there is no memory"),
    9: ("PRECISERR", "there is no memory at the address that it read or wrote"),
    10: ("IMPRECISERR", "a write went to where there is no memory, some instructions before pc"),
    11: ("UNSTKERR", "the bus refused the return from an exception"),
    12: ("STKERR", "the bus refused to save the registers: the stack is used up"),
    13: ("LSPERR", "the bus refused to save the floating-point registers"),
    15: ("BFARVALID", ""),
    16: ("UNDEFINSTR", "the CPU does not have the instruction"),
    17: ("INVSTATE", "it jumped to an address that is no Thumb code"),
    18: ("INVPC", "it returned from an exception with a broken return address"),
    19: ("NOCP", "a floating-point or coprocessor instruction, and there is no such unit or it is off"),
    20: ("STKOF", "the stack pointer passed its limit"),
    24: ("UNALIGNED", "it read or wrote at an address that is not a multiple of the access's size"),
    25: ("DIVBYZERO", "an integer was divided by zero"),
}
_HFSR = {
    1: ("VECTTBL", "the vector table can't be read"),
    30: ("FORCED", "the fault's own handler was off or busy"),
    31: ("DEBUGEVT", "a breakpoint without a debugger"),
}
_MMARVALID, _BFARVALID = 1 << 7, 1 << 15
_DACCVIOL, _PRECISERR, _IMPRECISERR = 1 << 1, 1 << 9, 1 << 10
_UNDEFINSTR, _INVSTATE, _NOCP, _UNALIGNED, _DIVBYZERO = 1 << 16, 1 << 17, 1 << 19, 1 << 24, 1 << 25
_BAD_JUMP = 1 | 1 << 8 | _INVSTATE
_ACCESS = re.compile(
    r"(?:^(?:ldm|stm)\w* |\[)(?P<base>\w+)(?:, (?:#(?P<offset>-?\w+)|(?P<index>\w+)))?(?:\]|!?, \{)"
)
_SMALL = 0x400  # an address below it: a null pointer and an offset

Registers = Mapping[str, int]


def status_words(registers: Registers) -> tuple[str, ...]:
    """The bits of CFSR and HFSR that are set, each by its name and in words."""
    set_bits = [
        pair
        for name, bits in (("cfsr", _CFSR), ("hfsr", _HFSR))
        for bit, pair in bits.items()
        if registers.get(name, 0) >> bit & 1
    ]
    return tuple(f"{name}: {words}" if words else name for name, words in set_bits)


def bad_address(registers: Registers) -> int | None:
    """The address of a refused read or write; None: the CPU does not tell."""
    status = registers.get("cfsr", 0)
    if status & _MMARVALID:
        return registers.get("mmfar")
    return registers.get("bfar") if status & _BFARVALID else None


def cause(fault: FaultReport, *, instruction: str, runs: bool) -> str:
    """What it most probably is, in a sentence.

    Args:
        fault: what was reported.
        instruction: at pc, as in a listing; empty: not known.
        runs: whether pc points into the image's code.
    """
    status = fault.registers.get("cfsr", 0)
    if fault.kind == "stack-overflow":
        return (
            "the stack is used up: a kernel's local arrays or recursion need more than the board's row gives"
        )
    if fault.kind == "abort":
        return "the program stopped itself: abort(), a failed assertion, or a panic"
    if fault.registers.get("pc") is None:
        return _SIGNALS.get(fault.kind, "")
    if not runs or status & _BAD_JUMP:
        where = fault.registers.get("pc", 0)
        kind = "a null function pointer" if where < _SMALL else "a broken function pointer"
        return (
            f"it jumped to 0x{where:08x}, which is no code: {kind}, or a return address that was overwritten"
        )
    if not status and fault.kind == "hardfault":
        return _of_no_status(fault.registers, instruction)
    return _of_access(fault.registers, status) or _of_instruction(status, instruction)


def _of_access(registers: Registers, status: int) -> str:
    address = bad_address(registers)
    if address is not None:
        why = "a null pointer" if address < _SMALL else "a bad pointer or index"
        barred = "which the memory protection bars" if status & _MMARVALID else "where there is no memory"
        return f"it read or wrote 0x{address:08x}, {barred}: {why}"
    if status & _IMPRECISERR:
        return "a write through a bad pointer, some instructions before pc"
    if status & (_DACCVIOL | _PRECISERR):
        return "it read or wrote where it may not: a bad pointer or index"
    if status & _UNALIGNED:
        return "a read or write of several words at an address that is no multiple of 4"
    return "an integer was divided by zero" if status & _DIVBYZERO else ""


def _of_instruction(status: int, instruction: str) -> str:
    shown = f" ({instruction})" if instruction else ""
    if status & _NOCP or (instruction.startswith("v") and status & _UNDEFINSTR):
        return f"a floating-point instruction{shown} on a CPU that lacks it: code built for another CPU"
    if status & _UNDEFINSTR:
        return f"an instruction that the CPU does not have{shown}: code built for another CPU, or a trap"
    return ""


def _of_no_status(registers: Registers, instruction: str) -> str:
    """Armv6-M tells nothing: what the instruction at pc did is worked out from the registers."""
    access = _ACCESS.search(instruction)
    if access is None:
        shown = f" ({instruction})" if instruction else ""
        return f"an instruction that the CPU does not have{shown}: code built for another CPU, or a trap"
    base, index = (registers.get(access[name] or "") for name in ("base", "index"))
    known = base is not None and (index is not None or not access["index"])
    address = (base or 0) + (index or int(access["offset"] or "0", 0)) & 0xFFFFFFFF
    where = f" 0x{address:08x}" if known else ""
    bad = "a bad pointer or index" if known and address % 4 == 0 else "an unaligned or bad pointer"
    null = "a null pointer" if known and address < _SMALL else bad
    return f"`{instruction}` may not read or write{where}: {null}"


_SIGNALS = {
    "sigsegv": "a read or write through a bad pointer, a bad index, or a jump to nowhere",
    "sigbus": "a read or write through a bad pointer",
    "sigfpe": "an integer was divided by zero",
    "sigill": "an instruction that this machine does not have, or a trap",
    "sanitizer": "a sanitizer saw a bad access; it tells the line below",
}
