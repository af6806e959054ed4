# SPDX-License-Identifier: Apache-2.0
"""Runs an emulated image to its end and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emulated import start_qemu
from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.judge.counting import Counts, Window, counter
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.qemu import QemuOptions

DONE = b"mlf: done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Counts, and what the board printed."""

    counts: Counts
    console: str


def count(
    image: Image,
    board: Board,
    windows: Sequence[Window],
    *,
    plugin: Path,
    until: bytes = DONE,
    timeout_s: float = 120.0,
) -> Counted:
    """Run an image until it prints ``until``, and count.

    Raises:
        ToolError: QEMU or the plugin failed.
        TargetError: the image did not print it in time, or faulted.
    """
    with counter(image, windows, plugin=plugin) as counting:
        options = QemuOptions(args=counting.arguments)
        with start_qemu(board, image.path, timeout_s=timeout_s, options=options) as machine:
            console = machine.read_until(until)
            machine.process.stop(grace_s=20.0)  # the plugin's last words come at the orderly end
        return Counted(counts=counting.read(), console=console.decode("utf-8", "replace"))
