# SPDX-License-Identifier: Apache-2.0
"""The chip that an image is held against: the smallest that fits, or the one that was named."""

from __future__ import annotations

import pytest

from archives import Spec, build, write
from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.errors import InputError
from mlf_sdk.judge.chiptime import chip_time
from mlf_sdk.judge.memorymap import MemoryMap, MemoryPart, PartKind
from mlf_sdk.pipeline.api import load
from mlf_sdk.pipeline.cell import Cell
from mlf_sdk.pipeline.chipfit import chip_fit
from mlf_sdk.reporting.layout import chip_time_text, figure
from mlf_sdk.sweep.figures import figures_of
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.chips.load import find_chip, load_chips
from planning import plan_project


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Board, LockModel]:
    archive = write(build(Spec()), tmp_path_factory.mktemp("chip") / "a.tar")
    plan = plan_project([load(archive)], board="mps2-an386")
    return plan.board, plan.lock.models[0]


def _memory(name: str, **parts: int) -> MemoryMap:
    found = []
    kinds: dict[str, PartKind] = {"arena": "arena", "kernels": "kernels", "server": "server"}
    for kind, size in parts.items():
        found.append(MemoryPart(kind=kinds[kind], address=0, size_bytes=size))
    return MemoryMap(name=name, origin=0, size_bytes=4 << 20, parts=tuple(found))


def test_the_smallest_that_fits(planned: tuple[Board, LockModel]) -> None:
    board, model = planned
    memories = [_memory("flash", kernels=100_000, server=5_000), _memory("ram", arena=30_000, server=9_000)]
    found = chip_fit(None, board, model, memories, 1_000_000)
    assert found is not None
    assert not found.chosen
    assert found.fits
    assert (found.ram_bytes, found.flash_bytes) == (30_000, 100_000)  # without the server
    smaller = [
        chip
        for chip in load_chips().values()
        if 30_000 <= chip.ram_bytes < found.chip_ram_bytes
        and chip.flash_bytes >= 100_000
        and chip.core == "cortex-m4"
        and chip.has_own_flash
    ]
    assert smaller == []
    assert found.time.ms is not None
    assert found.time.ms > 0


def test_one_that_was_named_may_be_too_small(planned: tuple[Board, LockModel]) -> None:
    board, model = planned
    chip = find_chip("stm32f411")
    memories = [_memory("flash", kernels=10_000), _memory("ram", arena=chip.ram_bytes + 4)]
    found = chip_fit("stm32f411", board, model, memories, None)
    assert found is not None
    assert found.chosen
    assert not found.fits
    assert found.title == chip.title
    assert found.time.ms is None


def test_none_fits_or_nothing_is_known(planned: tuple[Board, LockModel]) -> None:
    board, model = planned
    huge = [_memory("flash", kernels=1), _memory("ram", arena=64 << 20)]
    assert chip_fit(None, board, model, huge, 1) is None
    assert chip_fit(None, board, model, [], 1) is None


def test_a_chip_that_is_not_known(planned: tuple[Board, LockModel]) -> None:
    board, model = planned
    with pytest.raises(InputError, match="nosuch"):
        chip_fit("nosuchchip", board, model, [_memory("ram", arena=10)], 1)


def test_energy_where_a_document_states_current_and_voltage(planned: tuple[Board, LockModel]) -> None:
    """In the estimate, in the text of a run, and as a figure of a sweep."""
    board, model = planned
    chip = find_chip("max32655")
    assert chip.current is not None
    assert chip.current.volts is not None
    time = chip_time(chip, board, model, 2_000_000)
    assert time.cycles is not None
    picojoules = time.cycles * chip.current.ua_per_mhz * chip.current.volts
    assert time.mj == pytest.approx(picojoules * 1e-9)
    assert f"~{figure(time.mj)} mJ" in chip_time_text(time)
    cell = Cell(
        archive="a.tar", module=None, model="m", board="b", outcome="proven", chip_ms=time.ms, chip_mj=time.mj
    )
    assert figures_of(cell) == {"chip_ms": time.ms, "chip_mj": time.mj}
    silent = find_chip("stm32f411")
    assert silent.current is None or silent.current.volts is None
    assert chip_time(silent, board, model, 2_000_000).mj is None
