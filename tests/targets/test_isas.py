# SPDX-License-Identifier: Apache-2.0
"""Instruction set architectures are data: the rows, and that nothing else names one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mlf_sdk.analysis.elf.raw import machine_name
from mlf_sdk.analysis.machine.registry import faults_of
from mlf_sdk.errors import InputError
from mlf_sdk.resources import data_dir
from mlf_sdk.sweep.proof import emulated_boards
from mlf_sdk.targets.boards.load import load_boards
from mlf_sdk.tools import isas
from mlf_sdk.tools.isas import fallback_isa, isa_of_cpu, isa_of_machine, load_isas

PACKAGE = Path(isas.__file__).parents[1]
ISAS = load_isas()
NAMED = re.compile(
    r"arm-none-eabi|riscv64-unknown|qemu-system-|\bEM_(ARM|RISCV)\b|thumb|cortex-?m|armv[678]|rv32|mcause"
    r"|\b(arm|risc-?v)\b",
    re.IGNORECASE,
)
# What may: readers of machine code, kernels and their choice by core, and by number of lines what is left.
READERS = ("analysis/thumb/", "analysis/riscv/", "compiler/")
LEFT = {
    "judge/cycles.py": 11,  # prices of instructions, which only Thumb code has
    "judge/timings.py": 1,
    "triage/zephyr_dump.py": 1,  # Zephyr's report of a fault on one architecture
    "targets/zephyr/build.py": 1,  # Zephyr's names of compilers
    "targets/zephyr/explain.py": 1,
    "targets/zephyr/tree.py": 1,
    "targets/unicorn/machine.py": 1,  # a machine of one architecture
    "pipeline/sbom.py": 1,  # a compiler's name
    "pipeline/exporttvm.py": 1,  # examples in docstrings from here on
    "cli/archives.py": 2,
    "targets/boards/row.py": 1,
    "targets/chips/row.py": 4,  # a Cortex-M33 may lack the DSP extension
    "pipeline/chipoptions.py": 1,
    "analysis/elf/image.py": 1,
    "analysis/elf/raw.py": 3,  # names of ELF's machines, of all
    "analysis/elf/info.py": 1,
    "analysis/elf/objects.py": 2,
    "analysis/machine/attributes.py": 1,
}


def lines_that_name_one() -> dict[str, int]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        count = sum(bool(NAMED.search(line)) for line in path.read_text().splitlines())
        if count and not name.startswith(READERS):
            found[name] = count
    return found


def test_nothing_else_names_an_architecture():
    assert lines_that_name_one() == LEFT


@pytest.mark.parametrize("isa", ISAS.values(), ids=list(ISAS))
class TestRows:
    def test_its_files_exist(self, isa):
        crt, templates = data_dir("crt"), data_dir("board_templates")
        for name in (*isa.sources, *isa.counters.values(), f"baremetal/{isa.name}/cpu.h"):
            assert (crt / name).is_file(), name
        assert (templates / isa.fragment).is_file()

    def test_its_programs_have_packages(self, isa):
        assert {isa.tools.c, isa.tools.cxx, isa.tools.objcopy, isa.tools.emulator} == set(isa.packages)

    def test_its_files_are_known(self, isa):
        assert isa_of_machine(isa.machine) is isa
        assert machine_name(isa.machine) != f"machine {isa.machine}"
        assert {isa_of_cpu(cpu) for cpu in isa.cpus} == {isa}

    def test_its_code_is_read(self, isa):
        assert faults_of(isa).REGISTER_ROWS[0][0] == "pc"
        assert isa.status_register in [name for row in faults_of(isa).REGISTER_ROWS for name in row]

    def test_a_board_has_it(self, isa):
        assert isa.name in {row.isa for row in load_boards().values()}


def test_one_stands_in_for_boards_that_do_not_tell():
    assert fallback_isa() is ISAS["thumb"]
    assert not fallback_isa().optional
    assert (isa_of_cpu("z80"), isa_of_machine(0)) == (None, None)
    assert isa_of_cpu("cortex-m33+nodsp") is ISAS["thumb"]


def test_flags():
    assert ISAS["thumb"].compiler_flags("cortex-m4", "none", "soft") == (
        "-mcpu=cortex-m4",
        "-mthumb",
        "-mfloat-abi=soft",
    )
    assert ISAS["thumb"].compiler_flags("cortex-m4", "auto", "hard")[-1] == "-mfpu=auto"
    assert "-march=rv32imc" in ISAS["rv32"].compiler_flags("rv32imc", "none", "soft")


def test_a_row_in_the_wrong_file(tmp_path, monkeypatch):
    (tmp_path / "isas").mkdir()
    row = data_dir("board_templates") / "isas" / "thumb.toml"
    (tmp_path / "isas" / "other.toml").write_bytes(row.read_bytes())
    monkeypatch.setattr(isas, "data_dir", lambda _: tmp_path)
    with pytest.raises(InputError, match="another name") as caught:
        load_isas.__wrapped__()
    assert caught.value.where == "isas/other.toml"


def test_boards_of_missing_tools_are_left_out_of_all_emulated_ones(monkeypatch):
    """Only those of an architecture that can be left out: of any other, a missing tool is an error."""
    every = [name for name, row in load_boards().items() if row.qemu is not None]
    monkeypatch.setattr("mlf_sdk.targets.boards.isa.is_installed", lambda *_: True)
    assert list(emulated_boards()) == every
    monkeypatch.setattr("mlf_sdk.targets.boards.isa.is_installed", lambda *_: False)
    riscv = {"hifive1", "qemu-virt-rv32", "qemu-virt-rv32imc", "qemu-virt-rv32-zve32x"}
    assert set(every) - set(emulated_boards()) == riscv
