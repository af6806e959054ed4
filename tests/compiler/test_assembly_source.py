# SPDX-License-Identifier: Apache-2.0
"""Assembly in a source of its own: the same instructions as inline, and what says which layers they are for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ccode import WARNINGS, call, compiler
from core_images import MACHINES, MISSING, run_on_core
from mlf_sdk.analysis.assembly import scan_assembly
from mlf_sdk.compiler.build import CompiledGraph, compile_graph
from mlf_sdk.compiler.cores import cores
from mlf_sdk.compiler.options import Asm, Goal
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from random_networks import random_network
from tflite_models import small_network

NETWORKS = {
    "int8": small_network,
    "int16": lambda: random_network(2, "int16", 12).file(),
    "float": lambda: random_network(2, "float32", 12).file(),
}
CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55")
needs_arm = pytest.mark.skipif("arm-none-eabi-gcc" in MISSING, reason="arm-none-eabi-gcc is not installed")


def compiled(network: str, folder: Path, core: str, goal: Goal, asm: Asm) -> CompiledGraph:
    path = folder / "small.tflite"
    path.write_bytes(NETWORKS[network]())
    return compile_graph(load_tflite(path), Choice(core=cores()[core], goal=goal), asm=asm)


def files(found: CompiledGraph, folder: Path) -> list[Path]:
    """The source in C, and that of assembly if there is one."""
    folder.mkdir()
    (folder / found.code.header_name).write_text(found.code.header)
    texts = {"kernels.c": found.code.own, "kernels.S": found.code.assembly}
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name, text in texts.items() if text]


def objects(found: CompiledGraph, folder: Path, core: str, *flags: str) -> list[Path]:
    """Objects for a core, which are built without a warning."""
    made = []
    for source in files(found, folder):
        output = source.with_suffix(source.suffix + ".o")
        usual = ["-mthumb", *MACHINES[cores()[core]].flags, "-O2", "-ffunction-sections", *flags]
        call(
            "arm-none-eabi-gcc",
            *usual,
            *(WARNINGS if source.suffix == ".c" else ()),
            "-c",
            source,
            "-o",
            output,
        )
        made.append(output)
    return made


def functions(paths: list[Path]) -> dict[str, bytes]:
    """Machine code of each function by its name, without relocations."""
    found = {}
    for path in paths:
        with path.open("rb") as file:
            elf = ELFFile(file)
            tables = [s for s in elf.iter_sections() if isinstance(s, SymbolTableSection)]
            for symbol in (symbol for table in tables for symbol in table.iter_symbols()):
                if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF":
                    start = symbol["st_value"] & ~1
                    data = elf.get_section(symbol["st_shndx"]).data()
                    found[symbol.name] = data[start : start + symbol["st_size"]]
    return found


@needs_arm
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("core", CORES)
def test_the_machine_code_is_that_of_the_functions_inline(core: str, network: str, tmp_path: Path) -> None:
    for goal in (Goal.SPEED, Goal.SIZE):
        inline, apart = (
            functions(objects(compiled(network, tmp_path, core, goal, asm), tmp_path / f"{asm}{goal}", core))
            for asm in (Asm.INLINE, Asm.FILE)
        )
        moved = {name for name in apart if name not in inline}
        names = {name: name.removeprefix("small_") for name in moved}
        assert {names[name] for name in moved} <= set(inline)
        for name in moved:
            assert apart[name] and apart[name] == inline[names[name]], name
        if goal is Goal.SPEED and network == "int8":
            assert moved


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
@pytest.mark.parametrize("core", CORES)
def test_it_computes_the_same_in_as_many_instructions(core: str, tmp_path: Path) -> None:
    """Every kernel equals the reference, too."""
    target = cores()[core]
    counts = []
    for asm in (Asm.INLINE, Asm.FILE):
        folder = tmp_path / asm.value
        folder.mkdir()
        counts.append(run_on_core(compiled("int8", tmp_path, core, Goal.SPEED, asm), target, folder))
    for (symbol, inline), (other, apart) in zip(*counts, strict=True):
        assert symbol == other
        assert abs(inline - apart) <= 2 * MACHINES[target].tick + inline // 1000, symbol


def test_the_source_tells_of_layers_and_of_the_stack(tmp_path: Path) -> None:
    found = compiled("int8", tmp_path, "cortex-m4", Goal.SPEED, Asm.FILE)
    code = found.code
    assert code.assembly_symbols and scan_assembly(code.assembly).symbols == code.assembly_symbols
    about = {}
    for symbol in code.assembly_symbols:
        head, _, body = code.assembly.partition(f"\n{symbol}:\n")
        about[symbol] = head[head.rindex("/*") : head.rindex("*/")]
        text = body.partition(f".size {symbol},")[0]
        assert text.lstrip().startswith(".cfi_startproc") and text.rstrip().endswith(".cfi_endproc")
        assert re.search(r"push .*lr.*\n    \.cfi_def_cfa_offset \d+\n    \.cfi_offset r4, -\d+", text)
    for one in found.operators:
        names = [f"small_{name}" for name in one.kernel.helpers] if one.kernel else []
        for symbol in set(names) & set(about):
            layer = re.search(rf"Layer {one.operator.number}: {one.operator.kind} .*\n(.*)", about[symbol])
            assert layer is not None
            x, y = found.graph.read(one.operator)[0], found.graph.written(one.operator)[0]
            assert f"int8 {list(x.shape)} -> int8 {list(y.shape)}" in layer[1]
    assert any("tile of 4 pixels x 2 channels" in text for text in about.values())


def test_without_a_function_in_assembly_there_is_no_source(tmp_path: Path) -> None:
    assert not compiled("int8", tmp_path, "generic", Goal.SIZE, Asm.FILE).code.assembly
    assert not compiled("int8", tmp_path, "cortex-m4", Goal.SPEED, Asm.INLINE).code.assembly


@needs_arm
def test_other_cores_build_the_plain_c(tmp_path: Path) -> None:
    """The source is empty for them; this machine's compiler is one of them."""
    found = compiled("int8", tmp_path, "cortex-m4", Goal.SPEED, Asm.FILE)
    sources = files(found, tmp_path / "files")
    for argv in (
        ["arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m3"],
        ["arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m4", "-mno-unaligned-access"],
        [compiler("gcc")],
    ):
        made = []
        for source in sources:
            made.append(source.with_suffix(source.suffix + ".o"))
            call(*argv, "-O2", "-c", source, "-o", made[-1])
        code = functions(made)
        assert set(found.code.assembly_symbols).isdisjoint(functions(made[1:]))
        assert code


def test_clang_assembles_it(tmp_path: Path) -> None:
    clang = compiler("clang")
    for core, target in (
        ("cortex-m0", "thumbv6m"),
        ("cortex-m4", "thumbv7em"),
        ("cortex-m55", "thumbv8.1m.main"),
    ):
        found = compiled("int8", tmp_path, core, Goal.SPEED, Asm.FILE)
        source = files(found, tmp_path / core)[1]
        soft = core == "cortex-m0"
        flags = [f"--target={target}-none-eabi", f"-mcpu={core}", f"-mfloat-abi={'soft' if soft else 'hard'}"]
        flags += [] if soft else ["-munaligned-access"]  # off by default on bare metal
        call(clang, *flags, "-c", source, "-o", tmp_path / "out.o")
        assert set(found.code.assembly_symbols) == set(functions([tmp_path / "out.o"]))
