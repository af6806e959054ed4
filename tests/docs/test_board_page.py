# SPDX-License-Identifier: Apache-2.0
"""The example board of the how-to is right on silicon: QEMU takes any rate of a line."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from doc_blocks import blocks
from mlf_sdk.targets.boards.load import load_board

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "howto-board.md"
HSI_HZ = 16_000_000  # reference manual RM0090, 7.2.2: the clock after reset
MOST_OFF = 0.02
# Registers of the chip as an array: all that its reset leaves at 0 stays there unless the code writes it.
STAND_IN = """
#include <stdint.h>
#include <stdio.h>
static uint32_t registers[0x4000];
static uint32_t *reg(uint32_t address) {
  return &registers[address >= 0x40020000u ? 0x1000u + (address - 0x40020000u) / 4u : (address - 0x40010000u) / 4u];
}
#define MLF_CLOCK_HZ %du
#define MLF_UART_BAUD %du
"""
MAIN = """
int main(void) {
  mlf_uart_init();
  printf("%u %u %u\\n", (unsigned)USART_BRR, (unsigned)*reg(0x40023804u), (unsigned)*reg(0x40023808u));
  return 0;
}
"""


@pytest.mark.toolchain
def test_the_example_board_talks_at_its_rate_on_silicon(tmp_path: Path) -> None:
    """What its code sets is executed: the divider of the line, with the clock that the core really has."""
    if shutil.which("cc") is None:
        pytest.skip("no compiler for this machine")
    page = {b.directives["file"]: b.text for b in blocks(PAGE.read_text()) if "file" in b.directives}
    for name, text in page.items():
        (tmp_path / name).write_text(text)
    board = load_board(tmp_path / "netduino.toml")
    assert board.uart is not None and board.counter is not None
    lines = page["uart_stm32f4.c"].splitlines()
    code = [line for line in lines if not line.startswith(("#define REG(", '#include "mlf_board.h"'))]
    assert len(lines) - len(code) == 2
    head = STAND_IN % (board.clock_hz, board.uart.baud)
    source = "\n".join([head, "#define REG(address) (*reg(address))", *code, MAIN])
    (tmp_path / "main.c").write_text(source)
    program = tmp_path / "main"
    include = f"-I{ROOT / 'crt' / 'include'}"
    subprocess.run(["cc", "-w", include, "-o", program, tmp_path / "main.c"], check=True, timeout=60)
    said = subprocess.run([program], capture_output=True, text=True, check=True, timeout=10).stdout
    divider, pll, configuration = map(int, said.split())
    assert (pll, configuration) == (0, 0), "the code sets a clock: this test must know which"
    assert board.clock_hz == board.counter.hz == HSI_HZ
    assert abs(HSI_HZ / divider / board.uart.baud - 1) < MOST_OFF
