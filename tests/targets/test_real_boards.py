# SPDX-License-Identifier: Apache-2.0
"""Rows of boards that people have: set-up of clocks and pins as data, and boards that Zephyr alone has."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import mlf_sdk
from mlf_sdk.analysis.elf.read import read_image
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
        "rpi-pico",
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


class Stm32:
    """Registers of reset and clock control (RCC), the flash's and the regulator's, after a reset.

    A clock is ready when it is on; what the hardware forbids or would fail at is an error here.
    """

    def __init__(self, rcc: int, acr: int, wait_hz: int, most_apb1: int) -> None:
        self.cr, self.acr, self.wait_hz, self.most_apb1 = rcc, acr, wait_hz, most_apb1
        self.words = {rcc: 0x83, acr: 0}

    def write(self, address: int, value: int) -> None:
        """Write a register."""
        running = self.words[self.cr]
        if address == self.cr:
            assert not (running & 1 << 16 and (value ^ running) & 1 << 18), (
                "bypass changes while the clock is on"
            )
            value = value & ~(1 << 17 | 1 << 25) | (value >> 16 & 1) << 17 | (value >> 24 & 1) << 25
        else:
            self.check(address, value, pll_runs=bool(running & 1 << 24))
        if address == self.cfgr:
            value = value & ~0xC | (value & 3) << 2
        self.words[address] = value
        waits, (system, apb1, apb2) = self.words[self.acr] & 7, self.rates()
        assert system <= self.wait_hz * (waits + 1), "the flash waits too little for this clock"
        assert apb1 <= self.most_apb1
        assert apb2 <= 2 * self.most_apb1

    def rates(self) -> tuple[int, int, int]:
        """Rates of the system, APB1 and APB2, in Hz."""
        control, chosen = self.words[self.cr], self.words.get(self.cfgr, 0)
        assert chosen & 3 != 2 or control & 1 << 25, "the PLL is chosen before it is ready"
        source = (self.internal_hz, 8_000_000, self.pll_hz() if chosen & 3 == 2 else 0)[chosen & 3]
        assert not chosen & 0x80, "the system's bus is divided"
        first, second = (
            1 << (field - 3) if field >= 4 else 1
            for field in (chosen >> self.apb & 7, chosen >> self.apb + 3 & 7)
        )
        return source, source // first, source // second


class Stm32f4(Stm32):
    """Of the family F4; rates of the buses are those of the smaller chips, 42 and 84 MHz."""

    internal_hz, apb = 16_000_000, 10
    cfgr, pllcfgr, regulator = 0x40023808, 0x40023804, 0x40007000

    def __init__(self) -> None:
        super().__init__(0x40023800, 0x40023C00, 30_000_000, 42_000_000)
        self.words[self.pllcfgr] = 0x24003010

    def check(self, address: int, value: int, *, pll_runs: bool) -> None:
        """Check a write."""
        assert address != self.pllcfgr or not pll_runs, "the PLL is set while it is on"
        assert address != self.regulator or self.words.get(0x40023840, 0) & 1 << 28, "PWR has no clock"

    def pll_hz(self) -> int:
        """Rate of the PLL's output."""
        pll = self.words[self.pllcfgr]
        reference = (8_000_000 if pll >> 22 & 1 else 16_000_000) / (pll & 63)
        oscillator = reference * (pll >> 6 & 511)
        assert 950_000 <= reference <= 2_100_000
        assert 100_000_000 <= oscillator <= 432_000_000
        result = int(oscillator) // (2 * (pll >> 16 & 3) + 2)
        assert result <= 84_000_000 or self.words.get(self.regulator, 0) & 1 << 14, "scale of the regulator"
        return result


class Stm32f1(Stm32):
    """Of the STM32F103."""

    internal_hz, apb = 8_000_000, 8
    cfgr = 0x40021004

    def __init__(self) -> None:
        super().__init__(0x40021000, 0x40022000, 24_000_000, 36_000_000)

    def check(self, address: int, value: int, *, pll_runs: bool) -> None:
        """Check a write."""
        changed = (self.words.get(self.cfgr, 0) ^ value) & 0x3F0000
        assert address != self.cfgr or not (pll_runs and changed), "the PLL is set while it is on"

    def pll_hz(self) -> int:
        """Rate of the PLL's output."""
        chosen = self.words[self.cfgr]
        source = 8_000_000 // (1 + (chosen >> 17 & 1)) if chosen >> 16 & 1 else self.internal_hz // 2
        result = source * min((chosen >> 18 & 15) + 2, 16)
        assert result <= 72_000_000
        return result


@pytest.mark.parametrize(
    ("name", "system", "of_uart"),
    [
        ("nucleo-f401re", 84_000_000, 42_000_000),
        ("nucleo-f411re", 84_000_000, 42_000_000),
        ("nucleo-f446re", 84_000_000, 42_000_000),
        ("stm32f4-disco", 168_000_000, 42_000_000),
        ("bluepill", 72_000_000, 72_000_000),
    ],
)
def test_the_clock_of_a_row_is_that_of_its_writes(name: str, system: int, of_uart: int) -> None:
    """QEMU has no model of this clock tree: the writes are made to one of registers, waits and checks included."""
    row, chip = load_boards()[name], Stm32f1() if name == "bluepill" else Stm32f4()
    for one in row.init:
        before = chip.words.get(one.address, 0)
        chip.write(one.address, before & ~one.mask | one.value if one.mask else one.value)
        waited = chip.words.get(one.address if one.wait_address is None else one.wait_address, 0)
        assert waited & one.wait_mask == one.wait_value, one.what
    assert row.uart is not None
    rates = chip.rates()
    assert (rates[0], rates[2 if name == "bluepill" else 1]) == (system, of_uart)
    assert (row.clock_hz, row.uart.clock_hz or row.clock_hz) == (system, of_uart)
    assert row.counter is not None
    assert row.counter.hz == system


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
    assert "--board nucleo-f411re, or --board-file" in second
    with pytest.raises(InputError, match="there is no board 'zork'"):
        resolve_target(TargetChoice(board="zork"))
