# SPDX-License-Identifier: Apache-2.0
"""Toolchains are data: flags of each for each CPU, and images of the same sources that give the same outputs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from cli_helpers import Caller
from emulated import need_board
from mlf_sdk.compiler.cores import core_of
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.request import TOOLCHAINS
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.isa import board_toolchain, isa_of, lacks_tools
from mlf_sdk.targets.boards.load import find_board, load_boards
from mlf_sdk.targets.compilers import native_compiler, native_toolchain
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.tools import programs, toolchains
from mlf_sdk.tools.isas import load_isas
from mlf_sdk.tools.programs import find_program, is_installed
from mlf_sdk.tools.toolchains import GCC, choose_toolchain, load_toolchains, toolchain_for
from tflite_models import small_network

BOARDS = {name: row for name, row in load_boards().items() if row.platform == "baremetal"}
ISAS = load_isas()
DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def needs(toolchain: str, board: str = "mps2-an386") -> None:
    """Skip a test whose programs are not installed."""
    row = find_board(board)
    found = board_toolchain(row, toolchain)
    wanted = [found.programs, *((name,) for name in found.needed)]
    missing = [names[0] for names in wanted if not any(is_installed(name, None, None) for name in names)]
    if missing or lacks_tools(row):
        pytest.skip(f"not installed: {missing or 'tools of ' + row.title}")


class TestRows:
    def test_the_option_names_them_all(self):
        assert {GCC, *load_toolchains()} == set(TOOLCHAINS)

    @pytest.mark.parametrize("row", load_toolchains().values(), ids=list(load_toolchains()))
    def test_they_know_all_that_architectures_have(self, row):
        assert set(row.isas) == set(ISAS)
        for name, known in row.isas.items():
            if known.cpus:
                assert set(known.cpus) == set(ISAS[name].cpus)
            for cpu, fpus in known.fpus.items():
                assert set(fpus) == set(ISAS[name].cpus[cpu].fpus)

    def test_flags(self):
        thumb = ISAS["thumb"]
        zig = toolchain_for("zig", thumb, cpu="cortex-m33", fpu="fpv5-sp-d16", float_abi="hard", dsp=True)
        assert zig.flags[:3] == (
            "-target",
            "thumb-freestanding-eabihf",
            "-mcpu=cortex_m33+dsp+fp_armv8d16sp",
        )
        plain = toolchain_for("zig", thumb, cpu="cortex-m33+nodsp", fpu="none", float_abi="soft", dsp=True)
        assert plain.flags[:3] == ("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m33")
        clang = toolchain_for("clang", thumb, cpu="cortex-m55", fpu="auto", float_abi="hard", dsp=True)
        assert not any("mfpu" in flag for flag in clang.flags)
        assert clang.linker[0] == thumb.tools.c
        gcc = toolchain_for("gcc", thumb, cpu="cortex-m4", fpu="auto", float_abi="hard")
        assert gcc.flags == thumb.compiler_flags("cortex-m4", "auto", "hard")

    @pytest.mark.parametrize(
        ("name", "cpu", "fpu", "says"),
        [
            ("zig", "cortex-m99", "none", "does not know the CPU cortex-m99"),
            ("zig", "cortex-m4", "fpv9", "with the FPU 'fpv9'"),
            ("tcc", "cortex-m4", "none", "no toolchain 'tcc'"),
        ],
    )
    def test_what_they_do_not_know(self, name, cpu, fpu, says):
        with pytest.raises(InputError, match=says):
            toolchain_for(name, ISAS["thumb"], cpu=cpu, fpu=fpu, float_abi="soft")


class TestChoice:
    @pytest.mark.parametrize(
        ("installed", "wanted", "chosen"),
        [
            ({"arm-none-eabi-gcc", "zig"}, None, "gcc"),
            ({"zig"}, None, "zig"),
            ({"python-zig"}, None, "zig"),
            (set(), None, "gcc"),
            ({"zig"}, "clang", "clang"),
        ],
    )
    def test_the_first_that_is_installed(self, installed, wanted, chosen):
        def which(name: str) -> str | None:
            return name if name in installed else None

        assert choose_toolchain(ISAS["thumb"], wanted, which) == chosen

    def test_of_this_machine(self):
        assert native_toolchain(None, lambda name: name if name in ("cc", "zig") else None) == "gcc"
        assert native_toolchain(None, lambda name: name if name == "zig" else None) == "zig"
        assert native_compiler("gcc") == ()
        assert native_compiler("zig", lambda name: name if name == "python-zig" else None) == (
            "python-zig",
            "cc",
            "-mcpu=baseline",  # Clang 22.1.8 vectorises some kernels wrongly for CPUs with AVX-512
        )

    def test_programs_of_packages_come_behind_those_of_the_path(self, tmp_path, monkeypatch):
        first, package = tmp_path / "first", tmp_path / "package"
        for folder in (first, package):
            folder.mkdir()
            for name in ("tool", "only" if folder == package else "other"):
                program = folder / name
                program.write_text("#!/bin/sh\necho $0\n")
                program.chmod(0o755)
        monkeypatch.setattr(programs, "package_folders", lambda: (str(package),))
        monkeypatch.setenv("PATH", str(first))
        assert find_program("tool") == str(first / "tool")
        assert find_program("only") == str(package / "only")
        assert is_installed("only", None, {"PATH": str(first)})
        assert not is_installed("nothing", None, None)

    def test_a_project_keeps_its_own(self):
        assert resolve_target(TargetChoice(toolchain="zig")).toolchain == "zig"
        assert resolve_target(TargetChoice(toolchain="zig", port="socket://h:1")).toolchain == "zig"
        emulated = resolve_target(TargetChoice(toolchain="clang")).with_emulator([])
        assert emulated.toolchain == "clang"


def macros(argv: tuple[str, ...]) -> dict[str, str]:
    text = subprocess.run(
        [find_program(argv[0]) or argv[0], *argv[1:], "-dM", "-E", "-x", "c", "/dev/null"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return dict(line.split(maxsplit=2)[1:] for line in text.splitlines() if len(line.split()) > 2)


@pytest.mark.toolchain
@pytest.mark.parametrize("toolchain", ["clang", "zig"])
@pytest.mark.parametrize("board", BOARDS)
def test_the_core_has_its_instructions(toolchain: str, board: str) -> None:
    """All that its row promises, and that GNU's compiler says of FPU, vectors and unaligned words."""
    needs(toolchain, board)
    needs("gcc", board)
    row = BOARDS[board]
    found, own = (macros(board_toolchain(row, name).argv()) for name in (toolchain, "gcc"))
    core = core_of(row.cpu, dsp=row.dsp)
    assert set(core.macros) & set(own) <= set(found)
    same = ("__ARM_FEATURE_DSP", "__ARM_FEATURE_MVE", "__ARM_FEATURE_FMA", "__ARM_FEATURE_UNALIGNED")
    assert {name: name in found for name in same} == {name: name in own for name in same}
    assert found.get("__ARM_FEATURE_MVE") == own.get("__ARM_FEATURE_MVE")
    half = 2  # conversions of half floats, of which they disagree and no code here makes use
    assert int(found.get("__ARM_FP", "0"), 0) & ~half == int(own.get("__ARM_FP", "0"), 0) & ~half
    assert ("__riscv_atomic" in found) == ("__riscv_atomic" in own)


@pytest.mark.toolchain
@pytest.mark.parametrize("toolchain", ["clang", "zig"])
@pytest.mark.parametrize("board", ["mps2-an385", "mps3-an547", "qemu-virt-rv32"])
def test_words_are_copied_as_words(toolchain: str, board: str, tmp_path: Path) -> None:
    """Kernels read words of bytes by memcpy: as a function it would take most of their time."""
    needs(toolchain, board)
    source = tmp_path / "word.c"
    source.write_text(
        "#include <stdint.h>\n#include <string.h>\n"
        "int32_t word(const int32_t *from) { int32_t to; memcpy(&to, from, 4); return to; }\n"
    )
    argv = board_toolchain(BOARDS[board], toolchain).argv()
    headers = data_dir("crt") / "libc" / "include"
    compiler = [find_program(argv[0]) or argv[0], *argv[1:], "-O2", f"-I{headers}", "-c"]
    subprocess.run([*compiler, source, "-o", tmp_path / "word.o"], check=True)
    assert b"memcpy" not in (tmp_path / "word.o").read_bytes()


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(small_network())
    return path


@pytest.mark.toolchain
def test_instructions_that_a_toolchain_leaves_out(network, tmp_path, capsys, monkeypatch):
    """Names of cores that stand for fewer instructions than the core has: plain C would take their place unseen."""
    needs("zig")
    row = load_toolchains()["zig"]
    known = msgspec.structs.replace(row.isas["thumb"], dsp={})
    poor = msgspec.structs.replace(row, isas={**row.isas, "thumb": known})
    given = ("generate", network, "--board", "mps2-an505", "--toolchain", "zig", "-o")
    assert Caller(capsys)(*given, tmp_path / "whole").code == 0
    monkeypatch.setattr(toolchains, "load_toolchains", lambda: {**load_toolchains(), "zig": poor})
    result = Caller(capsys)(*given, tmp_path / "poor")
    assert result.code != 0
    assert "makes no DSP instructions for the cortex-m33" in " ".join(result.err.split())


@pytest.mark.toolchain
def test_instructions_that_flags_leave_out(network, tmp_path, capsys):
    """Kernels of plain C, as the refusal proposes, are generated with the same flags."""
    needs("gcc")
    given = ("generate", network, "--board", "mps2-an386", "--cflags=-O2 -U__ARM_FEATURE_DSP", "-o")
    result = Caller(capsys)(*given, tmp_path / "inline")
    assert result.code != 0
    assert "makes no DSP instructions for the cortex-m4" in " ".join(result.err.split())
    assert Caller(capsys)(*given, tmp_path / "plain", "--asm", "no").code == 0


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("toolchain", "board"),
    [
        ("clang", "mps2-an386"),
        ("clang", "mps3-an547"),
        ("clang", "qemu-virt-rv32"),
        ("zig", "mps2-an385"),
        ("zig", "mps2-an505"),
        ("zig", "mps3-an547"),
        ("zig", "microbit"),
        ("zig", "qemu-virt-rv32-zve32x"),
    ],
)
def test_kernels_are_exact(toolchain, board, network, capsys):
    needs(toolchain, board)
    need_board(board)
    result = Caller(capsys)(
        "run", network, "--board", board, "--toolchain", toolchain, "--no-twin", "--strict"
    )
    assert result.code == 0, result.out + result.err
    assert "PASS" in result.out


@pytest.mark.qemu
def test_an_archive_with_functions_that_the_compiler_lacks(capsys):
    """Its softmax and tanh are of the runtime's library; the standalone application starts without a server."""
    needs("zig")
    archive, cases = DIGITS / "digits-graph-tvm0.11.1.tar", DIGITS / "test.npz"
    given = ("--toolchain", "zig", "--inputs", cases, "--expect", cases, "--no-twin")
    result = Caller(capsys)("run", archive, *given)
    assert result.code == 0, result.out + result.err
    assert "accuracy 0.9667" in result.out


@pytest.mark.toolchain
def test_programs_of_this_machine(network, capsys):
    needs("zig")
    result = Caller(capsys)("run", network, "--board", "host", "--toolchain", "zig")
    assert result.code == 0, result.out + result.err


@pytest.mark.toolchain
def test_a_project_of_zig_builds_and_checks(network, tmp_path, capsys):
    """With applications of its own: the linker script's part of the user is in the image."""
    needs("zig")
    project = tmp_path / "with space"
    call = Caller(capsys)
    for app in ("standalone", "mlperf"):
        folder = project / app
        more = ("--id", "own") if app == "mlperf" else ()
        given = ("--board", "mps2-an386", "--toolchain", "zig", "--app", app, *more)
        assert call("generate", network, "-o", folder, *given).code == 0
        (folder / "app.ld").write_text('PROVIDE(own_symbol = 0x1234);\nASSERT(own_symbol == 0x1234, "own")\n')
        built = call("build", folder)
        assert built.code == 0, built.out + built.err
        assert call("check", folder).code == 0
        assert "--toolchain" in call("build", folder, "--toolchain", "gcc").err


def test_zephyr_has_toolchains_of_its_own(capsys, network, monkeypatch):
    from mlf_sdk.pipeline import stages

    target = resolve_target(TargetChoice(board="mps2-an386"))
    monkeypatch.setattr(type(target), "toolchain", property(lambda _: ""))
    monkeypatch.setattr(stages, "resolve_target", lambda _: target)
    result = Caller(capsys)(
        "generate", network, "-o", "nowhere", "--board", "mps2-an386", "--toolchain", "zig"
    )
    assert "chooses the toolchain itself" in " ".join(result.err.split())


def test_boards_keep_their_default():
    """A default of options that are made by hand is the architecture's own toolchain."""
    for row in BOARDS.values():
        isa = isa_of(row)
        assert isa is not None
        assert board_toolchain(row, GCC).argv()[0] == isa.tools.c
        assert board_toolchain(row, GCC).is_gnu
