# SPDX-License-Identifier: Apache-2.0
"""Text of explained faults."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from mlf_sdk.pipeline.triage import BuiltFirmware
from mlf_sdk.reporting.layout import Parts, line, lines
from mlf_sdk.triage.explain import Triage, fault_headline, triage_lines


def triage_parts(result: Iterable[Triage], firmware: BuiltFirmware | None) -> Parts:
    """Lay out faults: summary, cause, call path, registers."""
    parts: Parts = [line("image", str(firmware.elf))] if firmware else []
    for one in result:
        model = f"model {one.fault.model}: " if one.fault.model else ""
        parts += [""] if parts else []
        parts += [line("fault", model + fault_headline(one))]
        parts += lines("", [Text(text) for text in triage_lines(one)])
    if firmware is None:
        parts += ["", line("note", "without --elf, file and line are not known")]
    return parts
