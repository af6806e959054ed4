# SPDX-License-Identifier: Apache-2.0
"""Text and values of a linked firmware: origin and memory."""

from __future__ import annotations

from mlf_sdk.analysis.elf.provenance import Provenance
from mlf_sdk.pipeline.firmware import InspectedFirmware
from mlf_sdk.reporting.layout import Parts, line, lines, number, size, table
from mlf_sdk.reporting.values import Values, plain, result_values


def firmware_parts(inspected_firmware: InspectedFirmware) -> Parts:
    """Lay out origin, memory and sections of a firmware."""
    firmware = inspected_firmware.firmware
    parts: Parts = [
        line(
            "firmware",
            f"{inspected_firmware.path}: {firmware.elf_class}-bit {firmware.machine} {firmware.kind}",
        ),
        line("build id", firmware.build_id or "the linker made none"),
    ]
    for said in firmware.provenances:
        parts += _provenance_parts(said)
    parts += lines("compiler", firmware.toolchain)
    for region in inspected_firmware.regions:
        if region.used_bytes:
            used = f"{number(region.used_bytes)} of {size(region.size_bytes)}"
            parts.append(line(region.name, f"{used} ({region.fill:.1%})"))
    rows = [
        (number(s.size_bytes), f"0x{s.address:08x}", _use(s.writable, s.executable, s.in_file), s.name)
        for s in firmware.sections
    ]
    return [*parts, "", table((">bytes", "=address", "=use", "section"), rows)]


def _use(writable: bool, executable: bool, in_file: bool) -> str:
    if executable:
        return "code"
    return "constants" if not writable else "data" if in_file else "reserved"


def _provenance_parts(said: Provenance) -> Parts:
    on = f"{said.board} (Zephyr {said.zephyr})" if said.zephyr else said.board
    models = [f"{m.name}  {m.format}, {m.compiler}, sha256 {m.archive_sha256}" for m in said.models]
    return [
        line("made by", f"mlf-sdk {said.sdk} for {on}"),
        line("options", ", ".join(options_text(said))),
        *lines("model", models),
    ]


def options_text(said: Provenance) -> list[str]:
    """Options of a project in words; of switches, those that are on."""
    on = {
        "inputs kept": said.keep_inputs,
        "arena shared": said.share_arena,
        "workspace traced": said.trace,
        "CMSIS-NN": said.cmsis_nn,
    }
    return [
        f"application {said.app}",
        f"executor {said.executor}",
        f"parameters in {said.params}",
        *(name for name, value in on.items() if value),
        f"kernels compiled with {said.cflags}",
    ]


def firmware_values(inspected_firmware: InspectedFirmware) -> Values:
    """Firmware as plain values."""
    firmware = result_values(inspected_firmware.firmware)
    provenance = firmware.pop("provenances")
    return {
        **firmware,
        "firmware": str(inspected_firmware.path),
        "provenance": provenance,
        "regions": plain(inspected_firmware.regions),
    }
