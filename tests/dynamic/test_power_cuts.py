# SPDX-License-Identifier: Apache-2.0
"""The program that cuts the power of an emulated micro:bit: the first writes of a push, and what it must notice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mlf_sdk.tools.child import death_watch
from mlf_sdk.wire.package import PackageStatus
from power_cuts import DIGITS, Bench, cut, recorded

pytestmark = [pytest.mark.toolchain, pytest.mark.qemu]
FIRST = 12


def test_power_is_cut_after_writes_of_a_push(tmp_path: Path, needs_qemu: None) -> None:
    if "MONOCYPHER" not in os.environ:
        pytest.skip("MONOCYPHER is not set")
    bench = Bench(tmp_path, DIGITS, os.environ["MONOCYPHER"])
    before, (push,) = recorded(bench, [bench.package(2)], FIRST)
    assert push.status is None and len(push.writes) == FIRST + 1
    assert [len(write.data) for write in push.writes[1:FIRST]] == [4] * (FIRST - 1)
    (count,) = cut(bench, before, [push], 4)
    assert (count.old, count.new, count.other) == (FIRST - 1, 1, [])  # of none, and of the last ten of 13
    torn = replace(push, writes=[push.writes[-1]], status=PackageStatus.CASE)
    assert cut(bench, before, [torn], 1)[0].other == ["write 1: version 2"]


MACHINE = """
import contextlib, signal, types
import power_cuts
power_cuts.qemu_argv = lambda *_, **__: ["sh", "-c", "echo runs; exec sleep 60"]
power_cuts.Session = lambda *_, **__: contextlib.nullcontext()
power_cuts.GdbRemote = lambda _: types.SimpleNamespace(close=lambda: None)
with power_cuts.Bench.machine(types.SimpleNamespace(board=None, elf=None)):
    signal.pause()
"""


@pytest.mark.skipif(not death_watch(), reason="setpriv is not installed")
def test_machines_end_with_the_program() -> None:
    program, path = [sys.executable, "-c", MACHINE], os.pathsep.join(sys.path)
    env = os.environ | {"PYTHONPATH": path}
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None and process.stdout.readline() == "runs\n"
        process.terminate()
        assert process.communicate(timeout=30) == ("", None)  # once nobody has it open: the machine has ended
    assert process.returncode == -signal.SIGTERM
