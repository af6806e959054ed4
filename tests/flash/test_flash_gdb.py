# SPDX-License-Identifier: Apache-2.0
"""The runner gdb on QEMU's debug server: flashed, started, and proven by the device; and what can go wrong."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

import mlf_sdk
from archives import Spec, build, write
from flash_helpers import halted_machine, tcp_server, until
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import InputError, TargetError, ToolError
from mlf_sdk.pipeline.flash import flash
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.flashers.errors import FlashNotProvenError, NoProbeError, RunnerFailedError
from mlf_sdk.targets.serial.stream import open_port
from mlf_sdk.wire.codes import Opcode
from mlf_sdk.wire.protocol import BaudRequest
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import Deadline

pytestmark = [
    pytest.mark.qemu,
    pytest.mark.skipif(shutil.which("gdb-multiarch") is None, reason="gdb-multiarch is not installed"),
]


def sha(folder: Path) -> str:
    return read_lock(folder).models[0].archive_sha256


def test_an_empty_board_is_flashed_and_proven(app: Path, tmp_path: Path) -> None:
    with halted_machine(tmp_path) as machine:
        report = flash(app, runner="gdb", port=machine.gdb, console=machine.console, timeout_s=60)
    assert report.proven
    assert report.unproven == ""
    assert [(m.name, m.archive_sha256) for m in report.device.models] == [("tiny", sha(app))]
    assert "Section .text" in report.run.output
    assert "matched" in report.run.output


def test_a_board_that_runs_another_model_is_flashed_twice(app: Path, other: Path, tmp_path: Path) -> None:
    """One machine from one model to another and back; the second time it was running."""
    with halted_machine(tmp_path, image=other / "build" / "app.elf") as machine:
        for project in (app, other):
            report = flash(project, runner="gdb", port=machine.gdb, console=machine.console, timeout_s=60)
            assert [m.archive_sha256 for m in report.device.models] == [sha(project)]


RV32 = ("qemu-system-riscv32", "-bios", "none")


@pytest.mark.skipif(
    any(shutil.which(p) is None for p in (RV32[0], "riscv64-unknown-elf-gcc")), reason="no tools for RISC-V"
)
def test_a_core_of_another_architecture(tmp_path: Path) -> None:
    """An empty RISC-V board, and then one that runs another model with its interrupts on."""
    apps = []
    for spec in (Spec(), Spec(name="other", dtype="int8")):
        apps.append(tmp_path / spec.name)
        mlf_sdk.generate(write(build(spec), tmp_path / f"{spec.name}.tar"), apps[-1], board="qemu-virt-rv32")
        mlf_sdk.build(apps[-1])
    with halted_machine(tmp_path, machine="virt", emulator=RV32) as machine:
        for project in apps:
            report = flash(
                project, runner="gdb-riscv", port=machine.gdb, console=machine.console, timeout_s=60
            )
            assert report.proven
            assert [m.archive_sha256 for m in report.device.models] == [sha(project)]


STOPPED = """
  .syntax unified
  .cpu cortex-m4
  .thumb
  .section .vectors, "a"
  .word 0x20001000, reset + 1, 0, stopped + 1
  .text
  .thumb_func
reset:
  {instruction}
  .thumb_func
stopped:
  b stopped
"""


@pytest.mark.parametrize("instruction", ["udf #0", "cpsid i", "cpsid f", "wfi"])
def test_a_board_that_has_stopped(instruction: str, app: Path, tmp_path: Path) -> None:
    """In a fault handler, with interrupts or faults masked, asleep: only a reset brings it back."""
    source, image = tmp_path / "stopped.s", tmp_path / "stopped.elf"
    source.write_text(STOPPED.format(instruction=instruction))
    gcc = (
        "arm-none-eabi-gcc",
        "-mcpu=cortex-m4",
        "-mthumb",
        "-nostdlib",
        "-Wl,--entry=0x41",
        "-Wl,-Ttext=0x40",
    )
    subprocess.run([*gcc, "-Wl,--section-start=.vectors=0", source, "-o", image], check=True)
    with halted_machine(tmp_path, image=image, halted=False) as machine:
        report = flash(app, runner="gdb", port=machine.gdb, console=machine.console, timeout_s=60)
    assert report.proven


def test_a_board_that_was_left_at_a_raised_rate(app: Path, tmp_path: Path) -> None:
    """The new image starts at the first rate, whatever the old one had set."""
    image = app / "build" / "app.elf"
    with halted_machine(tmp_path, image=image, halted=False) as machine:
        session = Session(open_port(machine.console))
        session.hello()
        request = BaudRequest(1_000_000).pack()
        session.line[0].call(Opcode.BAUD, request, Deadline.after(60))
        until(lambda: machine.rates[-1] == 1_000_000)
        session.line[0].close()
        report = flash(app, runner="gdb", port=machine.gdb, console=machine.console, timeout_s=60)
        until(lambda: machine.rates[-1] != 1_000_000)
    assert report.proven


def test_without_a_console_nothing_is_claimed(app: Path, tmp_path: Path) -> None:
    with halted_machine(tmp_path) as machine:
        report = flash(app, runner="gdb", port=machine.gdb, timeout_s=60, unproven_ok=True)
    assert not report.proven
    assert report.device is None
    assert "--console" in report.unproven


def test_the_image_of_another_model(app: Path, other: Path, tmp_path: Path) -> None:
    """The runner is content, the device is not: it answers with the other model's hash."""
    wrong = shutil.copytree(app, tmp_path / "wrong")
    shutil.copy(other / "build" / "app.elf", wrong / "build" / "app.elf")
    with halted_machine(tmp_path) as machine, pytest.raises(FlashNotProvenError) as caught:
        flash(wrong, runner="gdb", port=machine.gdb, console=machine.console, timeout_s=60)
    assert "gdb claims success, but the board runs something else" in caught.value.what
    assert sha(other)[:12] in caught.value.what
    assert sha(app)[:12] in caught.value.what
    assert caught.value.exit_code == TargetError.exit_code


def test_an_image_that_does_not_start(app: Path, tmp_path: Path) -> None:
    """Loaded and compared, but its reset vector leads nowhere."""
    broken = shutil.copytree(app, tmp_path / "broken")
    elf = broken / "build" / "app.elf"
    data = bytearray(elf.read_bytes())
    from elftools.elf.elffile import ELFFile

    with elf.open("rb") as file:
        at = ELFFile(file).get_section_by_name(".vectors")["sh_offset"]
    data[at + 4 : at + 8] = (0x70000001).to_bytes(4, "little")
    elf.write_bytes(data)
    with halted_machine(tmp_path) as machine, pytest.raises(FlashNotProvenError, match="does not answer"):
        flash(broken, runner="gdb", port=machine.gdb, console=machine.console, timeout_s=3)


def test_nobody_listens(app: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(NoProbeError, match="no debug server answers there") as caught:
        flash(app, runner="gdb", port=port, timeout_s=86_400, unproven_ok=True)
    assert caught.value.exit_code == TargetError.exit_code
    with pytest.raises(NoProbeError, match="no debug server answers there"):
        flash(app, runner="gdb", port=str(tmp_path / "none.sock"), timeout_s=30, unproven_ok=True)


def test_a_probe_that_hangs(app: Path) -> None:
    """It takes the connection and never answers; the deadline ends the wait."""
    with (
        tcp_server(lambda _: None) as port,
        pytest.raises(RunnerFailedError, match="did not end within") as caught,
    ):
        flash(app, runner="gdb", port=port, timeout_s=1, unproven_ok=True)
    assert "Does the debug server answer at all?" in caught.value.hint
    assert caught.value.exit_code == ToolError.exit_code


def test_a_probe_that_hangs_and_enough_time(app: Path, tmp_path: Path) -> None:
    """gdb itself gives up, and what it says is told as what it is; here it gives up at once, not after 28 s."""
    row = (data_dir("board_templates") / "runners" / "gdb.toml").read_text()
    hasty = tmp_path / "gdb.toml"
    hasty.write_text(row.replace('"set remotetimeout 2"', '"set remotetimeout 0"'))
    assert hasty.read_text() != row
    with tcp_server(lambda _: None) as port, pytest.raises(NoProbeError, match="does not answer"):
        flash(app, runner_file=hasty, port=port, timeout_s=90, unproven_ok=True)


def test_a_probe_that_goes_away_in_the_middle(app: Path, tmp_path: Path) -> None:
    """The server is cut off while the image is loaded, after any number of its bytes."""
    with halted_machine(tmp_path) as machine:

        def forward(client: socket.socket, most: int) -> None:
            server = socket.socket(socket.AF_UNIX)
            server.connect(machine.gdb)
            server.setblocking(False)
            client.setblocking(False)
            sent = 0
            while sent < most:
                for source, sink in ((client, server), (server, client)):
                    try:
                        data = source.recv(512)
                    except BlockingIOError:
                        time.sleep(0.0005)
                        continue
                    except OSError:
                        data = b""
                    if not data:
                        sent = most
                        break
                    sink.setblocking(True)
                    sink.sendall(data)
                    sink.setblocking(False)
                    sent += len(data) if source is client else 0
            server.close()
            client.shutdown(socket.SHUT_RDWR)

        for most in (200, 3000, 9000):
            with (
                tcp_server(lambda client, most=most: forward(client, most)) as port,
                pytest.raises((RunnerFailedError, NoProbeError)) as caught,
            ):
                flash(app, runner="gdb", port=port, console=machine.console, timeout_s=3600)
            assert "claims success" not in caught.value.what
            if most > 200:
                assert isinstance(caught.value, RunnerFailedError)
                assert "went away while the image was loaded" in caught.value.what
                assert caught.value.exit_code == ToolError.exit_code


def test_the_server_is_killed(app: Path, tmp_path: Path) -> None:
    with halted_machine(tmp_path) as machine:
        machine.process.kill()
        machine.process.wait()
        with pytest.raises(NoProbeError):
            flash(app, runner="gdb", port=machine.gdb, timeout_s=30, unproven_ok=True)


def test_a_port_that_is_more_than_a_name(app: Path) -> None:
    for port in ("localhost:1\nshell touch pwned", "| touch pwned", "a b", "$(id)"):
        with pytest.raises(InputError, match="is no port"):
            flash(app, runner="gdb", port=port, timeout_s=5, unproven_ok=True)
    with pytest.raises(InputError, match="needs a port"):
        flash(app, runner="gdb", timeout_s=5, unproven_ok=True)
