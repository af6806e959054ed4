# SPDX-License-Identifier: Apache-2.0
"""Raspberry Pi Pico: an image from the boot ROM's checksum to the last byte of its UART, on registers of a model.

Unicorn runs the code; registers follow Raspberry Pi's headers of the chip, not the row. No emulator has the chip.
"""

from __future__ import annotations

import binascii
import re
import struct
from pathlib import Path

import pytest

import mlf_sdk
from mlf_sdk.errors import InputError
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.load import find_board, load_board
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.flashers.image import load_segments, uf2

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ROOT / "examples/layers/layers.tflite"
FLASH, RAM, STAGE_AT = 0x10000000, 0x20000000, 0x20041F00
CRYSTAL_HZ = 12_000_000
MANY = "\n[[second_stage]]\nwhat = 'x'\n".join(30 * ["address = 4\nvalue = 1"])
SSI, RESETS, CLOCKS, XOSC, PLL, PINS, UART = (
    0x18000000,
    0x4000C000,
    0x40008000,
    0x40024000,
    0x40028000,
    0x40014000,
    0x40034000,
)


class Pico:
    """Registers after a reset: what the hardware forbids or does not answer is an error."""

    def __init__(self) -> None:
        self.words = {
            RESETS: 0x01FFFFFF,
            PLL: 1,
            PLL + 4: 0x2D,
            PLL + 12: 0x77000,
            CLOCKS + 0x30: 0,
            CLOCKS + 0x3C: 0,
            PINS + 4: 0x1F,
            PINS + 12: 0x1F,
            SSI + 8: 1,
        }
        self.said = bytearray()
        self.vectors = 0

    def word(self, address: int) -> int:
        """Value of a register as it was written, or after the reset."""
        return self.words.get(address, 0)

    def runs(self, bit: int) -> bool:
        """True: a peripheral is out of reset."""
        return not self.word(RESETS) >> bit & 1

    @property
    def crystal_runs(self) -> bool:
        return self.word(XOSC) == 0xFABAA0 and self.word(XOSC + 12) * 256 >= CRYSTAL_HZ // 1000

    @property
    def locked(self) -> bool:
        """The PLL's oscillator runs at a rate that it can have."""
        rate = CRYSTAL_HZ // max(self.word(PLL) & 63, 1) * (self.word(PLL + 8) & 0xFFF)
        on = not self.word(PLL + 4) & 0x21
        return self.runs(12) and on and self.crystal_runs and 750_000_000 <= rate <= 1_600_000_000

    def system_hz(self) -> int:
        """Rate of the system's clock; 0: none of those that a rate is known of."""
        if self.word(CLOCKS + 0x3C) & 1 == 0:
            return CRYSTAL_HZ if self.word(CLOCKS + 0x30) & 3 == 2 else 0
        assert self.word(CLOCKS + 0x3C) & 0xE0 == 0, "not the PLL"
        assert self.locked
        assert not self.word(PLL + 4) & 8, "the dividers behind the PLL are off"
        rate = CRYSTAL_HZ // (self.word(PLL) & 63) * (self.word(PLL + 8) & 0xFFF)
        first, second = self.word(PLL + 12) >> 16 & 7, self.word(PLL + 12) >> 12 & 7
        assert first >= second > 0
        return rate // first // second

    def read(self, address: int) -> int:
        """Value that the CPU reads."""
        known = {
            RESETS + 8: ~self.word(RESETS) & 0x01FFFFFF,
            XOSC + 4: int(self.crystal_runs) << 31,
            PLL: int(self.locked) << 31 | self.word(PLL),
            CLOCKS + 0x38: 1 << (self.word(CLOCKS + 0x30) & 3),
            CLOCKS + 0x44: 1 << (self.word(CLOCKS + 0x3C) & 1),
            UART + 0x18: 0x90,  # nothing received, room to send
        }
        return known.get(address, self.word(address))

    def write(self, address: int, value: int) -> None:
        """Write of the CPU."""
        changed = self.word(address) ^ value
        if address == 0xE000ED08:
            self.vectors = value
        if SSI <= address < SSI + 0x100 and address != SSI + 8:
            assert not self.word(SSI + 8), "the flash's interface is set up while it is on"
        if address == CLOCKS + 0x3C and changed & 0xE0:
            assert not self.word(address) & 1, "the other source changes while it is used"
        if address == CLOCKS + 0x3C and value & 1:
            assert self.word(CLOCKS + 0x30) & 3 == 2
        if address == CLOCKS + 0x30 and value & 3 == 2:
            assert self.crystal_runs, "the crystal is chosen before it is stable"
        if PLL <= address < PLL + 0x10:
            assert self.runs(12), "the PLL is in reset"
        if address in (PLL, PLL + 8) and changed:
            assert self.word(PLL + 4) & 0x20, "the PLL is set while it runs"
        if PINS <= address < PINS + 0x100:
            assert self.runs(5), "the pins are in reset"
            assert self.runs(8), "the pads are in reset"
        if UART <= address < UART + 0x100:
            assert self.runs(22), "the UART is in reset"
            assert self.word(CLOCKS + 0x48) & 0x8E0 == 0x800, "the UART has no clock of the system"
        if address == UART:
            assert self.word(UART + 0x30) & 0x101 == 0x101
            assert (self.word(PINS + 4) & 31, self.word(PINS + 12) & 31) == (2, 2)
            self.said.append(value & 0xFF)
        self.words[address] = value

    def baud(self) -> float:
        """Rate of the UART's line (PL011: clock / 16 / divisor, which has 6 bits of fraction)."""
        return self.system_hz() / 16 / (self.word(UART + 0x24) + self.word(UART + 0x28) / 64)


def boot_checksum(data: bytes) -> int:
    """Checksum of 252 bytes, by another way than the SDK's: zlib's CRC-32 of reversed bits, reversed and inverted."""
    turned = bytes(int(f"{byte:08b}"[::-1], 2) for byte in data)
    return int(f"{binascii.crc32(turned) ^ 0xFFFFFFFF:032b}"[::-1], 2)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, needs_arm: None) -> Path:
    folder = tmp_path_factory.mktemp("pico") / "app"
    mlf_sdk.generate(LAYERS, folder, board="rpi-pico", app="standalone")
    return mlf_sdk.build(folder).elf


def memory_of(elf: Path) -> bytes:
    """Flash as the drive RPI-RP2 writes it: sectors of 4 kB are erased, then pages written."""
    flash = bytearray(2 << 20)
    for block in struct.iter_unpack("<8I476sI", uf2(load_segments(elf), 0xE48BFF56)):
        address = block[3] - FLASH
        assert 0 <= address < len(flash), "a page outside of the flash"
        flash[address : address + 256] = block[8][:256]
    return bytes(flash)


@pytest.mark.toolchain
def test_an_image_boots_and_speaks(image: Path) -> None:
    unicorn = pytest.importorskip("unicorn")
    arm = pytest.importorskip("unicorn.arm_const")
    flash, chip = memory_of(image), Pico()
    assert struct.unpack_from("<I", flash, 252) == (boot_checksum(flash[:252]),)
    cpu = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
    cpu.ctl_set_cpu_model(arm.UC_CPU_ARM_CORTEX_M0)
    cpu.mem_map(RAM, 0x42000)
    for start, size in ((SSI, 0x1000), (0x40000000, 0x70000), (0xE000E000, 0x1000)):
        cpu.mmio_map(
            start,
            size,
            lambda _, offset, __, base: chip.read(base + offset),
            start,
            lambda _, offset, __, value, base: (
                faults.append(error) if (error := attempt(chip, base + offset, value)) else None
            ),
            start,
        )
    faults: list[str] = []
    cpu.mem_write(STAGE_AT, flash[:252])
    # The flash can't be read until the second stage has set up its interface: it is not there.
    with pytest.raises(unicorn.UcError, match="READ_UNMAPPED"):
        cpu.emu_start(STAGE_AT | 1, FLASH, count=1000)
    assert (chip.vectors, chip.word(SSI + 8), chip.word(SSI + 0xF4)) == (FLASH + 256, 1, 0x03000218)
    assert (chip.word(SSI), chip.word(SSI + 4), chip.word(SSI + 0x14) % 2) == (0x1F0300, 0, 0)
    cpu.mem_map(FLASH, len(flash), unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
    cpu.mem_write(FLASH, flash)
    cpu.emu_start(cpu.reg_read(arm.UC_ARM_REG_PC) | 1, FLASH, count=1000)
    stack, reset = struct.unpack_from("<2I", flash, 256)
    cpu.reg_write(arm.UC_ARM_REG_SP, stack)
    for _ in range(200):
        cpu.emu_start(reset | 1, FLASH, count=100_000)
        reset = cpu.reg_read(arm.UC_ARM_REG_PC)
        if b"mlf: done" in chip.said or faults:
            break
    board = find_board("rpi-pico")
    assert not faults
    assert "mlf: done 0" in chip.said.decode()
    assert chip.system_hz() == board.clock_hz == 125_000_000
    assert abs(chip.baud() / 115_200 - 1) < 0.001
    assert chip.word(SSI + 0x14) * 50_000_000 >= board.clock_hz  # command 03h up to 50 MHz


def attempt(chip: Pico, address: int, value: int) -> str:
    """Write; what the model says against it."""
    try:
        chip.write(address, value)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.toolchain
def test_without_a_write_the_model_objects(image: Path) -> None:
    """The model is no rubber stamp: each write of the row that it can know about is missed."""
    row: Board = find_board("rpi-pico")
    silent = []
    for missing in range(len(row.init)):
        chip, said = Pico(), ""
        for number, one in enumerate(row.init):
            if number == missing:
                continue
            before = chip.read(one.address)
            value = before & ~one.mask | one.value if one.mask else one.value
            said = said or attempt(chip, one.address, value)
            waited = chip.read(one.address if one.wait_address is None else one.wait_address)
            said = said or ("waits" if waited & one.wait_mask != one.wait_value else "")
        said = said or attempt(chip, UART + 0x30, 0x301) or attempt(chip, UART, 0x41)
        try:
            said = said or ("" if chip.system_hz() == row.clock_hz else "rate")
        except AssertionError as error:
            said = str(error) or "rate"
        if not said:
            silent.append(row.init[missing].what.rpartition("(")[2].rstrip(")"))
    # What a reset has already: sources of the clocks, resets, the reference's divider.
    assert silent == ["CLK_SYS_CTRL", "CLK_REF_CTRL", "RESETS_RESET", "PLL_SYS_CS", "CLK_SYS_CTRL"]


@pytest.mark.parametrize(
    ("base", "more", "fault"),
    [
        ("rpi-pico", "address = 4\nvalue = 1\nmask = 1", "second_stage[7]: it writes whole registers"),
        ("rpi-pico", "address = 0\nvalue = 1", "second_stage[7]: it writes whole registers"),
        ("rpi-pico", MANY, "it has room for 28 writes"),
        ("qemu-virt-rv32", "address = 4\nvalue = 1", "second_stage: there is none for"),
    ],
)
def test_a_second_stage_that_can_not_be(base: str, more: str, fault: str, tmp_path: Path) -> None:
    text = (data_dir("board_templates") / f"boards/{base}.toml").read_text()
    path = tmp_path / "own.toml"
    path.write_text(f"{text}\n[[second_stage]]\nwhat = 'x'\n{more}\n")
    with pytest.raises(InputError, match=re.escape(fault)):
        load_board(path)
