# SPDX-License-Identifier: Apache-2.0
"""Results of ``flash``, ``verify``, ``params`` and ``ports`` for people and as plain values."""

from __future__ import annotations

from typing import Any

from mlf_sdk.pipeline.flash import FlashReport
from mlf_sdk.pipeline.params import ParamsReport
from mlf_sdk.pipeline.serial import SeenPort
from mlf_sdk.pipeline.verification import Verification
from mlf_sdk.reporting.layout import Parts, line, lines, size, table, verdict


def flash_parts(report: FlashReport) -> Parts:
    """Lay out the flashed image, and the board's proof of it."""
    what = f"{size(report.run.image_bytes)} to {report.board.name} with {report.runner.name}"
    parts: Parts = [line("flashed", f"{what} in {report.run.seconds:.1f} s")]
    if report.device is not None:
        models = [f"{m.name} ({m.archive_sha256[:12]})" for m in report.device.models]
        parts += [*lines("answers", models), line("build id", report.device.build_id or "not reported")]
    if not report.proven:
        return [*parts, line("unproven", report.unproven)]
    return [*parts, line("verdict", verdict(True))]


def flash_values(report: FlashReport) -> dict[str, Any]:
    """A flash as plain values."""
    device = report.device
    return {
        "ok": True,
        "proven": report.proven,
        "unproven": report.unproven or None,
        "project": str(report.folder),
        "board": report.board.name,
        "runner": report.runner.name,
        "argv": list(report.run.argv),
        "seconds": round(report.run.seconds, 3),
        "image_bytes": report.run.image_bytes,
        "console": report.console,
        "build_id": report.build_id or None,
        "models": None
        if device is None
        else [{"name": m.name, "archive_sha256": m.archive_sha256} for m in device.models],
        "output": report.run.output,
    }


def verify_parts(verification: Verification) -> Parts:
    """A comparison for people."""
    device, expected = verification.device, verification.expected
    parts: Parts = [
        line("port", verification.port),
        line("SDK", device.sdk_version or "not reported"),
    ]
    if not verification.sdk_ok:
        parts.append(line("expected", f"SDK {expected.sdk_version}", verdict(False)))
    for wanted, model in zip(expected.models, verification.found, strict=True):
        text = f"{wanted.name}  sha256 {wanted.archive_sha256}"
        parts.append(line("model", text, verdict(model is not None)))
    if not verification.models_ok:
        held = ", ".join(f"{m.name} ({m.archive_sha256[:16]})" for m in device.models)
        parts.append(line("board holds", held or "nothing"))
    if expected.build_id is None:
        parts.append(line("build id", f"not compared: {expected.no_build_id}"))
    else:
        parts.append(line("build id", expected.build_id, verdict(verification.build_ok)))
    if not verification.build_ok:
        parts.append(line("board runs", device.build_id or "an image without a build id"))
    return [*parts, line("verdict", verdict(verification.ok))]


def verify_values(verification: Verification) -> dict[str, Any]:
    """A comparison as plain values."""
    return {
        "ok": verification.ok,
        "port": verification.port,
        "sdk_version": verification.device.sdk_version or None,
        "expected_sdk_version": verification.expected.sdk_version,
        "build_id": verification.device.build_id or None,
        "expected_build_id": verification.expected.build_id,
        "boot_nonce": verification.device.boot_nonce,
        "models": [
            {"name": wanted.name, "archive_sha256": wanted.archive_sha256, "found": model is not None}
            for wanted, model in zip(verification.expected.models, verification.found, strict=True)
        ],
        "device": [{"name": m.name, "archive_sha256": m.archive_sha256} for m in verification.device.models],
    }


def params_parts(report: ParamsReport) -> Parts:
    """Lay out the parameters that are in force."""
    header, info = report.header, report.info
    parts: Parts = [line("model", f"{report.model} ({report.archive_sha256[:12]})")]
    if header is None:
        return [*parts, line("params", "none: the constants are in the code")]
    count = len(report.graph.params)
    came = (
        "the firmware's archive" if header.archive_sha256.hex() == report.archive_sha256 else "another file"
    )
    parts += [
        line("params", f"{count} tensors, {header.data_bytes:,} B, CRC {header.data_crc:08x}"),
        line("from", f"{header.archive_sha256.hex()[:12]}: {came}"),
        line("in force", f"{info.place}, generation {info.generation}"),
    ]
    return parts


def params_values(report: ParamsReport) -> dict[str, Any]:
    """Parameters in force as plain values."""
    header, info = report.header, report.info
    return {
        "model": report.model,
        "archive_sha256": report.archive_sha256,
        "place": info.place,
        "generation": info.generation,
        "replaceable": bool(info.has_store),
        "params": None
        if header is None
        else {
            "tensors": [item.name for item in report.graph.params],
            "data_bytes": header.data_bytes,
            "data_crc": f"{header.data_crc:08x}",
            "source_sha256": header.archive_sha256.hex(),
        },
    }


def ports_parts(seen: list[SeenPort], board: str | None) -> Parts:
    """Lay out serial ports as a table."""
    rows = [
        (s.port.device, s.port.usb_id or "-", s.port.serial_number or "-", ", ".join(s.boards) or "-",
         s.port.description)
        for s in seen
    ]  # fmt: skip
    columns = ("=port", "=usb id", "serial number", "board", "description")
    nothing = f"no serial port has a USB id of {board}" if board else "there is no serial port"
    return [table(columns, rows)] if rows else [nothing]


def port_values(seen: SeenPort) -> dict[str, Any]:
    """A port as plain values."""
    port = seen.port
    return {
        "port": port.device,
        "usb_id": port.usb_id or None,
        "serial_number": port.serial_number or None,
        "description": port.description or None,
        "boards": list(seen.boards),
    }
