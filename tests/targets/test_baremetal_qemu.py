# SPDX-License-Identifier: Apache-2.0
"""The platform layer on every emulated board: it boots, talks, counts, computes, and reports faults."""

from __future__ import annotations

import os
import random
import struct
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from emulated import EmulatedBoard, need_board_tools, start_qemu
from mlf_sdk.errors import TargetError
from mlf_sdk.targets.boards import DEFAULT_BOARD
from mlf_sdk.targets.boards.isa import cross_isa
from mlf_sdk.targets.boards.load import load_boards
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.qemu import QemuOptions, instructions
from mlf_sdk.tools.process import ProcessError, run_process
from mlf_sdk.triage.fault_report import parse_fault
from probe_firmware import STRICT, build, compile_flags, platform_sources, render

pytestmark = [pytest.mark.toolchain, pytest.mark.usefixtures("_board_tools")]
needs_qemu = pytest.mark.qemu

RISCV = "qemu-virt-rv32"
ROWS = load_boards()
BOARDS = [name for name, row in ROWS.items() if row.qemu is not None]


@pytest.fixture
def _board_tools(request):
    """Skips where the compiler or the emulator of a test's board is missing."""
    params = getattr(request.node, "callspec", None)
    need_board_tools(params.params.get("name", DEFAULT_BOARD) if params else DEFAULT_BOARD)


SEMIHOSTING = ("-semihosting-config", "enable=on,target=native")
EXACT_SHIFT = 6  # 64 ns an instruction: more than one tick of each board's counter


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    """Builds the probe for a board once."""
    built: dict[str, Path] = {}

    def image(name: str) -> Path:
        if name not in built:
            board = ROWS[name]
            more = [m.name for m in board.memories if m.kind == "ram" and m != board.ram]
            flags = [f'-DPROBE_RAM="{more[0]}"'] if more else []
            built[name] = build(board, tmp_path_factory.mktemp(name), *flags)
        return built[name]

    return image


DROPPING = frozenset({"hifive1"})  # its UART in QEMU 7.2 is never full, and does not wait for its host


def whole(name: str) -> None:
    """Skip where a long output does not arrive whole; the protocol repeats what is lost."""
    if name in DROPPING:
        pytest.skip("QEMU's UART of this machine drops what the host has not taken")


def boot(board: Board, elf: Path, **options: object) -> AbstractContextManager[EmulatedBoard]:
    return start_qemu(board, elf, timeout_s=30, options=QemuOptions(**options))


def ask(machine: EmulatedBoard, command: str, argument: int | None = None) -> int:
    data = command.encode() + (b"" if argument is None else struct.pack("<I", argument))
    machine.socket.sendall(data)
    return int(machine.read_until(b"\n").split(b"=")[1], 16)


@pytest.mark.parametrize("name", BOARDS)
def test_sources_compile_for_size_without_a_warning(name, tmp_path):
    """The probe's build compiles them for speed, where a warning is an error too."""
    board = ROWS[name]
    render(board, tmp_path)
    sources = platform_sources(board)
    semihosting = [source for source in sources if "MLF_SEMIHOSTING" in Path(source).read_text()]
    assert 0 < len(semihosting) < len(sources)
    for value, compiled in (("1", semihosting), ("0", sources)):
        argv = [cross_isa(board).tools.c, "-Os", *compile_flags(board, tmp_path), *STRICT, "-ffreestanding"]
        result = run_process(
            [*argv, f"-DMLF_SEMIHOSTING={value}", "-c", *compiled], cwd=tmp_path, timeout_s=60
        )
        assert result.stderr == ""
    assert (tmp_path / "startup.o").is_file()


@needs_qemu
@pytest.mark.parametrize("name", BOARDS)
class TestOnBoard:
    def test_talks_counts_and_computes(self, name, probe):
        whole(name)
        board = ROWS[name]
        data = random.Random(7).randbytes(4096)
        with boot(board, probe(name)) as machine:
            assert machine.read_until(b"\n") == f"hello from {name}\n".encode()
            assert ask(machine, "m") == 1  # .data, .bss and constants, in the further RAM too
            assert ask(machine, "d") == 3000
            assert ask(machine, "p") == 1
            assert int(machine.read_until(b"\n").split(b"=")[1], 16) == board.stack_bytes
            assert ask(machine, "n") != 0
            machine.socket.sendall(b"e" + struct.pack("<I", len(data)) + data)
            assert machine.read_until(data[-64:])[-len(data) :] == data
            machine.socket.sendall(b"s" + struct.pack("<I", 5000))
            expected = bytes(i * 7 & 255 for i in range(5000))
            assert receive(machine, 5000) == expected

    def test_ticks_are_monotone_over_wraps(self, name, probe):
        # 1024 ns an instruction: some 30 wraps of the 24-bit counter in the loop.
        with boot(ROWS[name], probe(name), icount_shift=10) as machine:
            machine.read_until(b"\n")
            assert ask(machine, "t", 400_000) == 0
            assert ask(machine, "w") == 1

    def test_ticks_tell_instructions(self, name, probe):
        board = ROWS[name]
        assert board.counter is not None
        counts = []
        for shift in (0, EXACT_SHIFT):
            with boot(board, probe(name), icount_shift=shift) as machine:
                machine.read_until(b"\n")
                empty, full = ask(machine, "c", 1), ask(machine, "c", 100_001)
            counts.append(instructions(full - empty, board.counter.hz, icount_shift=shift))
        assert counts[1] == pytest.approx(200_000, abs=1)
        assert counts[0] == pytest.approx(200_000, abs=2e9 / board.counter.hz)

    def test_a_fault_is_reported(self, name, probe):
        whole(name)
        with boot(ROWS[name], probe(name)) as machine:
            machine.read_until(b"\n")
            machine.socket.sendall(b"f")
            block = machine.read_until(b"\n") + receive(machine, 1)
            fault = parse_fault(block)
        assert block.startswith(b"\0mlf-fault: ")
        assert block.endswith(b"\n\0")
        assert fault is not None
        riscv = ROWS[name].isa == ROWS[RISCV].isa
        kind = "illegal-instruction" if riscv else "hardfault" if name == "microbit" else "usagefault"
        assert fault.kind == kind
        assert (fault.step, fault.model) == (-12345, "probe?model")
        nm = run_process(
            [cross_isa(ROWS[name]).tools.objcopy.replace("objcopy", "nm"), str(probe(name))], timeout_s=10
        ).stdout
        main = next(int(line.split()[0], 16) for line in nm.splitlines() if line.endswith(" main"))
        assert main <= fault.registers["pc"] < main + 2000
        ram = ROWS[name].ram
        assert ram.origin < fault.registers["sp"] <= ram.origin + ROWS[name].stack_bytes
        if riscv:
            assert fault.registers["mcause"] == 2
        else:
            assert fault.registers["cfsr"] == (0 if name == "microbit" else 0x10000)  # UNDEFINSTR

    def test_a_stack_overflow_is_reported(self, name, probe):
        whole(name)
        with boot(ROWS[name], probe(name)) as machine:
            machine.read_until(b"\n")
            machine.socket.sendall(b"o")
            fault = parse_fault(machine.read_until(b"\n"))
        assert fault is not None
        assert fault.kind == "stack-overflow"

    def test_a_stopped_board_sleeps(self, name, probe):
        with boot(ROWS[name], probe(name)) as machine:
            machine.read_until(b"\n")
            machine.socket.sendall(b"x" + bytes(4))
            wait_until_asleep(machine)


@needs_qemu
@pytest.mark.parametrize("name", ["mps2-an386", "microbit", RISCV])
class TestRunner:
    def test_semihosting_ends_with_the_status(self, name, tmp_path):
        elf = build(ROWS[name], tmp_path, "-DMLF_SEMIHOSTING=1")
        with boot(ROWS[name], elf, args=SEMIHOSTING) as machine:
            machine.read_until(b"\n")
            machine.socket.sendall(b"x" + struct.pack("<I", 42))
            assert machine.process.wait(10) == 42

    def test_a_late_answer_is_an_error_and_qemu_is_gone(self, name, probe):
        with boot(ROWS[name], probe(name)) as machine:
            pid = machine.process.pid
            machine.read_until(b"\n")
            with pytest.raises(TargetError, match="did not come in time"):
                machine.read_until(b"never", timeout_s=0.3)
            assert Path(f"/proc/{pid}").exists()
        assert not Path(f"/proc/{pid}").exists()

    def test_a_fault_ends_a_wait(self, name, probe):
        with boot(ROWS[name], probe(name)) as machine:
            machine.read_until(b"\n")
            machine.socket.sendall(b"f")
            with pytest.raises(TargetError, match=r"the board faulted; .*mlf-fault: "):
                machine.read_until(b"never")

    def test_the_end_of_qemu_ends_a_wait(self, name, probe):
        with boot(ROWS[name], probe(name), args=("-cpu", "no-such-cpu")) as machine:
            with pytest.raises(TargetError, match=r"the emulator ended; .*no-such-cpu"):
                machine.read_until(b"hello")
            assert machine.process.exit_code() == 1


@needs_qemu
def test_runs_repeat_to_the_instruction(probe):
    board = ROWS["mps2-an386"]
    seen = set()
    for _ in range(3):
        with boot(board, probe(board.name), icount_shift=EXACT_SHIFT) as machine:
            machine.read_until(b"\n")
            seen |= {instructions(ask(machine, "c", 5000), 25_000_000, icount_shift=6) for _ in range(4)}
    assert max(seen) - min(seen) <= 1  # one tick of rounding at each end


@needs_qemu
@pytest.mark.parametrize(("read_ahead", "size"), [(False, 16_000), (True, 40_000)])
def test_large_transfers_lose_nothing(probe, read_ahead, size):
    board = ROWS["mps2-an386"]
    data = os.urandom(size)
    with boot(board, probe(board.name), read_ahead=read_ahead) as machine:
        machine.read_until(b"\n")
        machine.socket.sendall(b"e" + struct.pack("<I", len(data)))
        got = b""
        for at in range(0, len(data), 8000):
            machine.socket.sendall(data[at : at + 8000])
            got += receive(machine, 8000)
    assert got == data


@needs_qemu
@pytest.mark.parametrize("name", BOARDS)
def test_a_receive_buffer_sleeps_while_it_is_empty(name, tmp_path):
    data = os.urandom(200)
    with boot(ROWS[name], build(ROWS[name], tmp_path, "-DMLF_UART_RX_BYTES=256")) as machine:
        machine.read_until(b"\n")
        for _ in range(3):
            wait_until_asleep(machine)
            machine.socket.sendall(b"e" + struct.pack("<I", len(data)) + data)
            assert receive(machine, len(data)) == data


HANDLERS = Path(__file__).parents[1] / "support" / "firmware" / "handlers.c"


@needs_qemu
@pytest.mark.parametrize(
    ("name", "handler", "irq"),
    [
        ("microbit", "TIMER0_IRQHandler", 8),
        ("mps2-an386", "TIMER0_Handler", 8),
        ("mps2-an386", "IRQ24_Handler", 24),  # the row has no name for it
        ("mps2-an505", "TIMER0_Handler", 3),
        ("mps3-an547", "IRQ5_Handler", 5),
    ],
)
def test_an_application_adds_interrupt_handlers(name, handler, irq, tmp_path):
    flags = [f"-DHANDLER={handler}", f"-DIRQ={irq}u"]
    elf = build(ROWS[name], tmp_path, *flags, sources=(HANDLERS,))
    with boot(ROWS[name], elf) as machine:

        def after(command: bytes) -> bytes:
            machine.socket.sendall(command)
            return machine.read_until(b"\n")[:5]

        assert after(b"s") == b"1 0 1"
        assert after(b"i") == b"1 1 0"
        assert after(b"i") == b"1 2 0"
        assert after(b"s") == b"2 2 1"
        machine.socket.sendall(b"u")
        fault = parse_fault(machine.read_until(b"\n"))
    assert fault is not None
    assert fault.kind == "unexpected-exception"


@needs_qemu
@pytest.mark.parametrize("name", [RISCV, RISCV + "imc"])
def test_an_application_adds_a_handler_of_the_core(name, tmp_path):
    elf = build(ROWS[name], tmp_path, sources=(HANDLERS.with_name("handlers_rv32.c"),))
    with boot(ROWS[name], elf) as machine:
        assert machine.read_until(b"\n") == b"0\n"
        for count in (b"1\n", b"2\n"):
            machine.socket.sendall(b"s")
            assert machine.read_until(b"\n") == count
        machine.socket.sendall(b"u")
        fault = parse_fault(machine.read_until(b"model=-\n"))
    assert fault is not None
    assert (fault.kind, fault.registers["mcause"]) == ("unexpected-exception", 0x80000007)


@needs_qemu
@pytest.mark.parametrize(("name", "caches"), [("mps2-an500", 0), ("mps2-an500", 1), ("mps3-an547", 1)])
def test_caches_are_switched_on_by_choice(name, caches, tmp_path):
    """QEMU has no caches and does not keep the bits: the code is there, and the machine boots with it."""
    flags = [f"-DMLF_CACHES={caches}", "-DHANDLER=PORT0_COMB_Handler", "-DIRQ=6u"]
    if name == "mps3-an547":
        flags[1:] = ["-DHANDLER=IRQ5_Handler", "-DIRQ=5u"]
    elf = build(ROWS[name], tmp_path, *flags, sources=(HANDLERS,))
    code = run_process(
        ["arm-none-eabi-objdump", "-d", str(elf), "--disassemble=mlf_cpu_enable_caches"], timeout_s=10
    ).stdout
    for bit in (16, 17):  # CCR.DC and CCR.IC
        assert (f"#{1 << bit}" in code) == bool(caches)
    with boot(ROWS[name], elf) as machine:
        machine.socket.sendall(b"s")
        assert machine.read_until(b"\n") == b"1 0 1\n"


def receive(machine: EmulatedBoard, size: int) -> bytes:
    machine.socket.settimeout(10)
    data = b""
    while len(data) < size:
        part = machine.socket.recv(size - len(data))
        assert part
        data += part
    return data


def wait_until_asleep(machine: EmulatedBoard) -> None:
    deadline = time.monotonic() + 60
    while not all(all_threads_sleep(machine.process.pid) for _ in range(20)):
        assert time.monotonic() < deadline, "the emulator never waits"


def all_threads_sleep(pid: int) -> bool:
    """None of the process's threads runs or wants to run, shortly after it was asked."""
    time.sleep(0.005)
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return bool(stats) and all(text.rpartition(")")[2].split()[0] == "S" for text in stats)


def test_an_image_that_does_not_fit_is_refused_by_the_linker(tmp_path):
    source = tmp_path / "big.c"
    source.write_text(
        '__attribute__((section(".mlf.arena.big"))) unsigned char big[15000];\n'
        "int main(void);\nint main(void) { return big[14999]; }\n"
    )
    with pytest.raises(ProcessError, match=r"region `ram' overflowed by \d+ bytes"):
        build(ROWS["microbit"], tmp_path, sources=(source,))


def test_a_heap_is_a_link_error(tmp_path):
    source = tmp_path / "heap.c"
    source.write_text(
        "#include <stdlib.h>\nint main(void);\nvoid *volatile p;\n"
        "int main(void) { p = malloc(8); return 0; }\n"
    )
    with pytest.raises(ProcessError, match="undefined reference to `_sbrk'"):
        build(ROWS["mps2-an386"], tmp_path, sources=(source,))
