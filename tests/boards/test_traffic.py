# SPDX-License-Identifier: Apache-2.0
"""Words that the planner counts for each layer, against those that an emulated core reads and writes in a run."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

import mlf_sdk
from emulated import missing_board_tools
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.ir.model import TensorKind
from mlf_sdk.pipeline.loading import load_analysed
from mlf_sdk.pipeline.request import Request
from mlf_sdk.planner.memories import Pins
from mlf_sdk.planner.spread import place_model
from mlf_sdk.planner.traffic import Key, Traffic, is_copy, traffic_of
from mlf_sdk.targets.boards.banks import banks_of
from mlf_sdk.targets.boards.load import find_board, load_board
from mlf_sdk.targets.boards.placed import placements
from tflite_models import small_network

BOARD = "mps2-an500"
MODELS = Path(__file__).parents[3] / "shared/tflite"
ROWS = Path(__file__).with_name("rows")
UART, SYSTEM = 0x4000_4000, 0xE000_E000


def shared(name: str) -> object:
    path = MODELS / f"{name}_int8.tflite"
    missing = pytest.mark.skipif(not path.is_file(), reason=f"not here: {path.name}")
    return pytest.param(path, id=name, marks=[pytest.mark.shared, missing])


MLPERF = [shared(name) for name in ("ad", "kws", "resnet8", "vww")]


def measured(elf_path: Path, name: str) -> Counter[str]:
    """Bytes that one run of a bare Cortex-M7 image reads and writes in the arena and in the weights."""
    unicorn: Any = pytest.importorskip("unicorn")
    from unicorn import arm_const

    with elf_path.open("rb") as stream:
        elf = ELFFile(stream)
        table = elf.get_section_by_name(".symtab")
        symbols = {s.name: (s["st_value"], s["st_size"]) for s in table.iter_symbols()}
        parts = [(p["p_paddr"], p.data()) for p in elf.iter_segments("PT_LOAD") if p["p_filesz"]]
    core = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
    core.ctl_set_cpu_model(arm_const.UC_CPU_ARM_CORTEX_M7)
    for memory in find_board(BOARD).memories:
        core.mem_map(memory.origin, memory.size_bytes)
    for base in (UART, SYSTEM):
        core.mem_map(base, 0x1000)
    for address, data in parts:
        core.mem_write(address, data)
    stack, reset = (int.from_bytes(core.mem_read(at, 4), "little") for at in (0, 4))
    core.reg_write(arm_const.UC_ARM_REG_SP, stack)
    run = symbols["mlf_run"][0] & ~1
    core.emu_start(reset, run)
    counts: Counter[str] = Counter()
    ranges = {kind: symbols[f"{name}_{kind}"] for kind in ("arena", "params")}

    def access(core: Any, kind: int, address: int, size: int, value: int, data: object) -> None:
        del core, value, data
        for where, (begin, length) in ranges.items():
            if begin <= address < begin + length:
                counts[f"{where} {'writes' if kind == unicorn.UC_MEM_WRITE else 'reads'}"] += size

    core.hook_add(unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, access)
    core.emu_start(run | 1, core.reg_read(arm_const.UC_ARM_REG_LR) & ~1)
    return counts


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.tflite"
    path.write_bytes(small_network())
    return path


@pytest.mark.toolchain
@pytest.mark.skipif(importlib.util.find_spec("unicorn") is None, reason="not installed: unicorn")
@pytest.mark.parametrize("model", [None, *MLPERF])
def test_the_words_that_are_counted_are_those_of_a_run(
    tmp_path: Path, small: Path, model: Path | None
) -> None:
    if missing := missing_board_tools(BOARD):
        pytest.skip(f"not installed: {missing}")
    path = model or small
    mlf_sdk.generate([path], tmp_path / "app", board=BOARD, app="standalone")
    mlf_sdk.build(tmp_path / "app")
    (ir,) = load_analysed(Request(source=(str(path),), board=BOARD))
    bytes_of = measured(tmp_path / "app/build/app.elf", ir.c_name)
    traffic = traffic_of(ir)
    constants = {t.id for t in ir.tensors if t.kind is TensorKind.CONSTANT}

    def total(keys: Iterable[Key]) -> Traffic:
        return sum((traffic[key] for key in keys), Traffic())

    arena, weights = total(traffic.keys() - constants), total(traffic.keys() & constants)
    assert weights.reads == pytest.approx(bytes_of["params reads"] / 4, rel=0.1)
    assert arena.reads + arena.scattered_reads == pytest.approx(bytes_of["arena reads"] / 4, rel=0.25)
    assert arena.writes == pytest.approx(bytes_of["arena writes"] / 4, rel=0.25)


@pytest.mark.toolchain
@pytest.mark.skipif(importlib.util.find_spec("unicorn") is None, reason="not installed: unicorn")
def test_weights_that_are_copied_ahead_are_read_once_from_flash(tmp_path: Path, small: Path) -> None:
    if missing := missing_board_tools(BOARD):
        pytest.skip(f"not installed: {missing}")
    row, place = ROWS / "an500-rt1060.toml", ("weights=flash", "arena=dtcm")
    request = Request(source=(str(small),), board="an500-rt1060", board_file=str(row))
    models = load_analysed(request)
    for pins in (place, (*place, "ahead=no")):
        app = tmp_path / f"app{len(pins)}"
        mlf_sdk.generate(
            [small], app, board="an500-rt1060", board_file=row, app="standalone", place=list(pins)
        )
        mlf_sdk.build(app)
        (placed,) = placements(models, load_board(row), ProjectOptions(place=pins, app="standalone"))
        traffic = traffic_of(placed.layout.model)
        words = sum(  # a table of softmax is read where the inputs point
            traffic[t.id].reads for t in placed.layout.model.constants if "softmax" not in t.name
        )
        assert any(is_copy(placed.layout.model, step) for step in placed.layout.model.steps) == (
            pins == place
        )
        bytes_of = measured(app / "build/app.elf", models[0].c_name)
        assert words == pytest.approx(bytes_of["params reads"] / 4, rel=0.1)
        (arena,) = placed.layout.arenas
        assert arena.bank.name == "dtcm"


@pytest.mark.parametrize("row", ["an547-h743", "an500-rt1060"])
@pytest.mark.parametrize("model", MLPERF)
def test_mlperf_models_take_at_most_three_fifths_of_all_in_the_slow_memory(model: Path, row: str) -> None:
    board = load_board(ROWS / f"{row}.toml")
    request = Request(source=(str(model),), board=row, board_file=str(ROWS / f"{row}.toml"))
    (ir,) = load_analysed(request)
    placement = place_model(ir, banks_of(board, ProjectOptions()), Pins())
    assert placement.cycles <= 0.6 * placement.slow_cycles
