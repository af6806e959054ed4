# SPDX-License-Identifier: Apache-2.0
"""Board files made from chips: what is known is that of rows that exist, what is not is asked and said."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

import mlf_sdk
from cli_helpers import Caller
from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.family import family_of, load_families
from mlf_sdk.targets.boards.load import find_board, load_board
from mlf_sdk.targets.boards.new import BoardAnswers, new_board
from mlf_sdk.targets.chips.load import find_chip, load_chips
from mlf_sdk.tools.isas import isa_of_cpu

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples/digits"
CHIPS = [chip for chip in load_chips().values() if isa_of_cpu(chip.cpu) is not None]


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_a_file_holds_the_memories_of_its_chip_and_all_that_lacks_is_asked(chip, tmp_path: Path) -> None:
    made = new_board(chip, BoardAnswers())
    values = msgspec.toml.decode(made.text)
    stated = {(m.name, m.kind, m.origin, m.size_bytes) for m in chip.memories if m.kind != "itcm"}
    assert {tuple(memory.values()) for memory in values["memories"]} == stated
    assert all(source in made.text for source in [m.source for m in chip.memories])
    asked = re.findall(r"^# QUESTION \d+: (.*)$", made.text, re.MULTILINE)
    assert tuple(asked) == made.questions
    assert made.questions
    path = tmp_path / "board.toml"
    path.write_text(made.text)
    if not made.faults:
        assert load_board(path).chip == chip.name
        return
    with pytest.raises(InputError):
        load_board(path)
    told = {fault.partition(": ")[0] for fault in made.faults}
    assert told <= {"uart.driver", "uart", "clock_hz", "counter.hz", "counter", "memories"}


def test_a_chip_of_a_board_that_is_known_gets_the_facts_of_its_row(tmp_path: Path) -> None:
    for chip, name in (
        ("stm32f446xe", "nucleo-f446re"),
        ("stm32f411xe", "nucleo-f411re"),
        ("stm32f407xg", "stm32f4-disco"),
    ):
        path = tmp_path / f"{chip}.toml"
        path.write_text(new_board(find_chip(chip), BoardAnswers()).text)
        made, known = load_board(path), find_board(name)
        same = ("cpu", "fpu", "float_abi", "dsp", "chip", "stack_bytes", "rpc")
        assert [getattr(made, one) for one in same] == [getattr(known, one) for one in same]
        assert known.init[-len(made.init) :] == made.init  # before them, its clock: the board's own affair
        assert (made.flash.origin, made.flash.size_bytes) == (known.flash.origin, known.flash.size_bytes)
        assert (made.ram.origin, made.ram.size_bytes) == (known.ram.origin, known.ram.size_bytes)
    path.write_text(new_board(find_chip("stm32f103xb"), BoardAnswers()).text)
    made, known = load_board(path), find_board("bluepill")
    assert known.init[-len(made.init) :] == made.init
    path.write_text(new_board(find_chip("rp2040"), BoardAnswers()).text)
    made, known = load_board(path), find_board("rpi-pico")
    same = ("cpu", "clock_hz", "uart", "init", "second_stage", "chip", "stack_bytes")
    assert [getattr(made, one) for one in same] == [getattr(known, one) for one in same]


def test_every_family_has_chips_and_a_source() -> None:
    for family in load_families():
        assert [chip for chip in CHIPS if family_of(chip.name) == family]
        assert "zephyr: dts/" in family.source
        assert family.questions


@pytest.mark.toolchain
def test_the_file_of_an_stm32f411_builds(call: Caller, tmp_path: Path, needs_arm: None) -> None:
    path = tmp_path / "board.toml"
    told = call("boards", "new", "STM32F411RE", "-o", path)
    assert told.code == 0
    assert "16,000,000 Hz" in told.out
    assert "USART2 on PA2 and PA3" in told.out
    app = tmp_path / "app"
    mlf_sdk.generate(DIGITS / "digits-graph-tvm0.11.1.tar", app, board="my-stm32f411xe", board_file=path)
    mlf_sdk.build(app)
    assert mlf_sdk.check(app).ok
    header = (app / "board/mlf_board.h").read_text()
    assert "#define MLF_UART_CLOCK_HZ 16000000u" in header
    assert header.count("\n  X(0x") == 4


@pytest.mark.qemu
def test_the_file_of_an_stm32f411_runs_on_a_machine_of_its_family(tmp_path: Path, needs_qemu: None) -> None:
    """QEMU's STM32F405 has USART2 at the same place, as its second serial port."""
    path = tmp_path / "board.toml"
    text = new_board(find_chip("stm32f411xe"), BoardAnswers(name="f411")).text
    path.write_text(f'{text}\n[qemu]\nmachine = "netduinoplus2"\nserial_index = 1\n')
    report = mlf_sdk.run(
        DIGITS / "digits-graph-tvm0.11.1.tar", board="f411", board_file=path, expect=DIGITS / "test.npz",
        inputs=DIGITS / "test.npz",
    )  # fmt: skip
    assert report.verdict == "PASS"


def test_what_the_family_leaves_open_is_answered_by_options(call: Caller, tmp_path: Path) -> None:
    path = tmp_path / "nrf.toml"
    told = call("boards", "new", "nrf51822", "-o", path, "--json").value
    assert told["faults"] == ["uart: this driver needs tx_pin and rx_pin"]
    pins = ("--tx-pin", "24", "--rx-pin", "25")
    other = tmp_path / "other.toml"
    told = call("boards", "new", "nrf51822", "-o", other, "--name", "bit", *pins, "--json").value
    assert (told["faults"], told["name"]) == ([], "bit")
    microbit = find_board("microbit").uart
    assert load_board(other).uart == msgspec.structs.replace(microbit, max_baud=None)
    own = ("--uart", "nrf51", "--uart-base", "0x4000_2000", "--clock", "64000000", "--uart-irq", "2")
    third = tmp_path / "third.toml"
    assert call("boards", "new", "nrf52840", "-o", third, *own, *pins, "--baud", "57600").code == 0
    row = load_board(third)
    assert (row.clock_hz, row.uart.base, row.uart.irq, row.uart.baud) == (64_000_000, 0x40002000, 2, 57_600)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("new",), "CHIP is missing"),
        (("new", "stm32f411xe"), "--output is missing"),
        (("old", "stm32f411xe", "-o", "x.toml"), "unexpected argument"),
        (("new", "stm32f411xe", "rp2040", "-o", "x.toml"), "unexpected argument 'rp2040'"),
        (("new", "stm32f999", "-o", "x.toml"), "there is no chip"),
        (("new", "stm32f4", "-o", "x.toml"), "may be several chips"),
        (("new", "ch32v003", "-o", "x.toml"), "no start-up code for the core rv32ec"),
        (("new", "stm32f411xe", "-o", "x.toml", "--name", "../x"), "invalid value"),
        (("new", "stm32f411xe", "-o", "x.toml", "--uart-base", "zork"), "invalid value"),
        (("new", "stm32f411xe", "-o", "x.toml", "--uart-irq", "900"), "invalid value"),
        (("-o", "x.toml"), "nothing to write"),
    ],
)
def test_what_can_not_be_meant(words, said: str, call: Caller, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = call("boards", *words)
    assert told.code == 2
    assert said in told.block()["what"]
    assert not list(tmp_path.iterdir())


def test_a_file_that_exists_stays(call: Caller, tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text("mine")
    assert "exists already" in call("boards", "new", "rp2040", "-o", path).block()["what"]
    assert path.read_text() == "mine"
