# SPDX-License-Identifier: Apache-2.0
"""The generated function that calls the kernels of a compiled model: calls, cost, stack, faults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mlf_sdk
from core_images import MISSING
from counted import count
from linkmap import read_map
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.errors import TargetError
from mlf_sdk.judge.counting import build_plugin, missing_plugin_support
from mlf_sdk.judge.windows import function_window
from mlf_sdk.targets.boards.load import find_board
from tflite_models import small_network

BOARD = "mps2-an386"
STEP_INSTRUCTIONS = 8
ENTER_AND_LEAVE = 12

pytestmark = [
    pytest.mark.qemu,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}"),
]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built product image."""
    folder = tmp_path_factory.mktemp("sequence")
    (folder / "small.tflite").write_bytes(small_network())
    mlf_sdk.generate(folder / "small.tflite", folder / "app", board=BOARD, app="standalone")
    mlf_sdk.build(folder / "app")
    return folder / "app"


def test_calls_and_stack(app: Path) -> None:
    report = mlf_sdk.check(app)
    assert report.ok
    assert report.stack is not None
    assert report.stack.is_complete
    path = [name for name, _ in report.stack.models[0].depth.path]
    assert path[:1] in (["mlf_run"], ["run_sequence"])
    assert "small_sequence" in path
    image = read_image(app / "build" / "app.elf")
    for table in ("small_steps", "small_no_slots", "small_type_codes", "small_entry_0"):
        assert image.find(table) is None


def test_a_product_holds_little_beside_its_model(app: Path) -> None:
    """Start-up, sample, fault report, memcpy and memset; not the vector table, the notes and the strings.

    The linker merges strings: the map of binutils 2.44 states them where they are and again where they were.
    """
    others = [
        piece
        for piece in read_map(app / "build" / "app.map")
        if piece.linked
        and piece.is_code
        and ".str1." not in piece.section
        and not re.search(r"_kernels\.dir|_params|_entry_0", piece.source)
    ]
    assert {Path(piece.source.split("(")[-1]).name for piece in others if ".a(" in piece.source} == set()
    assert 1500 < sum(piece.size_bytes for piece in others) <= 1900


@pytest.mark.skipif(bool(missing_plugin_support()), reason="QEMU without plugins")
def test_cost_of_a_step(app: Path, tmp_path: Path) -> None:
    image = read_image(app / "build" / "app.elf")
    steps = len(mlf_sdk.load(app.parent / "small.tflite").steps)
    window = function_window(image, "mlf_run")
    done = count(image, find_board(BOARD), [window], plugin=build_plugin(tmp_path), until=b"mlf: done 0")
    (run,) = done.counts.of("run")
    assert run.calls("small_sequence") == 1
    assert 0 < run.instructions("small_sequence") <= STEP_INSTRUCTIONS * steps + ENTER_AND_LEAVE
    assert run.instructions("mlf_run", "run_sequence") < 40


def test_fault_tells_the_step(app: Path, tmp_path: Path) -> None:
    broken = tmp_path / "app"
    mlf_sdk.generate(app.parent / "small.tflite", broken, board=BOARD, app="standalone")
    (source,) = (broken / "model").rglob("*_lib0.c")
    text = source.read_text()
    found = re.search(r"void small_softmax_0\([^;]*?\)\n\{\n", text)
    assert found is not None
    source.write_text(text[: found.end()] + "    __builtin_trap();\n" + text[found.end() :])
    mlf_sdk.build(broken)
    image = read_image(broken / "build" / "app.elf")
    last = len(mlf_sdk.load(app.parent / "small.tflite").steps) - 1
    with pytest.raises(TargetError, match=f" step={last:08x} model=small;"):
        count(image, find_board(BOARD), [], plugin=build_plugin(tmp_path))
