# SPDX-License-Identifier: Apache-2.0
"""An emulated board that does not answer: the error says where its CPU is and what the line has to be."""

from __future__ import annotations

import shutil
import socket
import threading
from pathlib import Path

import pytest

import mlf_sdk
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.isa import lacks_tools
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.probe import read_registers
from mlf_sdk.targets.silence import silence_text
from mlf_sdk.tools.isas import IsaMonitor
from mlf_sdk.wire.codes import NoAnswerError
from serial_helpers import PtyDevice

DIGITS = Path(__file__).resolve().parents[2] / "examples/digits/digits-graph-tvm0.11.1.tar"
LOOP = "int main(void) {\n  for (volatile int i = 0;; ++i) {\n  }"


def built(folder: Path, board: str, code: str = LOOP, row: Path | None = None) -> Path:
    """Project whose application does something else than answer."""
    app = folder / "app"
    mlf_sdk.generate(DIGITS, app, board=board, board_file=row and str(row))
    source = app / "src/main.c"
    text = source.read_text()
    assert "int main(void) {" in text
    source.write_text(text.replace("int main(void) {", code))
    mlf_sdk.build(app)
    return app


def silent(folder: Path, board: str, code: str = LOOP) -> NoAnswerError:
    app = built(folder, board, code)
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


# ---- a board on a port, with a probe ----

# OpenOCD's place is taken by QEMU: its GDB server works on a CPU that runs the image.
PROBE = """#!/bin/sh
for word; do case $word in "gdb_port "*) port=${word#gdb_port } ;; esac; done
exec $QEMU -M netduinoplus2 -display none -serial null -monitor none -kernel $ELF -gdb tcp:127.0.0.1:$port
"""


@pytest.fixture
def looping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs_qemu: None) -> Path:
    """Project for a board with a probe whose application is a loop, and an `openocd` on PATH."""
    program = tmp_path / "bin/openocd"
    program.parent.mkdir()
    program.write_text(PROBE)
    program.chmod(0o755)
    row = tmp_path / "probed.toml"
    text = (data_dir("board_templates") / "boards/netduinoplus2.toml").read_text()
    row.write_text(
        text.replace('name = "netduinoplus2"', 'name = "probed"')
        + '\n[flasher]\nrunner = "openocd"\n[flasher.options]\nopenocd_config = "board.cfg"\n'
    )
    app = built(tmp_path, "probed", row=row)
    monkeypatch.setenv("QEMU", str(shutil.which("qemu-system-arm")))
    monkeypatch.setenv("ELF", str(app / "build/app.elf"))
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return app


def hint_at_port(app: Path) -> str:
    with PtyDevice(lambda data: b"") as port, pytest.raises(NoAnswerError) as caught:
        mlf_sdk.run(app, port=port.path, timeout_s=1, twin=False)
    return caught.value.hint


@pytest.mark.qemu
def test_a_probe_finds_the_cpu_of_a_silent_board(looping: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hint = hint_at_port(looping)
    assert "OpenOCD reaches the board: the CPU is in main+0x" in hint
    assert "src/main.c:" in hint
    assert "cfsr=0x00000000 hfsr=0x00000000" in hint
    assert "the line at 115,200 baud" in hint and "With a probe" not in hint
    program = looping.parent / "bin/openocd"
    program.write_text("#!/bin/sh\necho 'Error: open failed' >&2\nexit 1\n")
    hint = hint_at_port(looping)
    assert "CPU is in" not in hint and "With a probe" in hint


def test_a_server_that_knows_no_register_is_asked_for_all() -> None:
    """An empty reply is no value; notifications and acknowledgements between packets are skipped."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                for reply in (b"+$S05#b8$#00", b"+%Stop#00$78563412#00", b"+$#00", b"+$E01#a6", b"+$OK#9a"):
                    while b"#" not in connection.recv(64):
                        pass
                    connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        names = IsaMonitor(numbers={"pc": 15, "lr": 14}, words={"cfsr": 0xE000ED28})
        assert read_registers(port, names) == {"pc": 0x12345678}
        thread.join(10)
