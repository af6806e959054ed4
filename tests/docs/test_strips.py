# SPDX-License-Identifier: Apache-2.0
"""Vertical strips of regions, as docs/strips.py computes them: graphs worked out by hand, and the page's table."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from docs_scripts import docs_script
from mlf_sdk.compiler.rows.memory import OperatorMemory, RowMemory
from mlf_sdk.compiler.tflite.load import load_tflite
from tflite_models import Maker

ROOT = Path(__file__).resolve().parents[2]
KWS = ROOT.parent / "shared/tflite/kws_int8.tflite"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return docs_script("strips")


def memory_of(folder: Path, *sizes: int, residual: bool = False, stride: int = 1) -> RowMemory:
    """Convolutions of 4 channels on 8 x 8 pixels, SAME, with kernels that need no scratch."""
    m = Maker(1)
    x = y = m.input((1, 8, 8, 4))
    for size in sizes:
        y = m.conv(y, 4, (size, size), stride, same=True)
    path = folder / "model.tflite"
    path.write_bytes(m.finish(m.binary("ADD", x, y) if residual else y))
    graph = load_tflite(path)
    return RowMemory(graph, [OperatorMemory()] * len(graph.operators))


def _values(memory: RowMemory) -> tuple[int, ...]:
    """Input of each operator, and the last output."""
    return (*(o.inputs[0] for o in memory.operators), memory.operators[-1].outputs[0])


def test_strips_of_two_layers_compute_a_column_each_twice(script: ModuleType, tmp_path: Path) -> None:
    memory = memory_of(tmp_path, 3, 3)
    found = memory.region(0, 2)
    assert found is not None
    widest, macs = script.strips(found[0], 2)
    assert [widest[v] for v in _values(memory)] == [6, 5, 4]
    each = 64 * 4 * 36
    assert macs == each + each * 10 // 8
    whole, halves, *_ = script.ways(memory, 0, 2)
    assert halves == (256 + 256 + 64, each * 2 // 8)  # a ring of three rows of five columns
    assert whole == (memory.interval(0, 2), 0)


def test_strips_of_a_residual_read_what_all_readers_need(script: ModuleType, tmp_path: Path) -> None:
    memory = memory_of(tmp_path, 5, residual=True)
    found = memory.region(0, 2)
    assert found is not None
    widest, macs = script.strips(found[0], 4)
    assert widest[memory.graph.inputs[0]] == 6  # of two columns and two at each side
    assert macs == 64 * 4 * 100


def test_steps_of_two_columns_widen_what_is_read(script: ModuleType, tmp_path: Path) -> None:
    memory = memory_of(tmp_path, 3, 3, stride=2)
    found = memory.region(0, 2)
    assert found is not None
    widest, _ = script.strips(found[0], 2)
    assert [widest[o.inputs[0]] for o in memory.operators] == [7, 3]  # SAME pads on the right alone
    assert script.strips(found[0], 3) is None  # of two columns


def test_more_multiplications_never_cost_ram(script: ModuleType, tmp_path: Path) -> None:
    memory = memory_of(tmp_path, 3, 3, 3)
    sizes = [script.least(memory, share) for share in (0.0, 1000.0, 1e6)]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.skipif(not KWS.is_file(), reason="the model is not here")
def test_the_page_has_what_the_script_computes(script: ModuleType) -> None:
    page = (ROOT / "docs/rows.md").read_text(encoding="utf-8")
    assert f"\n{script.row_of(KWS)}\n" in page
