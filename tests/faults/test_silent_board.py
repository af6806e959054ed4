# SPDX-License-Identifier: Apache-2.0
"""An emulated board that does not answer: the error says where its CPU is and what the line has to be."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import mlf_sdk
from mlf_sdk.targets.boards.isa import lacks_tools
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.silence import silence_text
from mlf_sdk.wire.codes import NoAnswerError

DIGITS = Path(__file__).resolve().parents[2] / "examples/digits/digits-graph-tvm0.11.1.tar"
LOOP = "int main(void) {\n  for (volatile int i = 0;; ++i) {\n  }"


def silent(folder: Path, board: str, code: str = LOOP) -> NoAnswerError:
    app = folder / "app"
    mlf_sdk.generate(DIGITS, app, board=board)
    source = app / "src/main.c"
    text = source.read_text()
    assert "int main(void) {" in text
    source.write_text(text.replace("int main(void) {", code))
    mlf_sdk.build(app)
    with pytest.raises(NoAnswerError) as caught:
        mlf_sdk.run(app, timeout_s=3, twin=False)
    return caught.value


@pytest.mark.qemu
def test_a_cpu_in_a_loop_is_found(tmp_path: Path, needs_qemu: None) -> None:
    error = silent(tmp_path, "mps2-an386")
    assert "did not answer HELLO" in error.what
    assert "It printed nothing." in error.hint
    assert "The CPU is in main+0x" in error.hint
    lines = (tmp_path / "app/src/main.c").read_text().splitlines()
    line = next(at for at, text in enumerate(lines, 1) if "volatile int i" in text)
    assert f"src/main.c:{line}" in error.hint
    assert "cfsr=0x00000000 hfsr=0x00000000" in error.hint
    assert "a clock of 25,000,000 Hz at the UART, and the line at 115,200 baud" in error.hint


@pytest.mark.qemu
def test_fault_registers_are_told_where_something_is_in_them(tmp_path: Path, needs_qemu: None) -> None:
    """A loop in a fault handler of one's own, as start-up files of vendors have it."""
    fault = "void BusFault_Handler(void) {\n  for (;;) {\n  }\n}\n\n"
    enable = "  *(volatile unsigned *)0xE000ED24u |= 7u << 16;\n"
    access = "  (void)*(volatile unsigned *)0x90000000u;\n"
    error = silent(tmp_path, "mps2-an386", f"{fault}int main(void) {{\n{enable}{access}")
    assert "The CPU is in BusFault_Handler" in error.hint
    assert "bfar=0x90000000" in error.hint
    assert "cfsr=0x00000000" not in error.hint
    assert "PRECISERR: data access to an address without memory" in error.hint


@pytest.mark.qemu
@pytest.mark.skipif(lacks_tools(find_board("qemu-virt-rv32")), reason="no compiler or emulator for RISC-V")
def test_a_cpu_of_another_architecture(tmp_path: Path) -> None:
    error = silent(tmp_path, "qemu-virt-rv32")
    assert "The CPU is in main+0x" in error.hint
    assert "mcause=0x00000000" in error.hint
    assert "mcause:" not in error.hint


def test_a_monitor_that_is_gone_leaves_the_line(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        text = silence_text(find_board("microbit"), tmp_path / "no.elf", ours)
    assert text == "The image expects a clock of 16,000,000 Hz at the UART, and the line at 115,200 baud."
