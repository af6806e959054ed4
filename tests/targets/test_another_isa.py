# SPDX-License-Identifier: Apache-2.0
"""Another instruction set is data: rows, a folder of the runtime and kernels of its own, in a copy without any edit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ROOT / "examples" / "layers" / "layers.tflite"

INSTRUCTIONS = """\
condition = "defined(TOY)"
kernels = { all = { FullyConnected = ["toy:dense"] } }

[registers]
all = ["A", "B", "C", "D"]
short = 4
arguments = 4

[frame]
enter = []
leave = ["return"]
reserve = ["SP = SP - {i}"]
release = ["SP = SP + {i}"]
alignment = 8

[limits]
offset = 64
step = 100
step_many = 100

[operations]
copy = "{d} = {a}"

[memory]
load = ["{d} = word({base})"]

[flow]
label = ["{label}:"]
"""
KERNELS = '''\
"""Kernels of the other instruction set."""

import dataclasses

from mlf_sdk.compiler.kernels.general import fully_connected


def dense(contraction):
    """The one that every core has, under a name of its own."""
    kernel = fully_connected(contraction)
    return None if kernel is None else dataclasses.replace(kernel, family="toy_dense")
'''
CORE = 'name = "toy-core"\ninstruction_sets = ["toy"]\n'
SCRIPT = """\
import sys
import mlf_sdk
model = mlf_sdk.load(sys.argv[1], core="toy-core")
print(sorted({step.layer.kernel for step in model.steps if step.layer}))
report = mlf_sdk.run(sys.argv[1], board="toy-board", core="toy-core")
print(report.ok, report.check.ok, report.instructions > 1000, report.memory.arena_high_water_bytes == report.memory.arena_bytes)
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout with files for another instruction set beside those that it has."""
    for name in ("sdk", "board_templates", "crt", "qemu"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    rows = tmp_path / "board_templates"
    isa = (rows / "isas" / "thumb.toml").read_text().replace('name = "thumb"', 'name = "toy"')
    isa = isa.replace("fallback = true\n", "").replace("baremetal/thumb", "baremetal/toy")
    (rows / "isas" / "toy.toml").write_text(isa)
    shutil.copytree(tmp_path / "crt/baremetal/thumb", tmp_path / "crt/baremetal/toy")
    shutil.copy(rows / "baremetal/thumb.ld.j2", rows / "baremetal/toy.ld.j2")
    board = (rows / "boards" / "mps2-an386.toml").read_text()
    board = board.replace('"mps2-an386"', '"toy-board"', 1).replace('isa = "thumb"', 'isa = "toy"')
    (rows / "boards" / "toy-board.toml").write_text(board)
    (rows / "cores" / "toy-core.toml").write_text(CORE)
    (rows / "instruction_sets" / "toy.toml").write_text(INSTRUCTIONS)
    (tmp_path / "sdk/mlf_sdk/compiler/kernels/toy.py").write_text(KERNELS)
    return tmp_path


def test_it_needs_no_edit(copy: Path, tmp_path: Path, needs_qemu: None) -> None:
    """Its kernels are chosen, and its board, which the emulator runs, is proven."""
    env = {**os.environ, "PYTHONPATH": str(copy / "sdk"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(LAYERS)], env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kernels, verdict = done.stdout.splitlines()[-2:]
    assert "'toy_dense'" in kernels
    assert verdict == "True True True True"
