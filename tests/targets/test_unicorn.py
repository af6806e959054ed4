# SPDX-License-Identifier: Apache-2.0
"""Unicorn in the place of QEMU: the same outputs, marks and instructions of the same image."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from archives import Spec, build, write
from cli_helpers import Called, Caller
from mlf_sdk.errors import MissingToolError
from mlf_sdk.targets.baremetal import BaremetalTarget
from mlf_sdk.targets.boards.load import find_board, with_arguments
from mlf_sdk.targets.qemu import QemuOptions, start_qemu
from mlf_sdk.targets.unicorn import launch
from mlf_sdk.targets.unicorn.launch import emulator_title, unicorn_lacks, uses_unicorn
from mlf_sdk.targets.unicorn.windows import Windows
from tflite_models import small_network

LEAVE = '__asm volatile("{}; mov sp, r0; push {{r0}}");'  # a stack that leaves the board's memories
HAS_BOTH = find_spec("unicorn") is not None and shutil.which("qemu-system-arm") is not None


@pytest.fixture
def without_qemu(monkeypatch: pytest.MonkeyPatch) -> None:
    real = launch.find_program
    monkeypatch.setattr(launch, "find_program", lambda name: None if "qemu" in name else real(name))


@pytest.mark.qemu
@pytest.mark.skipif(not HAS_BOTH, reason="needs Unicorn and QEMU")
@pytest.mark.parametrize("board", ["mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps2-an521"])
def test_counts_and_marks_are_those_of_qemu(board, tmp_path, capsys, request):
    network = tmp_path / "net.tflite"
    network.write_bytes(small_network())
    given = ("run", network, "--board", board, "--no-twin", "--json")
    found = []
    for _ in range(2):
        result = Caller(capsys)(*given)
        assert result.code == 0, result.err
        found.append(json.loads(result.out))
        request.getfixturevalue("without_qemu")
    first, second = found
    assert first["verdict"] == second["verdict"] == "PASS"
    for name in ("instructions", "instructions_resolution", "outputs", "build_id"):
        assert first[name] == second[name], name
    assert second["memory"]["arena_high_water_bytes"] == first["memory"]["arena_high_water_bytes"]


@pytest.mark.qemu
@pytest.mark.skipif(not HAS_BOTH, reason="needs Unicorn and QEMU")
def test_a_fault_is_reported_as_on_qemu(tmp_path, capsys, request):
    """A store to an address without memory: registers, status, line, callers."""
    network, project = tmp_path / "net.tflite", tmp_path / "project"
    network.write_bytes(small_network())
    given = ("generate", network, "-o", project, "--board", "mps2-an386", "--asm", "no")
    assert Caller(capsys)(*given).code == 0
    kernels = next(project.glob("model/*/kernels/*.c"))
    head, brace, body = kernels.read_text().rpartition("\nvoid ")[2].partition("{\n")
    text = kernels.read_text()
    kernels.write_text(text.replace(head + brace, head + brace + "  *(volatile int *)0x90000000 = 1;\n"))
    assert body
    found = []
    for _ in range(2):
        result = Caller(capsys)("run", project, "--no-twin")
        assert result.code != 0
        assert "bfar=0x90000000" in result.err
        assert "PRECISERR" in result.err
        found.append(result.err)
        request.getfixturevalue("without_qemu")
    assert found[0] == found[1]


def run_with(code: str, board: str, folder: Path, call: Caller) -> Called:
    """Run a network in whose last layer some code comes first."""
    network, project = folder / "net.tflite", folder / "project"
    network.write_bytes(small_network())
    assert call("generate", network, "-o", project, "--board", board, "--asm", "no").code == 0
    kernels = next(project.glob("model/*/kernels/*.c"))
    text = kernels.read_text()
    head, brace, _ = text.rpartition("\nvoid ")[2].partition("{\n")
    kernels.write_text(text.replace(head + brace, f"{head}{brace}  {code}\n"))
    return call("run", project, "--no-twin")


@pytest.mark.qemu
@pytest.mark.skipif(not HAS_BOTH, reason="needs Unicorn and QEMU")
@pytest.mark.parametrize(
    ("board", "code"),
    [
        ("mps2-an505", "volatile char big[16000]; big[0] = 1; big[15999] = 1;"),  # beyond the limit register
        ("mps2-an386", LEAVE.format("movs r0, #1; lsls r0, r0, #29")),  # below all memories
    ],
)
def test_an_overflow_of_the_stack_is_one(board, code, tmp_path, capsys, without_qemu):
    result = run_with(code, board, tmp_path, Caller(capsys))
    assert result.code != 0
    assert "(softmax_7): stack-overflow" in result.err
    assert "Traceback" not in result.err


@pytest.mark.qemu
@pytest.mark.skipif(not HAS_BOTH, reason="needs Unicorn and QEMU")
def test_a_fault_within_a_fault_is_a_lockup(tmp_path, capsys, without_qemu):
    """The handler finds a stack that it takes for a good one, above all memories."""
    result = run_with(LEAVE.format("movs r0, #0"), "mps2-an386", tmp_path, Caller(capsys))
    assert result.code != 0
    assert "the core locked up: a fault in the handler of a fault" in result.err


@pytest.mark.qemu
@pytest.mark.skipif(not HAS_BOTH, reason="needs Unicorn and QEMU")
@pytest.mark.parametrize("options", [("--for", "ram"), ("--stream",)])
def test_tiles_and_streams_are_counted_as_by_qemu(options, tmp_path, capsys, request):
    network = tmp_path / "net.tflite"
    network.write_bytes(small_network())
    given = ("run", network, "--board", "mps2-an386", "--no-twin", "--json", *options)
    found = []
    for _ in range(2):
        result = Caller(capsys)(*given)
        assert result.code == 0, result.err
        found.append(json.loads(result.out))
        request.getfixturevalue("without_qemu")
    assert [one["emulator"] for one in found] == ["QEMU", "Unicorn"]
    for name in ("instructions", "outputs", "build_id", "memory", "toolchain"):
        assert found[0][name] == found[1][name], name


@pytest.mark.qemu
@pytest.mark.skipif(not HAS_BOTH, reason="needs Unicorn and QEMU")
def test_pushed_parameters_are_kept(tmp_path, capsys, request):
    """What the emulated board wrote into its slot is there at the next start, of either emulator."""
    project = tmp_path / "a,project"
    archive = tmp_path / "net.tar"
    write(build(Spec(kind="graph")), archive)
    call = Caller(capsys)
    given = ("generate", archive, "-o", project, "--board", "mps2-an386", "--executor", "graph")
    assert call(*given).code == 0
    request.getfixturevalue("without_qemu")
    result = call("params", "push", archive, "--project", project)
    assert result.code == 0, result.err
    first = call("params", "show", "--project", project)
    assert "slot 0, generation 1" in first.out
    request.getfixturevalue("monkeypatch").undo()
    assert call("params", "show", "--project", project).out == first.out


@pytest.mark.skipif(find_spec("unicorn") is None, reason="no Unicorn")
def test_it_takes_the_place_of_a_missing_qemu_where_it_has_the_core(without_qemu):
    assert uses_unicorn(find_board("mps2-an386"))
    assert emulator_title(find_board("mps2-an386")) == "Unicorn"
    for name in ("mps3-an547", "microbit", "qemu-virt-rv32", "host"):  # vectors, another UART, another core
        assert not uses_unicorn(find_board(name)), name


class Fake:
    """The programs and packages of a machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, unicorn: bool) -> None:
        spec = find_spec("json") if unicorn else None
        monkeypatch.setattr(launch, "find_spec", lambda _: spec)
        monkeypatch.setattr(launch, "find_program", lambda _: None)
        monkeypatch.setattr(launch, "is_installed", lambda *_: False)


@pytest.mark.parametrize(
    ("board", "why", "package"),
    [
        ("mps3-an547", "does not run the instructions of cortex-m55", "qemu-system-arm"),
        ("microbit", "has no UART 'nrf51'", "qemu-system-arm"),
        ("qemu-virt-rv32", "does not run the instructions of rv32imac", "qemu-system-misc"),
    ],
)
def test_a_board_that_it_can_not_run_names_qemu(board, why, package, monkeypatch):
    Fake(monkeypatch, unicorn=True)
    with pytest.raises(MissingToolError) as caught:
        BaremetalTarget(find_board(board)).check_programs(build=False, start=True)
    assert f"Unicorn {why}. Install it: sudo apt-get install {package}" in caught.value.hint
    assert caught.value.where == f"starting {board}"


def test_without_both_either_is_named(monkeypatch):
    Fake(monkeypatch, unicorn=False)
    target = BaremetalTarget(find_board("mps2-an386"))
    with pytest.raises(MissingToolError) as caught:
        target.check_programs(build=False, start=True)
    assert "apt-get install qemu-system-arm" in caught.value.hint
    assert "pip install 'mlf-sdk[embedded]'" in caught.value.hint
    Fake(monkeypatch, unicorn=True)
    target.check_programs(build=False, start=True)
    assert target.emulator_title == "Unicorn"


@pytest.mark.parametrize("option", ["-gdb", "-semihosting-config", "-S"])
def test_options_that_it_lacks_are_left_to_qemu(option, monkeypatch):
    Fake(monkeypatch, unicorn=True)
    board = find_board("mps2-an386")
    assert uses_unicorn(board)
    assert not uses_unicorn(with_arguments(board, (option, "x")))
    assert option in unicorn_lacks(with_arguments(board, (option, "x")))


def test_it_has_no_server_for_a_debugger(monkeypatch, tmp_path):
    Fake(monkeypatch, unicorn=True)
    elf = tmp_path / "app.elf"
    elf.touch()
    options = QemuOptions(args=("-gdb", "tcp::1", "-S"))
    with (
        pytest.raises(MissingToolError) as caught,
        start_qemu(find_board("mps2-an386"), elf, options),
    ):
        raise AssertionError("it was started")
    assert "Unicorn has no server for a debugger. Install it: sudo apt-get" in caught.value.hint


def test_zephyr_needs_qemu(monkeypatch):
    Fake(monkeypatch, unicorn=True)
    board = find_board("mps2-an386")
    assert not uses_unicorn(msgspec.structs.replace(board, platform="zephyr"))


def test_what_is_on_the_path_comes_first(monkeypatch):
    monkeypatch.setattr(launch, "find_program", lambda name: f"/bin/{name}")
    assert not uses_unicorn(find_board("mps2-an386"))
    assert emulator_title(find_board("mps2-an386")) == "QEMU"


def test_windows_are_written_as_by_the_plugin_of_qemu(tmp_path: Path):
    out = tmp_path / "counts.jsonl"
    windows = Windows(
        f"x.so,out={out},ranges=y,begin=run:0x10,end=run:0x20,end=run:0x30,begin=rows:0x14,end=rows:0x10"
    )
    for address, count in (
        (0x20, 1),
        (0x10, 5),
        (0x14, 7),
        (0x20, 12),
        (0x30, 13),
        (0x10, 20),
        (0x10, 26),
        (0x30, 30),
    ):
        windows.reach(address, count)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(one["window"], one["index"], one.get("total", "given up")) for one in lines] == [
        ("run", 0, 7),
        ("rows", 0, 13),
        ("run", 1, "given up"),
        ("run", 2, 4),
    ]
