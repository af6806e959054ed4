# SPDX-License-Identifier: Apache-2.0
"""The emulator's command line, the fault line, and the count of instructions."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulated import start_qemu
from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.targets.boards.row import QemuRow
from mlf_sdk.targets.qemu import QemuOptions, instructions, qemu_argv
from mlf_sdk.tools.process import start_process
from mlf_sdk.triage.fault_report import locate_faults, parse_fault

LINE = (
    b"mlf-fault: busfault pc=0000019e lr=000000e1 sp=20000fc0 r0=00000001 r1=80000000 r2=000000fc r3=00000004 "
    b"r12=40004000 xpsr=81000000 cfsr=00008200 hfsr=00000000 mmfar=00000000 bfar=f0000000 step=12 model=digits\n"
)


@dataclass(frozen=True)
class FakeBoard:
    name: str = "fake"
    isa: str = "thumb"
    cpu: str = ""
    qemu: QemuRow | None = QemuRow(machine="some-machine")  # noqa: RUF009 (immutable)


class TestArgv:
    def argv(self, row: QemuRow, **options) -> list[str]:
        return qemu_argv(FakeBoard(qemu=row), Path("/a b.elf"), console_fd=9, options=QemuOptions(**options))

    def test_plain(self):
        argv = self.argv(QemuRow(machine="m"))
        assert argv[:3] == ["qemu-system-arm", "-machine", "m"]
        assert argv[-2:] == ["-kernel", "/a b.elf"]
        assert argv[argv.index("-icount") + 1] == "shift=0"
        assert argv[argv.index("-chardev") + 1] == "socket,id=console,fd=9"
        assert argv.count("-serial") == 1
        assert "-cpu" not in argv

    def test_all_options(self):
        row = QemuRow(machine="m", cpu="c", serial_index=2, args=("-x",))
        argv = self.argv(row, icount_shift=6, args=("-y",))
        serials = [argv[i + 1] for i, a in enumerate(argv) if a == "-serial"]
        assert serials == ["null", "null", "chardev:console"]
        assert argv[argv.index("-cpu") + 1] == "c"
        assert argv[argv.index("-icount") + 1] == "shift=6"
        assert argv[-4:-2] == ["-x", "-y"]

    def test_time_of_the_host(self):
        assert "-icount" not in self.argv(QemuRow(machine="m"), icount_shift=None)

    def test_reading_ahead_by_a_multiplexer_without_an_escape_character(self):
        argv = self.argv(QemuRow(machine="m"), read_ahead=True)
        assert argv[argv.index("-chardev") + 1] == "socket,id=console,fd=9,mux=on"
        assert int(argv[argv.index("-echr") + 1]) > 0xFF

    def test_a_board_that_is_not_emulated(self):
        with pytest.raises(InputError, match="not emulated"):
            qemu_argv(FakeBoard(qemu=None), Path("x"), console_fd=3, options=QemuOptions())


CONSOLE = "import os, socket, sys, time; s = socket.socket(fileno=int(sys.argv[1]))\n"


class TestMachine:
    @pytest.fixture
    def image(self, tmp_path):
        path = tmp_path / "image.elf"
        path.touch()
        return path

    @pytest.fixture
    def start(self, image, monkeypatch):
        """Starts a Python program in QEMU's place: its argument is the console's file descriptor."""

        def start(code, timeout_s=20.0, elf=image):
            def starter(argv, *, pass_fds, cpus):
                assert argv[0] == "qemu-system-arm"
                assert cpus is None or cpus < os.sched_getaffinity(0) or len(cpus) == 1
                program = [sys.executable, "-c", CONSOLE + code, str(pass_fds[0])]
                return start_process(program, pass_fds=pass_fds)

            monkeypatch.setattr("mlf_sdk.targets.qemu.start_process", starter)
            monkeypatch.setattr("mlf_sdk.targets.unicorn.launch.check_emulator", lambda *_: None)
            monkeypatch.setattr("mlf_sdk.targets.unicorn.launch.uses_unicorn", lambda *_: False)
            return start_qemu(FakeBoard(), elf, timeout_s=timeout_s)

        return start

    def test_console_both_ways(self, start):
        code = "s.sendall(b'boot text\\nready>rest'); s.sendall(s.recv(9).upper()); time.sleep(60)"
        with start(code) as machine:
            assert machine.read_until(b"ready>") == b"boot text\nready>"
            machine.socket.sendall(b"go")
            assert machine.read_until(b"GO") == b"restGO"  # nothing was swallowed
        assert machine.process.exit_code() is not None

    def test_no_such_image(self, start, tmp_path):
        with (
            pytest.raises(InputError, match="no such image"),
            start("", elf=tmp_path / "none.elf"),
        ):
            pass

    def test_its_last_words_are_shown_when_it_ends(self, start):
        with (
            start("s.sendall(b'half a li'); sys.exit('qemu: no such machine')") as machine,
            pytest.raises(TargetError, match=r"ended; .*half a li; .*no such machine") as caught,
        ):
            machine.read_until(b"\n")
        assert caught.value.where == "board fake (QEMU)"

    def test_silence_is_an_error_in_time(self, start):
        with (
            start("time.sleep(60)", timeout_s=0.2) as machine,
            pytest.raises(TargetError, match="did not come in time"),
        ):
            machine.read_until(b"\n")

    def test_a_fault_is_an_error_at_once(self, start):
        code = f"s.sendall({b'working' + LINE!r}); time.sleep(60)"
        with (
            start(code) as machine,
            pytest.raises(TargetError, match=r"the board faulted; .*mlf-fault: busfault"),
        ):
            machine.read_until(b"done")


class TestFault:
    def test_all_fields(self):
        fault = parse_fault(b"\x05\x01frames\0" + LINE + b"\0")
        assert fault is not None
        assert (fault.kind, fault.step, fault.model) == ("busfault", 12, "digits")
        assert fault.registers["bfar"] == 0xF0000000
        assert fault.registers["pc"] == 0x19E
        assert len(fault.registers) == 13
        assert fault.line == LINE.decode().strip()

    def test_nothing_ran(self):
        fault = parse_fault(LINE.replace(b"step=12 model=digits", b"step=-1 model=-"))
        assert fault is not None
        assert (fault.step, fault.model) == (-1, "")

    @pytest.mark.parametrize("size", range(0, len(LINE), 7))
    def test_a_part_of_a_line_is_not_a_fault_yet(self, size):
        assert parse_fault(LINE[:size]) is None

    def test_words_of_the_stack(self):
        line = LINE.replace(b" step=", b" calls=00000004:00000451,fffffff0:000019ab,7:x,123456789:1 step=")
        assert line != LINE
        ((_, fault), (_, bare)) = locate_faults(b"noise" + line + b"more\n" + LINE)
        assert fault.calls == ((4, 0x451), (-16, 0x19AB))
        assert (fault.step, fault.model) == (bare.step, bare.model)
        assert bare.calls == ()

    def test_damage_does_no_harm(self):
        fault = parse_fault(b"mlf-fault: nmi pc=zz lr=\xff sp=123456789 step=9x model=\xc3\xbc\n")
        assert fault is not None
        assert (fault.kind, fault.registers, fault.step) == ("nmi", {}, -1)


@pytest.mark.parametrize(
    ("ticks", "hz", "shift", "count"),
    [(25, 25_000_000, 0, 1000), (0, 25_000_000, 0, 0), (8, 25_000_000, 6, 5), (1, 16_000_000, 0, 63)],
)
def test_instructions(ticks, hz, shift, count):
    assert instructions(ticks, hz, icount_shift=shift) == count


@pytest.mark.parametrize(
    ("hz", "shift"), [(25_000_000, 6), (20_000_000, 6), (32_000_000, 5), (16_000_000, 6)]
)
def test_instructions_are_exact_to_one_when_each_takes_a_tick(hz, shift):
    for count in (*range(1, 300), 1_000_003, 987_654_321):
        ticks = (count << shift) * hz // 1_000_000_000
        assert instructions(ticks, hz, icount_shift=shift) - count in (-1, 0)
