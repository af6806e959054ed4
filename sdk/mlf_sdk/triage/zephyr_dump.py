# SPDX-License-Identifier: Apache-2.0
"""Parser of Zephyr's own report of a fatal error on Arm (arch/arm/core/fatal.c, kernel/fatal.c).

Each line may have a prefix of Zephyr's logging. The report names status bits in words; the fields of a
`FaultReport` are set from these. It holds no call path, and no step of a model.
"""

from __future__ import annotations

import re

from mlf_sdk.tools.checks import DeviceText, device_text
from mlf_sdk.triage.fault_report import FaultReport

_END = re.compile(r">>> ZEPHYR FATAL ERROR (\d+): ([^\n]*?)(?: on CPU \d+)?[ \t]*\r?\n")
_HEAD = re.compile(r"\*{5} (MPU|BUS|USAGE|HARD|SECURE) FAULT \*{5}")
_REGISTER = re.compile(
    r"(?:(r[0-3])/a[1-4]|(r12)/ip|r14/(lr)|(xpsr)|\(r15/(pc)\)|\b(BFAR|MMFAR) Address): +0x([0-9a-f]{1,8})\b"
)
_KINDS = {
    "MPU": "memfault",
    "BUS": "busfault",
    "USAGE": "usagefault",
    "HARD": "hardfault",
    "SECURE": "securefault",
}
_REASONS = {2: "stack-overflow", 3: "abort", 4: "abort"}
_BITS = {  # by head, since two of them use the same words
    "MPU": {
        "Instruction Access Violation": 0,
        "Data Access Violation": 1,
        "Unstacking error": 3,
        "Stacking error": 4,
        "Floating-point lazy state preservation error": 5,
        "MMFAR Address": 7,
    },
    "BUS": {
        "Instruction bus error": 8,
        "Precise data bus error": 9,
        "Imprecise data bus error": 10,
        "Unstacking error": 11,
        "Stacking error": 12,
        "Floating-point lazy state preservation error": 13,
        "BFAR Address": 15,
    },
    "USAGE": {
        "Attempt to execute undefined instruction": 16,
        "Illegal use of the EPSR": 17,
        "Illegal load of EXC_RETURN into PC": 18,
        "No coprocessor instructions": 19,
        "Stack overflow (context area not valid)": 20,
        "Unaligned memory access": 24,
        "Division by zero": 25,
    },
}
_HARD_BITS = {"Bus fault on vector table read": 1, "Fault escalation": 30, "Debug event": 31}


def locate_dumps(console: bytes) -> tuple[tuple[int, FaultReport], ...]:
    """Find all whole reports in the output of a console.

    Returns:
        Each with the offset of its end in ``console``.
    """
    text = console.decode("latin-1")  # one character a byte: offsets stay
    result, start = [], 0
    for end in _END.finditer(text):
        result.append((end.end(), _report(text[start : end.start()], end)))
        start = end.end()
    return tuple(result)


def _report(text: str, end: re.Match[str]) -> FaultReport:
    heads = [*_HEAD.finditer(text)]
    text = text[heads[0].start() :] if heads else text
    registers = {}
    for result in _REGISTER.finditer(text):
        name = next(filter(None, result.groups()[:-1])).lower()
        registers[name] = int(result[result.lastindex or 0], 16)
    names = [head[1] for head in heads]
    cfsr = sum(
        1 << bit
        for name in dict.fromkeys(names)
        for words, bit in _BITS.get(name, {}).items()
        if re.search(rf"(?<![a-z]){re.escape(words)}", _part(text, name))
    )
    hfsr = sum(1 << bit for words, bit in _HARD_BITS.items() if words in text)
    if heads:
        registers |= {"cfsr": cfsr, "hfsr": hfsr}
    kind = _KINDS[names[-1]] if names else "unexpected-exception"
    return FaultReport(
        kind=_REASONS.get(int(end[1]), kind),
        registers=registers,
        step=-1,
        model=DeviceText(""),
        line=device_text(end.group().strip()),
    )


def _part(text: str, head: str) -> str:
    """Lines below a head, up to the next one."""
    after = text.split(f"***** {head} FAULT *****", 1)[1]
    return _HEAD.split(after)[0]
