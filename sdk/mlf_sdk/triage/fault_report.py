# SPDX-License-Identifier: Apache-2.0
"""Parser of the line that the fault handler prints (``crt/include/mlf/mlf_fault.h``)."""

from __future__ import annotations

import re

import msgspec

from mlf_sdk.analysis.machine.registry import faults_by_registers, faults_of
from mlf_sdk.tools.checks import DeviceText, device_text
from mlf_sdk.tools.isas import fallback_isa

_FAULT = re.compile(rb"mlf-fault: (?P<kind>[a-z-]+|[0-9a-f]{8}) (?P<rest>[^\n]*)\n")
_FIELD = re.compile(r"(\w+)=(\S+)")
_HEX = re.compile(r"[0-9a-f]{1,8}")
_CALL = re.compile(r"([0-9a-f]{1,8}):([0-9a-f]{1,8})")
_WORD = re.compile(r"[0-9a-f]{8}")
_STEP = re.compile(r"-?\d{1,10}")  # of older runtimes
_KINDS = ("abort", "stack-overflow")  # in place of the number of an exception


class FaultReport(msgspec.Struct, frozen=True, kw_only=True):
    """Report of a fault handler.

    Attributes:
        kind: e.g. ``busfault``, ``stack-overflow``.
        registers: by name, as the architecture calls them; pc and sp on each.
        step: step of the model that ran; -1 for none.
        model: name of the model; empty when not known.
        line: as printed.
        calls: possible return addresses on the stack: distance from sp in bytes, and the word.
    """

    kind: str
    registers: dict[str, int]
    step: int
    model: DeviceText
    line: DeviceText
    calls: tuple[tuple[int, int], ...] = ()

    @property
    def return_register(self) -> str:
        """Name of the register that holds the return address of a function that calls nothing."""
        return next((name for name in ("lr", "ra") if name in self.registers), "lr")


def parse_fault(console: bytes) -> FaultReport | None:
    """Find the first complete fault line in the output of a device; None when there is none."""
    match = _FAULT.search(console)
    return _report(match) if match is not None else None


def locate_faults(console: bytes) -> tuple[tuple[int, FaultReport], ...]:
    """Find all complete fault lines, each with the offset of its end."""
    return tuple((result.end(), _report(result)) for result in _FAULT.finditer(console))


def _report(result: re.Match[bytes]) -> FaultReport:
    fields = dict(_FIELD.findall(device_text(result.group("rest").strip())))
    model = fields.pop("model", "-")
    calls = [_CALL.fullmatch(pair) for pair in fields.pop("calls", "").split(",")]
    step = _step(fields.pop("step", "-1"))
    registers = {name: int(value, 16) for name, value in fields.items() if _HEX.fullmatch(value)}
    return FaultReport(
        kind=_kind(result.group("kind").decode("ascii"), registers),
        registers=registers,
        step=step,
        model=device_text("" if model == "-" else model),
        line=device_text(result.group().strip()),
        calls=tuple((_signed(int(pair[1], 16)), int(pair[2], 16)) for pair in calls if pair),
    )


def _kind(text: str, registers: dict[str, int]) -> str:
    """Name of a fault; devices send the number of the exception, or a word that their registers explain."""
    number = int(text, 16) if _WORD.fullmatch(text) else None
    if number is not None and number < len(_KINDS):
        return _KINDS[number]
    faults = faults_by_registers(registers)
    if faults is None and number is not None:
        faults = faults_of(fallback_isa())  # a line that was cut
    return text if faults is None else faults.fault_kind(text, number, registers)


def _step(text: str) -> int:
    if _WORD.fullmatch(text):
        return _signed(int(text, 16))
    return int(text) if _STEP.fullmatch(text) else -1


def _signed(word: int) -> int:
    return word - (1 << 32) if word & 1 << 31 else word
