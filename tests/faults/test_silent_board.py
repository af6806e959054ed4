# SPDX-License-Identifier: Apache-2.0
"""An emulated board that does not answer: the error says where its CPU is and what the line has to be."""

from __future__ import annotations

import shutil
import socket
import threading
from pathlib import Path

import pytest

import mlf_sdk
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.isa import lacks_tools
from mlf_sdk.targets.boards.load import find_board, load_board
from mlf_sdk.targets.probe import probe_registers, read_registers
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

# The place of a probe's server is taken by QEMU: its own works on a CPU that runs the image. Its arguments are kept.
# It opens when the image has run for a while: a board that is asked has been switched on before.
PROBE = """#!/bin/bash
echo "$*" > "$SAID"
for word; do case $word in "gdb_port "*) port=${word#gdb_port } ;; esac; done
while [ $# -gt 0 ]; do case $1 in -port | --port) port=$2 ;; esac; shift; done
exec $QEMU -display none -serial null -kernel $ELF -monitor stdio >/dev/null \\
    < <(sleep 1; echo "gdbserver tcp:127.0.0.1:$port")
"""
SERVERS = {
    "openocd": ("openocd", "openocd_config", "board.cfg", "-f board.cfg -c gdb_port "),
    "pyocd": ("pyocd", "pyocd_target", "stm32f405rg", "gdbserver --target stm32f405rg --port "),
    "jlink": (
        "JLinkGDBServerCLExe",
        "jlink_device",
        "STM32F405RG",
        "-device STM32F405RG -if SWD -speed 4000 -port ",
    ),
}


def probed(folder: Path, monkeypatch: pytest.MonkeyPatch, runner: str, base: str, qemu: str) -> Path:
    """Project for a board with a probe whose application is a loop, and the probe's server on PATH."""
    name, option, value, _ = SERVERS[runner]
    program = folder / "bin" / name
    program.parent.mkdir()
    program.write_text(PROBE)
    program.chmod(0o755)
    row = folder / "probed.toml"
    text = (data_dir("board_templates") / f"boards/{base}.toml").read_text().partition("[flasher]")[0]
    row.write_text(
        text.replace(f'name = "{base}"', 'name = "probed"')
        + f'\n[flasher]\nrunner = "{runner}"\n[flasher.options]\n{option} = "{value}"\n'
    )
    app = built(folder, "probed", row=row)
    monkeypatch.setenv("QEMU", f"{shutil.which(qemu.split()[0])} {qemu.partition(' ')[2]}")
    monkeypatch.setenv("ELF", str(app / "build/app.elf"))
    monkeypatch.setenv("SAID", str(folder / "said"))
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return app


@pytest.fixture
def looping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs_qemu: None) -> Path:
    """Project for a board with OpenOCD as its probe's server."""
    return probed(tmp_path, monkeypatch, "openocd", "netduinoplus2", "qemu-system-arm -M netduinoplus2")


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
    assert "OpenOCD was asked where the CPU is: the debug server ended:\nError: open failed\n" in hint
    program.unlink()
    monkeypatch.setenv("PATH", str(program.parent))
    reading = probe_registers(load_board(looping.parent / "probed.toml"))
    assert (reading.title, reading.registers) == ("OpenOCD", {})
    assert reading.fault == "'openocd' is not installed"


@pytest.mark.qemu
@pytest.mark.parametrize("runner", ["pyocd", "jlink"])
def test_other_probes_are_asked_as_they_want_it(
    runner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs_qemu: None
) -> None:
    """Arguments of the probe's own server, and registers of a CPU that runs."""
    app = probed(tmp_path, monkeypatch, runner, "netduinoplus2", "qemu-system-arm -M netduinoplus2")
    reading = probe_registers(load_board(tmp_path / "probed.toml"))
    main = next(s for s in read_image(app / "build/app.elf").symbols if s.name == "main")
    assert main.address & ~1 <= reading.registers["pc"] < (main.address & ~1) + main.size_bytes
    assert SERVERS[runner][3] in (tmp_path / "said").read_text()


@pytest.mark.qemu
@pytest.mark.skipif(lacks_tools(find_board("qemu-virt-rv32")), reason="no compiler or emulator for RISC-V")
def test_registers_of_another_architecture_through_a_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = probed(tmp_path, monkeypatch, "openocd", "qemu-virt-rv32", "qemu-system-riscv32 -M virt -bios none")
    reading = probe_registers(load_board(tmp_path / "probed.toml"))
    assert set(reading.registers) == {"pc", "ra", "sp", "mcause", "mtval"}
    main = next(s for s in read_image(app / "build/app.elf").symbols if s.name == "main")
    assert main.address <= reading.registers["pc"] < main.address + main.size_bytes
    assert reading.registers["mcause"] == 0


def test_a_server_that_knows_no_register_is_asked_for_all() -> None:
    """An empty reply is no value; notifications and acknowledgements between packets are skipped."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                # g, p15, p14, the description of the target, p20 of lr by it, m, D
                named = b'l<reg name="pc"/><reg name="lr" regnum="32"/>'
                for reply in (
                    b"+$S05#b8$#00",
                    b"+%Stop#00$78563412#00",
                    b"+$#00",
                    b"+$" + named + b"#00",
                    b"+$E01#a6",
                    b"+$E01#a6",
                    b"+$OK#9a",
                ):
                    while b"#" not in connection.recv(64):
                        pass
                    connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        names = IsaMonitor(numbers={"pc": 15, "lr": 14}, words={"cfsr": 0xE000ED28})
        assert read_registers(port, names) == {"pc": 0x12345678}
        thread.join(10)
