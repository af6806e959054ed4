# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import mlf_sdk

DIGITS = Path(__file__).parents[2] / "examples/digits/digits-graph-tvm0.11.1.tar"


def build_project(archive: Path, folder: Path, board: str, **options: object) -> Path:
    needed = ["cmake", "ninja"] + (["gcc"] if board == "host" else ["arm-none-eabi-gcc", "qemu-system-arm"])
    for tool in needed:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    mlf_sdk.generate(archive, folder, board=board, executor="graph", **options)  # type: ignore[arg-type]
    mlf_sdk.build(folder)
    return folder
