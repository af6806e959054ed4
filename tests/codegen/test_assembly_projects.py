# SPDX-License-Identifier: Apache-2.0
"""Sources of assembly in everything that is generated: archives, projects, libraries, modules, bundles."""

from __future__ import annotations

import dataclasses
import subprocess
import tarfile
from pathlib import Path

import pytest

import mlf_sdk
from archives import Spec, write
from archives import build as tiny_archive
from mlf_sdk import frontends
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.errors import NotPossibleError
from mlf_sdk.ir.model import Model, UnitKind
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from tflite_models import small_network

BOARD = "mps2-an386"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "small.tflite").write_bytes(small_network())
    return tmp_path / "small.tflite"


def assembly_of(found: Model) -> tuple[str, ...]:
    """Symbols of the only source of assembly."""
    (unit,) = (unit for unit in found.units if unit.kind is UnitKind.ASSEMBLY)
    assert unit.linked and unit.clean
    return unit.symbols


def test_an_archive_carries_it_and_is_read_back(model: Path, tmp_path: Path) -> None:
    archive = tmp_path / "small.tar"
    mlf_sdk.compile(model, archive, board=BOARD, asm="file")
    with tarfile.open(archive) as tar:
        names = [name for name in tar.getnames() if name.endswith(".S")]
    assert [name.removeprefix("./") for name in names] == ["codegen/host/src/small_lib0_asm.S"]
    (direct,) = Pipeline().models(Request(source=(str(model),), board=BOARD, asm="file"))
    read = frontends.load(archive)
    assert dataclasses.replace(read, provenance=direct.provenance) == direct
    assert len(assembly_of(read)) > 2 and read.provenance.options["asm"] == "file"
    mlf_sdk.convert(archive, tmp_path / "again.tar", to="mlf")
    assert assembly_of(frontends.load(tmp_path / "again.tar")) == assembly_of(read)


@pytest.mark.qemu
@pytest.mark.parametrize("board", ["microbit", "mps2-an385", "mps2-an386", "mps3-an547"])
def test_a_board_runs_it_in_as_many_instructions_on_as_much_stack(
    model: Path, board: str, needs_qemu: None
) -> None:
    """Outputs, memory, symbols and the bound of the stack are those of the same assembly inline."""
    inline, apart = (mlf_sdk.run(model, board=board, asm=asm) for asm in ("inline", "file"))
    assert inline.verdict == apart.verdict == "PASS"
    assert inline.instructions is not None and inline.instructions == apart.instructions
    assert inline.memory == apart.memory
    assert inline.check.regions == apart.check.regions and inline.check.kernels == apart.check.kernels
    depths = [report.check.stack.image.bytes for report in (inline, apart)]
    assert depths[0] == depths[1]


@pytest.mark.qemu
def test_a_board_of_another_architecture_runs_it(model: Path, needs_riscv_qemu: None) -> None:
    """Calls of functions in another source may take other instructions there."""
    inline, apart = (mlf_sdk.run(model, board="qemu-virt-rv32", asm=asm) for asm in ("inline", "file"))
    assert inline.verdict == apart.verdict == "PASS"
    assert inline.instructions is not None and apart.instructions is not None
    assert abs(inline.instructions - apart.instructions) < inline.instructions // 100


@pytest.mark.toolchain
def test_two_models_with_the_same_functions_are_in_one_image(
    model: Path, tmp_path: Path, needs_arm: None
) -> None:
    """The functions of the second one get other names, in C and in assembly."""
    archives = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        archives.append(folder / "small.tar")
        mlf_sdk.compile(model, archives[-1], board=BOARD, asm="file")
    first, second = (frontends.load(archive) for archive in archives)
    assert assembly_of(first) == assembly_of(second)
    mlf_sdk.generate(archives, tmp_path / "app", board=BOARD)
    image = read_image(mlf_sdk.build(tmp_path / "app").elf)
    names = {symbol.name for symbol in image.symbols}
    for symbol in set(assembly_of(first)) & names:
        assert f"small_2_{symbol}" in names
    assert set(assembly_of(first)) & names


@pytest.mark.toolchain
def test_a_bundle_holds_it(model: Path, tmp_path: Path, needs_arm: None) -> None:
    mlf_sdk.convert(model, tmp_path / "b", to="bundle", board=BOARD, asm="file")
    (made,) = (tmp_path / "b").glob("*.o")
    said = subprocess.run(["arm-none-eabi-nm", made], capture_output=True, text=True, check=True).stdout
    kinds = {line.split()[-1]: line.split()[-2] for line in said.splitlines()}
    assert [name for name, kind in kinds.items() if kind == "T"] == ["small"]
    inline = tmp_path / "inline"
    mlf_sdk.convert(model, inline, to="bundle", board=BOARD)
    sizes = [len(mlf_sdk.load(folder).units[0].data) for folder in (tmp_path / "b", inline)]
    assert abs(sizes[0] - sizes[1]) < 2000


def test_assembly_of_others_has_no_twin(tmp_path: Path) -> None:
    files = tiny_archive(Spec())
    source = "codegen/host/src/tiny_lib1.c"
    text = files[source].replace(b") {\n", b") {\n  (void)assembled();\n", 1)
    files[source] = b"extern int assembled(void);\n" + text
    files["codegen/host/src/tiny_lib2.S"] = b".global assembled\nassembled:\n  bx lr\n"
    archive = write(files, tmp_path / "tiny.tar")
    model = frontends.load(archive)
    (unit,) = (unit for unit in model.units if unit.kind is UnitKind.ASSEMBLY)
    assert unit.linked and not unit.clean and unit.symbols == ("assembled",)
    with pytest.raises(NotPossibleError, match="assembly for the target: there is no host twin"):
        Pipeline().twin_request(Request(source=(str(archive),), board=BOARD))
