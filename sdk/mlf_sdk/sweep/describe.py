# SPDX-License-Identifier: Apache-2.0
"""Description of a machine as resources of a worker: SDK, compilers, emulator, ports, places."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mlf_sdk.sweep.identity import SDK, place_resource, sdk_version, tool_resource, tool_versions
from mlf_sdk.targets.target import ZEPHYR

MANY = 1_000_000.0  # of what any number of jobs may use at once


def describe_machine(boards: Iterable[str] = ()) -> dict[str, float]:
    """Resources of a worker on this machine.

    Args:
        boards: places such as ``labgrid:desk``, and ports such as ``port /dev/ttyACM0``; one of each.
    """
    result = {tool_resource(SDK, sdk_version()): MANY}
    result |= {tool_resource(name, version): MANY for name, version in tool_versions().items()}
    if os.environ.get("ZEPHYR_BASE") or Path("~/zephyrproject/zephyr").expanduser().is_dir():
        result[ZEPHYR] = MANY
    return result | {place_resource(board): 1.0 for board in boards}
