# SPDX-License-Identifier: Apache-2.0
"""A fault line that a device printed, wherever that was, explained by the image that it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.codegen.lock import Lock, read_lock
from mlf_sdk.codegen.writer import LOCK_NAME
from mlf_sdk.errors import InputError, NotBuiltError
from mlf_sdk.pipeline.arguments import Source
from mlf_sdk.targets.registry import project_target
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.triage.explain import Triage, fault_text, triage
from mlf_sdk.triage.fault_report import FaultReport, locate_faults
from mlf_sdk.triage.zephyr_dump import locate_dumps

MOST_LOG_BYTES = 64 << 20
_LONGEST_REPORT = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltFirmware:
    """An image, and the project that it was built from; None: it is not known."""

    elf: Path
    lock: Lock | None

    def step_name(self, fault: FaultReport) -> str:
        """The function of the step that ran; empty when that is not known."""
        models = self.lock.models if self.lock is not None else ()
        steps = next((m.steps for m in models if fault.model and m.name.startswith(fault.model)), ())
        return steps[fault.step].name if 0 <= fault.step < len(steps) else ""

    def explain(self, fault: FaultReport) -> Triage:
        """Explain a fault of this firmware."""
        return triage(fault, self.elf, step_name=self.step_name(fault))


class FaultWatch:
    """Looks for fault lines in text that comes in pieces, and explains them by the image."""

    def __init__(self, firmware: BuiltFirmware) -> None:
        self._firmware = firmware
        self._recent = b""

    def feed(self, text: str) -> str:
        """The explanation of the faults that this piece completes; empty: there are none."""
        new = text.encode()
        self._recent = (self._recent + new)[-(_LONGEST_REPORT + len(new)) :]
        faults = find_faults(self._recent)
        if faults:
            self._recent = self._recent[faults[-1][0] :]
        return "".join(fault_text(self._firmware.explain(fault)) + "\n" for _, fault in faults)


def find_faults(console: bytes) -> list[tuple[int, FaultReport]]:
    """Find all whole reports of faults in console output, each with the offset of its end.

    Those of the SDK's fault handler, and of Zephyr's own where an application has not got that.
    """
    return sorted([*locate_faults(console), *locate_dumps(console)], key=lambda result: result[0])


def find_firmware(path: Source) -> BuiltFirmware:
    """The image at a path: an ELF file, or the folder of a project that was built.

    Raises:
        InputError: there is none.
    """
    given = Path(path)
    if (given / LOCK_NAME).is_file():
        lock = read_lock(given)
        elf = project_target(given, lock, TargetChoice()).image(given)
        if not elf.is_file():
            raise NotBuiltError(given)
        return BuiltFirmware(elf=elf, lock=lock)
    read_image(given)  # raises when it is none
    folder = next((p for p in given.resolve().parents if (p / LOCK_NAME).is_file()), None)
    return BuiltFirmware(elf=given, lock=read_lock(folder) if folder is not None else None)


def triage_log(log: bytes, firmware: BuiltFirmware | None) -> tuple[Triage, ...]:
    """Explain every fault line in console output.

    Raises:
        InputError: there is no whole report in it.
    """
    faults = [fault for _, fault in find_faults(log + b"\n")]  # the end of a pasted line may be missing
    if not faults:
        raise InputError(
            "there is no report of a fault in it (mlf-fault: KIND pc=... model=...; >>> ZEPHYR FATAL ERROR)",
            hint="Save all of the text, up to its end: mlf-sdk monitor --port PORT > fault.log",
        )
    return tuple(triage(fault, None) if firmware is None else firmware.explain(fault) for fault in faults)
