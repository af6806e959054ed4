# SPDX-License-Identifier: Apache-2.0
"""Real faults in a kernel on emulated boards: each is told with its kind, step, file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

import mlf_sdk
from archives import write
from emulated import need_board_tools, start_qemu
from injected import FILE, KERNEL, STEP, choosing, faulty, line_of
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.triage import FaultWatch, find_firmware, triage_log
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.tools.process import run_process
from mlf_sdk.triage.explain import CallFrame, Triage
from mlf_sdk.triage.fault_report import parse_fault
from mlf_sdk.triage.sanitizer import add_sanitizer_report
from mlf_sdk.wire.codes import DeviceError, DeviceFaultError

pytestmark = [pytest.mark.toolchain, pytest.mark.qemu]

RISCV = "qemu-virt-rv32"
# One of each handler and way to report an overflow: Armv6-M, Armv7-M, Armv8-M with a stack limit, RISC-V.
BOARDS = ("microbit", "mps2-an386", "mps3-an547", RISCV)
NO_FPU = ("microbit", "mps2-an385")
TRAPS = {
    "bad-pointer": ("store-access-fault", "access to 0xf0000000, where there is no memory: invalid pointer"),
    "null-call": ("instruction-access-fault", "jump to 0x00000000, which is not code: null function pointer"),
    "undefined": ("illegal-instruction", "undefined instruction"),
}
STATUS = {
    "bad-pointer": ("busfault", "PRECISERR"),
    "null-call": ("usagefault", "INVSTATE"),
    "undefined": ("usagefault", "UNDEFINSTR"),
    "float": ("usagefault", "NOCP"),
    "unaligned": ("usagefault", "UNALIGNED"),
}
SAYS = {
    "bad-pointer": ("invalid pointer",),
    "null-call": ("jump to 0x00000000", "null function pointer"),
    "undefined": ("(udf #0)", "another CPU"),
    "float": ("(vadd.f32 s0, s0, s1)", "another CPU"),
    "unaligned": ("unaligned",),
}
# A CPU with the instruction, or that reads unaligned words, has no such fault.
CASES = [
    (case, board)
    for case in STATUS
    for board in (NO_FPU if case == "float" else BOARDS)
    if board != RISCV or case in TRAPS
]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(faulty(), tmp_path_factory.mktemp("faulty") / "bad.tar")


def fault_of(case: str, board: str, archive: Path) -> DeviceFaultError:
    with pytest.raises(DeviceFaultError) as caught:
        mlf_sdk.run(archive, board=board, inputs=choosing(case), twin=False, timeout_s=60)
    assert caught.value.exit_code == 4
    found = caught.value.found
    assert (found.fault.step, found.step_name, found.fault.model) == (STEP, KERNEL, "tiny")
    assert f"in step {STEP} ({KERNEL})" in str(caught.value)
    return caught.value


def places(found: Triage) -> list[tuple[str, int]]:
    return [(Path(frame.path).name, frame.line) for frame in found.frames]


def functions(frames: tuple[CallFrame, ...]) -> list[str]:
    return [frame.function.split("+")[0] for frame in frames]


@pytest.fixture(autouse=True)
def _board_tools(request: pytest.FixtureRequest) -> None:
    """Skips where the compiler or the emulator of a test's board is missing."""
    callspec = getattr(request.node, "callspec", None)
    board = callspec.params.get("board") if callspec is not None else None
    if board is not None:
        need_board_tools(board)


@pytest.mark.usefixtures("needs_qemu")
@pytest.mark.parametrize(("case", "board"), CASES)
def test_a_fault_is_told_with_its_line(case: str, board: str, archive: Path) -> None:
    error = fault_of(case, board, archive)
    found = error.found
    assert places(found)[0] == (FILE, line_of(case))
    assert functions(found.frames)[0] == KERNEL
    assert f"here: {case}" in found.frames[0].text
    # A kernel may be called through an adapter of the project; then comes the runtime, up to main.
    assert functions(found.frames)[-1] == "main"
    assert "mlf_run" in functions(found.frames)[1:3]
    assert all(frame.certain for frame in found.frames)
    if board == RISCV:
        kind, said = TRAPS[case]
        assert found.fault.kind == kind
        assert said in found.cause
        assert len(found.status) == 1 and found.status[0].startswith("mcause: ")
        return
    for text in SAYS[case]:
        assert text in found.cause
    kind, bit = STATUS[case]
    if board == "microbit":
        assert (found.fault.kind, found.status) == ("hardfault", ())
        assert "Armv6-M (Cortex-M0, M0+) has no such registers" in str(error)
    else:
        assert found.fault.kind == kind
        assert any(words.startswith(f"{bit}: ") for words in found.status)
    if case == "bad-pointer":
        assert f"0x{0x0F000000 if board == 'microbit' else 0xF0000000:08x}" in found.cause


@pytest.mark.usefixtures("needs_qemu")
@pytest.mark.parametrize("board", [*BOARDS, "mps2-an505"])
def test_a_recursion_that_uses_the_stack_up(board: str, archive: Path) -> None:
    """Where the CPU saves no registers then, the deepest call that the stack still tells."""
    found = fault_of("recursion", board, archive).found
    assert found.fault.kind == "stack-overflow"
    assert functions(found.frames)[:3] == ["deep", "deep", KERNEL]
    assert places(found)[1] == (FILE, line_of("recursion"))
    assert found.frames[1].repeats > 1
    assert "stack overflow" in found.cause


@pytest.mark.usefixtures("needs_qemu")
@pytest.mark.parametrize("board", BOARDS)
def test_a_local_array_that_is_larger_than_the_stack(board: str, archive: Path) -> None:
    found = fault_of("large-array", board, archive).found
    assert found.fault.kind == "stack-overflow"
    told = list(zip(functions(found.frames), places(found), strict=True))
    if board == RISCV:  # nothing is stacked for a call: the first access faults, in what is called
        assert told.pop(0)[0] == "touch"
        assert told[0][0] == "large"
    else:
        assert told[0] == ("large", (FILE, line_of("large-array")))
    assert told[1][0] == KERNEL


@pytest.mark.usefixtures("needs_qemu")
@pytest.mark.parametrize("board", BOARDS)
def test_a_frame_of_which_only_the_top_word_is_written(board: str, archive: Path) -> None:
    """The paint below it is whole, but the next call can't push its registers."""
    found = fault_of("top-word", board, archive).found
    assert found.fault.kind == "stack-overflow"
    assert {"top", "through"} & set(functions(found.frames)[:2]) and KERNEL in functions(found.frames)


@pytest.mark.usefixtures("needs_qemu")
@pytest.mark.parametrize("board", BOARDS)
def test_such_a_frame_that_calls_nothing(board: str, archive: Path) -> None:
    """MSPLIM sees it at once. Elsewhere nothing below the stack is touched: there the bound says it."""
    if board == "mps3-an547":
        found = fault_of("top-word-leaf", board, archive).found
        assert found.fault.kind == "stack-overflow" and functions(found.frames)[:2] == ["leaf", KERNEL]
        return
    report = mlf_sdk.run(archive, board=board, inputs=choosing("top-word-leaf"), twin=False)
    row = next(row for row in report.check.rows if row.item == "stack")
    assert row.state != "proven" and row.measured is not None and row.image is not None
    assert row.measured < row.image < 12_000  # the mark alone would have let it pass


@pytest.mark.usefixtures("needs_qemu")
@pytest.mark.parametrize("board", ["microbit", "mps2-an386"])
def test_no_fault_where_there_is_none(board: str, archive: Path) -> None:
    assert mlf_sdk.run(archive, board=board, inputs=choosing("none"), twin=False).outputs


@pytest.mark.usefixtures("needs_qemu")
def test_a_kernel_that_returns_an_error(archive: Path) -> None:
    with pytest.raises(DeviceError, match=KERNEL) as caught:
        mlf_sdk.run(archive, board="mps2-an385", inputs=choosing("error"), twin=False)
    assert (caught.value.step, caught.value.exit_code) == (STEP, 4)


FAULT_IN_MAIN = """\
#include <mlf/mlf_platform.h>

#include "tiny.h"

void mlf_fault_context(mlf_fault_context_t *out_context) {
  out_context->model = tiny_model.name;
  out_context->step = mlf_running_step(&tiny_model);
}

int main(void) {
  mlf_uart_init();
  for (uint32_t i = 0; i < tiny_model.num_inputs; i++) {
    uint8_t *const data = tiny_model.inputs[i].data;
    for (uint32_t at = 0; at < tiny_model.inputs[i].size_bytes; at++) {
      data[at] = 0;
    }
  }
  if (tiny_run() == MLF_OK) {
    __asm volatile("udf #0");
  }
  mlf_platform_exit(0);
}
"""


@pytest.mark.usefixtures("needs_qemu")
@pytest.mark.parametrize("board", ["microbit", "mps2-an386"])
def test_a_fault_after_a_run_is_not_that_of_the_last_step(board: str, archive: Path, tmp_path: Path) -> None:
    mlf_sdk.generate(archive, tmp_path / "app", board=board, app="standalone")
    (tmp_path / "app" / "src" / "main.c").write_text(FAULT_IN_MAIN)
    built = mlf_sdk.build(tmp_path / "app")
    with start_qemu(find_board(board), built.elf, timeout_s=30) as machine:
        fault = parse_fault(machine.read_until(b"\n"))
    assert fault is not None
    assert (fault.step, fault.model) == (-1, "tiny")


@pytest.mark.usefixtures("needs_host")
@pytest.mark.parametrize("case", ["bad-pointer", "recursion", "null-call"])
def test_a_crash_on_the_host(case: str, archive: Path) -> None:
    found = fault_of(case, "host", archive).found
    assert found.fault.kind == "sanitizer"
    assert "AddressSanitizer" in found.cause
    if case == "bad-pointer":
        assert places(found)[0] == (FILE, line_of(case))
        assert functions(found.frames)[0] == KERNEL
    elif case == "recursion":
        assert (places(found)[0][0], functions(found.frames)[0]) == (FILE, "deep")
        assert "stack-overflow" in found.cause
        assert max(frame.repeats for frame in found.frames) > 100


REPORT = """\
==7==ERROR: AddressSanitizer: stack-overflow on address 0x7ffc1 (pc 0x7f1 bp 0x7f2 sp 0x7f3 T0)
    #0 0x7f1 in __sanitizer::DTLS_on_tls_get_addr(void*, void*, unsigned long) ../../src/libsanitizer/tls.cpp:114
    #1 0x7f2 in __tls_get_addr ../../src/libsanitizer/common_interceptors.inc:5426
    #2 0x7f3 in __asan_stack_malloc_0 (/lib/libasan.so.8+0x4771c) (BuildId: 01)
    #3 0x564 in deep ./model/my (new) kernels/lib0.c:7:12
    #4 0x565 in deep ./model/my (new) kernels/lib0.c:7:12
    #5 0x566 in run(Model const&) model/run.cpp:9
    #6 0x567  (/lib/libc.so.6+0x2724a)
    #7 0x568 in main src/main.c:3

0x7ffc1 is located
    #0 0x571 in malloc ../../src/libsanitizer/asan_malloc_linux.cpp:69
SUMMARY: AddressSanitizer: stack-overflow ../../src/libsanitizer/tls.cpp:114 in DTLS_on_tls_get_addr
"""


@pytest.mark.usefixtures("needs_host")
def test_a_recursion_that_ends_inside_the_sanitizer(archive: Path, tmp_path: Path) -> None:
    """Where its code used the last of the stack, or read the bad address, the frames below tell who called it."""
    unexplained = fault_of("bad-pointer", "host", archive).found
    found = add_sanitizer_report(unexplained, REPORT, tmp_path)
    told = [(frame.function, frame.path, frame.line, frame.repeats) for frame in found.frames]
    assert told == [
        ("deep", "model/my (new) kernels/lib0.c", 7, 2),
        ("run(Model const&)", "model/run.cpp", 9, 1),
        ("main", "src/main.c", 3, 1),
    ]


@pytest.mark.usefixtures("needs_host")
@pytest.mark.parametrize(("case", "kind"), [("bad-pointer", "sigsegv"), ("recursion", "sigsegv")])
def test_a_crash_on_the_host_without_sanitizers(case: str, kind: str, archive: Path, tmp_path: Path) -> None:
    mlf_sdk.generate(archive, tmp_path / "app", board="host")
    run_process(["cmake", "--preset", "default", "-DMLF_SANITIZE=OFF"], cwd=tmp_path / "app", timeout_s=60)
    with pytest.raises(DeviceFaultError) as caught:
        mlf_sdk.run(tmp_path / "app", inputs=choosing(case), timeout_s=60)
    assert (caught.value.fault.kind, caught.value.fault.step) == (kind, STEP)
    assert caught.value.found.cause


@pytest.mark.usefixtures("needs_qemu")
def test_a_saved_log_is_explained(archive: Path, tmp_path: Path) -> None:
    """What a customer pastes: the line alone, with the image or the folder of the project."""
    mlf_sdk.generate(archive, tmp_path / "app", board="mps2-an386")
    built = mlf_sdk.build(tmp_path / "app")
    with pytest.raises(DeviceFaultError) as caught:
        mlf_sdk.run(tmp_path / "app", inputs=choosing("bad-pointer"), timeout_s=60)
    line = caught.value.fault.line.encode()
    log = b"booting\r\n\0" + line + b"\r\n\0 and " + line
    for image in (built.elf, tmp_path / "app"):
        explained = triage_log(log, find_firmware(image))
        assert len(explained) == 2
        assert explained[0] == explained[1] == caught.value.found
    watch = FaultWatch(find_firmware(built.elf))
    said = "".join(watch.feed(log.decode()[at : at + 7]) for at in range(0, len(log), 7))
    assert said.count(f"{FILE}:{line_of('bad-pointer')}") == 1  # the second line has no end yet
    (alone, _) = triage_log(log, None)
    assert alone.frames == ()
    assert alone.cause == caught.value.found.cause


def test_a_log_without_a_fault(tmp_path: Path, archive: Path) -> None:
    with pytest.raises(InputError, match="no report of a fault"):
        triage_log(b"all is well\n", None)
    with pytest.raises(InputError, match="no such image"):
        find_firmware(tmp_path / "none.elf")
    with pytest.raises(InputError, match="not an ELF file"):
        find_firmware(archive)
