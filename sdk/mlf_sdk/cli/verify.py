# SPDX-License-Identifier: Apache-2.0
"""The command ``verify``: does a board run this very image, or hold this very model?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mlf_sdk.cli import options as opt
from mlf_sdk.cli.output import show, status
from mlf_sdk.cli.serial import Baud, BoardOfPort, NeededPort
from mlf_sdk.pipeline.verification import Verification, verify_device
from mlf_sdk.report.layout import Parts, line, verdict
from mlf_sdk.targets.serial.session import PortChoice


def verify(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="ARCHIVE|DIR|FIRMWARE",
            help="An archive, the folder of a generated project, or a linked ELF file.",
        ),
    ],
    port: NeededPort,
    board: BoardOfPort = None,
    module: opt.Module = None,
    baud: Baud = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds for the board's answer.")] = 20.0,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Ask a board whether it runs this very image.

    An archive has no image: the board may have been built with any options. A project or an ELF file is
    compared by the build id as well.

    Example: mlf-sdk verify app --port /dev/ttyACM0
    """
    choice = PortChoice(spec=port, baud=baud)
    with status(as_json=json) as progress:
        progress.say(f"asking the board on {port}")
        found = verify_device(target, choice, board=board, module=module, timeout_s=timeout)
    show(verify_parts(found), verify_values(found), as_json=json)
    if not found.ok:
        raise typer.Exit(1)


def verify_parts(found: Verification) -> Parts:
    """A comparison for people."""
    device, expected = found.device, found.expected
    parts: Parts = [
        line("port", found.port),
        line("SDK", device.sdk_version or "the board does not say"),
    ]
    if not found.sdk_ok:
        parts.append(line("expected", f"SDK {expected.sdk_version}", verdict(False)))
    for wanted, model in zip(expected.models, found.found, strict=True):
        text = f"{wanted.name}  sha256 {wanted.archive_sha256}"
        parts.append(line("model", text, verdict(model is not None)))
    if not found.models_ok:
        held = ", ".join(f"{m.name} ({m.archive_sha256[:16]})" for m in device.models)
        parts.append(line("board holds", held or "nothing"))
    if expected.build_id is None:
        parts.append(line("build id", f"not compared: {expected.no_build_id}"))
    else:
        parts.append(line("build id", expected.build_id, verdict(found.build_ok)))
    if not found.build_ok:
        parts.append(line("board runs", device.build_id or "an image that does not tell its build id"))
    return [*parts, line("verdict", verdict(found.ok))]


def verify_values(found: Verification) -> dict[str, Any]:
    """A comparison as plain values."""
    return {
        "ok": found.ok,
        "port": found.port,
        "sdk_version": found.device.sdk_version or None,
        "expected_sdk_version": found.expected.sdk_version,
        "build_id": found.device.build_id or None,
        "expected_build_id": found.expected.build_id,
        "boot_nonce": found.device.boot_nonce,
        "models": [
            {"name": wanted.name, "archive_sha256": wanted.archive_sha256, "found": model is not None}
            for wanted, model in zip(found.expected.models, found.found, strict=True)
        ],
        "device": [{"name": m.name, "archive_sha256": m.archive_sha256} for m in found.device.models],
    }
