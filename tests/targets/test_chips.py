# SPDX-License-Identifier: Apache-2.0
"""Rows of chips: facts with sources, and look-up by names as people write them."""

from __future__ import annotations

import re

import pytest

from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.load import find_board, load_boards
from mlf_sdk.targets.chips.load import chips_named, find_chip, load_chips
from mlf_sdk.targets.chips.row import Chip, ChipMemory

CHIPS = list(load_chips().values())


def test_there_are_chips_of_many_vendors_and_cores() -> None:
    assert len(CHIPS) >= 60
    assert len({chip.vendor for chip in CHIPS}) >= 10
    cores = {chip.core for chip in CHIPS}
    assert cores >= {f"cortex-m{which}" for which in ("0", "0plus", "3", "4", "7", "33", "55", "85")}
    assert any(core.startswith("rv32") for core in cores)


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_every_fact_of_a_chip_has_a_source(chip: Chip) -> None:
    stated = {"core", "zephyr_boards"} | ({"clock_hz"} if chip.clock_hz else set())
    stated |= {"dsp"} if chip.dsp is not None else set()
    assert set(chip.sources) == stated
    assert all(re.search(r"[./]", source) for source in chip.sources.values())
    assert chip.memories, "no memory was found"
    assert all(re.match(r"zephyr [\d.]+: (dts|boards)/\S+ /\S+ (reg|size)$", m.source) for m in chip.memories)
    assert len({m.origin for m in chip.memories if m.kind == "ram"}) == sum(
        m.kind == "ram" for m in chip.memories
    )
    for other in (chip.flash, chip.current):
        assert other is None or other.source


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("STM32L4R5ZI", "stm32l4r5xi"),
        ("stm32l4r5zit6p", "stm32l4r5xi"),
        ("stm32f411", "stm32f411xe"),
        ("NRF52840", "nrf52840"),
        ("nucleo_f411re", "stm32f411xe"),
        ("nrf52840dk", "nrf52840"),
        ("rp2040", "rp2040"),
    ],
)
def test_a_chip_is_found_by_part_number_beginning_and_board(text: str, name: str) -> None:
    assert find_chip(text).name == name


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("stm32l4", "may be several chips", "stm32l432xc, stm32l476xg"),
        ("nrf52841", "there is no chip 'nrf52841'", "Did you mean nrf52840"),
        ("z80", "there is no chip 'z80'", "See: mlf-sdk chips"),
        ("", "there is no chip ''", "See: mlf-sdk chips"),
    ],
)
def test_a_name_of_none_or_of_several_chips_says_what_to_write(text: str, what: str, hint: str) -> None:
    with pytest.raises(InputError, match=re.escape(what)) as caught:
        find_chip(text)
    assert caught.value.where == "--chip" and hint in caught.value.hint


def test_ram_is_the_largest_without_a_gap() -> None:
    def memory(origin: int, size_bytes: int, kind: str = "ram") -> ChipMemory:
        return ChipMemory(name="m", kind=kind, origin=origin, size_bytes=size_bytes, source="s")  # type: ignore[arg-type]

    chip = Chip(
        name="some",
        title="Some",
        vendor="x",
        core="cortex-m4",
        memories=(memory(0x100, 0x100), memory(0x200, 0x80), memory(0x1000, 0x170), memory(0x280, 8, "itcm")),
        sources={},
    )
    assert (chip.ram_bytes, chip.flash_bytes, chip.has_own_flash) == (0x180, 0, False)


def test_a_cortex_m33_is_not_taken_to_have_what_nothing_states() -> None:
    def cpu(core: str, dsp: bool | None) -> str:
        return Chip(name="some", title="Some", vendor="x", core=core, dsp=dsp, sources={}).cpu

    assert cpu("cortex-m33", None) == "cortex-m33+nodsp"
    assert cpu("cortex-m33", True) == "cortex-m33"
    assert cpu("cortex-m4", None) == "cortex-m4"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "stm32f411",
            ("It is a chip (stm32f411xe)", "mlf-sdk chips", "--board nucleo_f411re", "--board-file"),
        ),
        ("nucleo_f411re", ("Zephyr has this board", "--platform zephyr --board nucleo_f411re")),
        ("zork", ("host, lm3s6965evb", "--board-file", "--platform zephyr", "mlf-sdk chips")),
        ("microbitt", ("Did you mean microbit?",)),
    ],
)
def test_a_board_that_has_no_row_leads_to_chips_and_zephyr(name: str, words: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="there is no board") as caught:
        find_board(name)
    assert all(word in caught.value.hint for word in words)


def test_chips_of_boards_are_there() -> None:
    named = {board.name: board.chip for board in load_boards().values() if board.chip}
    assert named["microbit"] == "nrf51822"
    assert all(len(chips_named(chip)) == 1 for chip in named.values())
