# SPDX-License-Identifier: Apache-2.0
"""Rows of boards that people have: set-up of clocks and pins as data, and boards that Zephyr alone has."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import mlf_sdk
from mlf_sdk.analysis.elf.image import read_image
from mlf_sdk.errors import InputError
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.load import load_board, load_boards
from mlf_sdk.targets.chips.load import find_chip
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.targets.target import TargetChoice
from zephyr_trees import put, version_text

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ROOT / "examples/layers/layers.tflite"
REAL = [row for row in load_boards().values() if row.proven_on == "not run on hardware"]
INIT = """
[[init]]
what = "a register as a whole"
address = 0x20020000
value = 0x1234_5678

[[init]]
what = "some of its bits, which come"
address = 0x20020000
value = 0x0000_00AB
mask = 0x0000_00FF
wait_mask = 0xFFFF_FFFF
wait_value = 0x1234_56AB

[[init]]
what = "bits that never come"
address = 0x20020004
value = 1
wait_address = 0x20020000
wait_mask = 1
wait_value = 0

[[init]]
what = "what comes after them"
address = 0x20020008
value = 7
"""


def own_row(folder: Path, more: str, base: str = "netduinoplus2") -> Path:
    text = (data_dir("board_templates") / f"boards/{base}.toml").read_text()
    path = folder / "own.toml"
    path.write_text(text.replace(f'name = "{base}"', 'name = "own"') + more)
    return path


@pytest.mark.qemu
def test_registers_are_written_before_main(tmp_path: Path, needs_qemu: None) -> None:
    """Looked at through the emulator, in memory that the row leaves out."""
    folder = tmp_path / "app"
    mlf_sdk.generate(LAYERS, folder, board_file=own_row(tmp_path, INIT), app="standalone")
    elf = mlf_sdk.build(folder).elf
    failed = next(s.address for s in read_image(elf).symbols if s.name == "mlf_init_failed")
    commands = f"xp /3xw 0x20020000\nxp /1xw {failed:#x}\nquit\n"
    machine = ("-M", "netduinoplus2", "-display", "none", "-serial", f"file:{tmp_path / 'said'}")
    with subprocess.Popen(
        ["qemu-system-arm", *machine, "-monitor", "stdio", "-kernel", str(elf)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        for _ in range(200):
            if (tmp_path / "said").exists() and "mlf: done" in (tmp_path / "said").read_text():
                break
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        said, _ = process.communicate(commands, timeout=20)
    words = re.findall(r"^[0-9a-f]{8,16}: ((?:0x[0-9a-f]{8} ?)+)\r?$", said, re.MULTILINE)
    assert [word.split() for word in words] == [
        ["0x123456ab", "0x00000001", "0x00000007"],
        ["0x00000003"],
    ]
    assert "mlf: done 0" in (tmp_path / "said").read_text()


@pytest.mark.parametrize(
    ("write", "fault"),
    [
        ("address = 0x20000001\nvalue = 0", "multiple"),
        ("address = 0x20000000\nvalue = 3\nmask = 1", "init[0].value: it has bits outside of mask"),
        ("address = 0\nvalue = 1\nwait_value = 1", "init[0].wait_value: it has bits outside of wait_mask"),
        ("address = 0\nvalue = 1\nwait_address = 4", "init[0].wait_address: nothing is waited for"),
    ],
)
def test_writes_that_can_not_be_meant(write: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(fault)):
        load_board(own_row(tmp_path, f'\n[[init]]\nwhat = "x"\n{write}\n'))


def test_memories_of_a_real_board_are_those_of_its_chip() -> None:
    assert {row.name for row in REAL} == {
        "bluepill",
        "nucleo-f401re",
        "nucleo-f411re",
        "nucleo-f446re",
        "stm32f4-disco",
    }
    for row in REAL:
        assert row.init, row.name
        if row.chip:
            stated = {(m.origin, m.size_bytes, m.kind) for m in find_chip(row.chip).memories}
            assert {(m.origin, m.size_bytes, m.kind) for m in row.memories} <= stated


@pytest.mark.toolchain
@pytest.mark.parametrize("name", [row.name for row in REAL])
def test_an_image_for_a_real_board_is_built(name: str, tmp_path: Path, needs_arm: None) -> None:
    """Nothing has run on the board; the image fits, and writes what the row says."""
    mlf_sdk.generate(LAYERS, tmp_path / "app", board=name)
    elf = mlf_sdk.build(tmp_path / "app").elf
    assert mlf_sdk.check(tmp_path / "app").ok
    row = load_boards()[name]
    header = (tmp_path / "app/board/mlf_board.h").read_text()
    assert header.count("\n  X(0x") == len(row.init)
    assert row.uart is not None
    assert f"#define MLF_UART_CLOCK_HZ {row.uart.clock_hz or row.clock_hz}u" in header
    assert any(symbol.name == "mlf_init_failed" for symbol in read_image(elf).symbols)


class Stm32f4:
    """Registers of reset and clock control (RCC) and the flash's, after a reset; a clock is ready when it is on."""

    CR, PLLCFGR, CFGR, ACR = 0x40023800, 0x40023804, 0x40023808, 0x40023C00

    def __init__(self, external_hz: int) -> None:
        self.external_hz = external_hz
        self.words = {self.CR: 0x83, self.PLLCFGR: 0x24003010, self.CFGR: 0, self.ACR: 0}

    def write(self, address: int, value: int) -> None:
        """Write a register; what the hardware forbids or would fail at is an error here."""
        running = self.words.get(self.CR, 0)
        if address == self.PLLCFGR:
            assert not running & 1 << 24, "the PLL is set while it is on"
        if address == self.CR:
            assert not (running & 1 << 16 and (value ^ running) & 1 << 18), (
                "bypass changes while the clock is on"
            )
            value = value & ~(1 << 17 | 1 << 25) | (value >> 16 & 1) << 17 | (value >> 24 & 1) << 25
        if address == self.CFGR:
            value = value & ~0xC | (value & 3) << 2
        self.words[address] = value
        waits, (system, _, _) = self.words[self.ACR] & 15, self.rates()
        assert system <= 30_000_000 * (waits + 1), "the flash waits too little for this clock"

    def rates(self) -> tuple[int, int, int]:
        """Rates of the system, APB1 and APB2, in Hz."""
        control, pll, chosen = (self.words[one] for one in (self.CR, self.PLLCFGR, self.CFGR))
        source = {0: 16_000_000, 1: self.external_hz}.get(chosen & 3, 0)
        if chosen & 3 == 2:
            assert control & 1 << 25, "the PLL is chosen before it is ready"
            reference = self.external_hz if pll >> 22 & 1 else 16_000_000
            oscillator = reference // (pll & 63) * (pll >> 6 & 511)
            assert 950_000 <= reference / (pll & 63) <= 2_100_000
            assert 100_000_000 <= oscillator <= 432_000_000
            source = oscillator // (2 * (pll >> 16 & 3) + 2)
        assert not chosen & 0x80, "the system's bus is divided"
        divided = [1 << (field - 3) if field >= 4 else 1 for field in (chosen >> 10 & 7, chosen >> 13 & 7)]
        assert source // divided[0] <= 42_000_000
        assert source // divided[1] <= 84_000_000
        return source, source // divided[0], source // divided[1]


@pytest.mark.parametrize("name", ["nucleo-f401re", "nucleo-f411re"])
def test_the_clock_of_a_row_is_that_of_its_writes(name: str) -> None:
    """QEMU has no model of this clock tree: the writes are made to one of registers, waits and checks included."""
    row, chip = load_boards()[name], Stm32f4(external_hz=8_000_000)
    for one in row.init:
        before = chip.words.get(one.address, 0)
        chip.write(one.address, before & ~one.mask | one.value if one.mask else one.value)
        waited = chip.words.get(one.address if one.wait_address is None else one.wait_address, 0)
        assert waited & one.wait_mask == one.wait_value, one.what
    assert row.uart is not None
    assert chip.rates()[:2] == (row.clock_hz, row.uart.clock_hz)
    assert row.counter is not None
    assert row.counter.hz == row.clock_hz


def test_a_board_of_a_zephyr_tree_is_built_by_zephyr(tmp_path: Path) -> None:
    put(tmp_path / "zephyr/VERSION", version_text("3.2.0"))
    put(tmp_path / "zephyr/boards/arm/nucleo_f411re/nucleo_f411re_defconfig")
    base = str(tmp_path / "zephyr")
    found = resolve_target(TargetChoice(board="nucleo_f411re", zephyr_base=base))
    assert (found.board.platform, found.board.name) == ("zephyr", "nucleo_f411re")
    bare = resolve_target(TargetChoice(board="nucleo-f411re", zephyr_base=base))
    assert bare.board.platform == "baremetal"


def test_without_a_tree_two_lines_say_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ZEPHYR_BASE", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no Zephyr tree on this machine") as caught:
        resolve_target(TargetChoice(board="nucleo_f411re"))
    first, second = caught.value.hint.splitlines()
    assert "west init" in first
    assert "--board-file" in second
    with pytest.raises(InputError, match="there is no board 'zork'"):
        resolve_target(TargetChoice(board="zork"))
