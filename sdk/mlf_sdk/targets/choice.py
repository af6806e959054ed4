# SPDX-License-Identifier: Apache-2.0
"""Choice of a target as the user states it: serialisable data, nothing is looked up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChoice:
    """Target as the user names it; can be pickled and encoded as JSON.

    Attributes:
        board: name of a board, ``zephyr:NAME`` for one on Zephyr, or ``SCHEME:REST`` of a registered target
            such as ``labgrid:PLACE``.
        board_file: TOML file with a board row.
        platform: ``baremetal``, ``host`` or ``zephyr``; None: the platform of the board's row.
        port: serial port where the board answers: a path, a URL, ``auto`` or ``usb:VID:PID``.
        baud: rate in bits/s to open the port with; None: that of the board's row.
        max_baud: rate to raise the port to when both ends support it; None: that of the row; 0: never.
        zephyr_base: the Zephyr tree; None: ``$ZEPHYR_BASE``, the workspace's, or ``~/zephyrproject/zephyr``.
        zephyr_modules: folders of Zephyr modules beside those of a west workspace.
        west: build with west; None: when the tree or the project lies in a west workspace.
        build_dir: build folder of a Zephyr project; None: ``build``, or where west's default put it.
        cmake_args: more arguments for CMake in Zephyr builds.
        cmsis_nn: CMSIS-NN checkout, in place of the module of a Zephyr workspace.
    """

    board: str | None = None
    board_file: str | None = None
    platform: str | None = None
    port: str | None = None
    baud: int | None = None
    max_baud: int | None = None
    zephyr_base: str | None = None
    zephyr_modules: tuple[str, ...] = ()
    west: bool | None = None
    build_dir: str | None = None
    cmake_args: tuple[str, ...] = ()
    cmsis_nn: str | None = None


class FlashChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Flasher and runner that the user states.

    Attributes:
        runner: name of the runner (on Zephyr: west's); None: that of ``runner_file``, else the board's.
        runner_file: TOML file with a runner's row.
        port: device that the runner works on: serial port, debug server, or folder of a volume.
        extra: more arguments for the runner.
        sign: key to sign the image with first.
        timeout_s: for all of it, in seconds.
        watch: called with each line of the runner's output as it comes.
    """

    runner: str | None = None
    runner_file: Path | None = None
    port: str = ""
    extra: tuple[str, ...] = ()
    sign: Path | None = None
    timeout_s: float = 120.0
    watch: Callable[[str], None] | None = None
