# SPDX-License-Identifier: Apache-2.0
"""C text of a compiled model: what a firmware engineer's compilers and debuggers say of it."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ccode import WARNINGS, call, compiler
from core_images import MISSING, emulator, image_text, link
from mlf_sdk.compiler.build import CompiledGraph, compile_graph
from mlf_sdk.compiler.cores import cores
from mlf_sdk.compiler.emit import emit, without_assembly
from mlf_sdk.compiler.kernels.assembly import DSP, function_of_cores
from mlf_sdk.compiler.options import Asm, Goal
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends import compiled as compiled_frontends
from random_networks import random_network
from tflite_models import small_network

PLAIN = [*WARNINGS, "-Wpedantic", "-fsyntax-only"]
ATTRIBUTES = re.compile(r"__attribute__|__builtin_|__asm|__extension__|__typeof")


NETWORKS = {
    "int8": small_network,
    "int16": lambda: random_network(2, "int16", 12).file(),
    "float": lambda: random_network(2, "float32", 12).file(),
}


def compiled(network: str, folder: Path, choice: Choice, *, asm: Asm = Asm.INLINE) -> CompiledGraph:
    path = folder / "small.tflite"
    path.write_bytes(NETWORKS[network]())
    return compile_graph(load_tflite(path), choice, asm=asm)


def written(found: CompiledGraph, folder: Path) -> Path:
    """The source and its header in a folder."""
    (folder / found.code.header_name).write_text(found.code.header)
    (folder / "kernels.c").write_text(found.code.own)
    return folder / "kernels.c"


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55"])
def test_without_assembly_it_is_c99(core: str, network: str, tmp_path: Path) -> None:
    """For goals of each kind, by a compiler that knows extensions and by one that has none."""
    clang = compiler("clang")
    for goal in (Goal.SPEED, Goal.SIZE):
        found = compiled(network, tmp_path, Choice(core=cores()[core], goal=goal), asm=Asm.NO)
        source = written(found, tmp_path)
        call(clang, *PLAIN, source)
        assert "__asm" not in source.read_text()
        left = call(clang, "-std=c99", "-U__GNUC__", "-E", "-P", "-nostdinc", *stubs(tmp_path), source)
        assert not ATTRIBUTES.search(left)


def stubs(folder: Path) -> list[str]:
    """Empty headers of the library, whose own extensions do not count."""
    for name in ("math.h", "stdint.h", "string.h", "stdbool.h"):
        (folder / "stubs").mkdir(exist_ok=True)
        (folder / "stubs" / name).write_text("")
    return [f"-I{folder / 'stubs'}", f"-I{folder}"]


@pytest.mark.skipif("arm-none-eabi-gcc" in MISSING, reason="arm-none-eabi-gcc is not installed")
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    ("core", "flags"),
    [
        ("cortex-m0", "-mcpu=cortex-m0 -mfloat-abi=soft"),
        ("cortex-m3", "-mcpu=cortex-m3 -mfloat-abi=soft"),
        ("cortex-m4", "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16"),
        ("cortex-m55", "-mcpu=cortex-m55 -mfloat-abi=hard -mfpu=auto"),
    ],
)
def test_a_core_builds_it_without_a_warning(core: str, flags: str, network: str, tmp_path: Path) -> None:
    for goal in (Goal.SPEED, Goal.SIZE):
        source = written(compiled(network, tmp_path, Choice(core=cores()[core], goal=goal)), tmp_path)
        call("arm-none-eabi-gcc", "-mthumb", *flags.split(), *WARNINGS, "-fsyntax-only", source)


@pytest.mark.skipif("arm-none-eabi-gcc" in MISSING, reason="arm-none-eabi-gcc is not installed")
@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4", "cortex-m55"])
def test_words_at_any_address_only_where_the_core_may_load_them(core: str, tmp_path: Path) -> None:
    source = written(compiled("int8", tmp_path, Choice(core=cores()[core])), tmp_path)
    usual = ["arm-none-eabi-gcc", "-mthumb", f"-mcpu={core}", "-mfloat-abi=softfp", "-E", "-P", source]
    usual[3:4] = ["-mfloat-abi=soft"] if core == "cortex-m3" else ["-mfloat-abi=hard", "-mfpu=auto"]
    assert "naked" in call(*usual)
    assert "naked" not in call(*usual, "-mno-unaligned-access")


def test_each_function_tells_its_layers(tmp_path: Path) -> None:
    found = compiled("int8", tmp_path, Choice(core=cores()["cortex-m4"]))
    for one in found.operators:
        if one.kernel is None:
            continue
        head = found.code.own.partition(f"\nvoid {one.symbol}(")[0]
        comment = head[head.rindex("/*") :]
        assert comment.endswith("*/")
        layer = re.search(rf"Layer {one.operator.number}: {re.escape(one.operator.kind)}\b.*\n(.*)", comment)
        assert layer is not None
        x, y = found.graph.read(one.operator)[0], found.graph.written(one.operator)[0]
        assert (
            f"{x.dtype.name} {list(x.shape)}" in layer[1] and f"-> {y.dtype.name} {list(y.shape)}" in layer[1]
        )
        sizes = [array.nbytes for array in one.kernel.constants]
        for number, size in enumerate(sizes):
            assert (
                f"p{number}: parameter '{one.operator.kind.lower()}_{one.operator.number}_p{number}', {size:,} bytes"
                in comment
            )


def test_a_name_in_a_comment_does_not_end_it(tmp_path: Path) -> None:
    graph = compiled("int8", tmp_path, Choice()).graph
    values = tuple(dataclasses.replace(v, name="*/ int injected; /*\nint more;") for v in graph.values)
    code = compile_graph(dataclasses.replace(graph, values=values), Choice()).code
    assert "injected" in code.own and "*/ int" not in code.own and "\nint more" not in code.own


def test_prototypes_are_those_of_the_functions(tmp_path: Path) -> None:
    """A source includes its header: a prototype that differs does not build."""
    found = compiled("int8", tmp_path, Choice())
    source, header = written(found, tmp_path), tmp_path / found.code.header_name
    call("gcc", *WARNINGS, "-fsyntax-only", source)
    call("g++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", header)
    header.write_text(found.code.header.replace("int8_t *y0", "int16_t *y0", 1))
    done = subprocess.run(["gcc", "-fsyntax-only", source], capture_output=True, text=True, check=False)
    assert "conflicting types" in done.stderr


def test_assembly_says_its_layers_and_kernels_what_a_mac_takes(tmp_path: Path) -> None:
    """Before each function in assembly, of those kernels that call it; the figure is that of the tile's own note."""
    found = compiled("int8", tmp_path, Choice(core=cores()["cortex-m4"], goal=Goal.SPEED))
    naked = re.findall(
        r"/\* Assembly for\n((?: \* .*\n)+)#if .*\n__attribute__\(\(naked, noinline\)\) static [\w *]*?(\w+)\(",
        found.code.own,
    )
    assert len(naked) == found.code.own.count("naked, noinline")
    figures = 0
    for one in found.operators:
        helpers = one.kernel.helpers if one.kernel else {}
        for about, name in naked:
            assert (f"Layer {one.operator.number}: " in about) == (name in helpers)
        counts = [
            (int(products), f"{int(n) / int(products):.2f} instructions a MAC in the tile")
            for text in helpers.values()
            for n, products in re.findall(r"(\d+) instructions for (\d+) products", text)
        ]
        if counts and one.kernel is not None and one.kernel.tile:
            about = found.code.own.partition(f"/* Layer {one.operator.number}: ")[2]
            about = about or found.code.own.partition(f"\n * Layer {one.operator.number}: ")[2]
            assert max(counts)[1] in about.splitlines()[1]
            figures += 1
    assert figures > 2


def test_a_helper_has_one_text(tmp_path: Path) -> None:
    kernel = next(
        o.kernel for o in compiled("int8", tmp_path, Choice()).operators if o.kernel and o.kernel.helpers
    )
    helpers = {name: text + "\n" for name, text in kernel.helpers.items()}
    other = dataclasses.replace(kernel, helpers=helpers)
    assert other.key != kernel.key
    with pytest.raises(ValueError, match=f"different helper '{next(iter(helpers))}'"):
        emit("m", [kernel, other])
    foreign = dataclasses.replace(other, origin="TVM 1.2.3", family="tvm_conv")
    code = emit("m", [kernel, foreign])
    assert code.symbols[1] in code.foreign and code.symbols[1] not in code.own


def test_branches_in_assembly_are_left_out() -> None:
    text = """int a;
#if defined(X)
__asm__("x");
#elif defined(Y)
int y;
#if defined(Z)
__asm__("z");
#else
int z;
#endif
#else
int plain;
#endif
#ifdef W
__asm__("w");
#endif
#if defined(V)
int v;
#endif
"""
    assert (
        without_assembly(text)
        == """int a;
#if defined(Y)
int y;
int z;
#else
int plain;
#endif
#if defined(V)
int v;
#endif
"""
    )


TOOK_PART = """
import sys
from pathlib import Path
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.frontends.compiled import compiling_frontend
path = Path(sys.argv[1])
compiling_frontend(path).compile(path, CompileOptions())
print(*(name for name in sys.modules if name.count(".") > 1 and name.startswith("mlf_sdk.")))
"""


def test_the_digest_covers_all_that_writes_an_archive(tmp_path: Path) -> None:
    """All packages whose modules a compilation loads, and the tables of cores and instruction sets."""
    path = tmp_path / "small.tflite"
    path.write_bytes(small_network())
    command = [sys.executable, "-c", TOOK_PART, str(path)]
    modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert len(modules) > 80
    assert {name.split(".")[1] for name in modules} <= set(compiled_frontends._CODE)


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
@pytest.mark.parametrize(
    ("core", "goal", "asm"),
    [
        ("cortex-m0", Goal.BALANCED, Asm.INLINE),
        ("cortex-m3", Goal.BALANCED, Asm.INLINE),
        ("cortex-m4", Goal.SPEED, Asm.INLINE),
        ("cortex-m55", Goal.SPEED, Asm.INLINE),
        ("cortex-m0", Goal.BALANCED, Asm.FILE),
        ("cortex-m4", Goal.SPEED, Asm.FILE),
        ("cortex-m55", Goal.SPEED, Asm.FILE),
    ],
)
def test_a_debugger_walks_from_each_function_in_assembly_to_main(
    core: str, goal: Goal, asm: Asm, tmp_path: Path
) -> None:
    """From the instructions that every stack movement is before and behind, in their first call."""
    gdb = compiler("gdb-multiarch")
    target = cores()[core]
    found = compiled("int8", tmp_path, Choice(core=target, goal=goal), asm=asm)
    elf = link(image_text(found, 0, None)[0], target, tmp_path, "-g", assembly=found.code.assembly)
    symbols = call("arm-none-eabi-nm", elf)
    naked = re.findall(r"naked, noinline\)\) static [\w *]*?(\w+)\(", found.code.own)
    names = found.code.assembly_symbols or tuple(dict.fromkeys(naked))
    tiles = [name for name in names if re.search(rf" [tT] {name}$", symbols, re.MULTILINE)]
    assert tiles
    stub = " ".join([*emulator(elf, target), "-monitor", "none", "-serial", "none", "-S", "-gdb", "stdio"])
    script = [f"target remote | {stub}"]
    for tile in tiles:
        script += [f"tbreak *{tile}", "continue", "backtrace"]
        for steps in (1, 1, 1, 20):
            script += [f"stepi {steps}", "backtrace"]
    script.append("kill")
    command = [gdb, "-nx", "-batch", *(a for line in script for a in ("-ex", line)), str(elf)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    traces = [re.findall(r"#\d+ .*?(\w+) \(", part) for part in re.split(r"(?=#0 )", done.stdout)[1:]]
    reached = {trace[0] for trace in traces} & set(tiles)
    assert len(reached) > len(tiles) // 2, done.stdout[-2000:]  # some fit no layer of this network whole
    assert all("main" in trace for trace in traces), [trace for trace in traces if "main" not in trace]


def test_unwind_rules_follow_the_stack() -> None:
    lines = [
        "push {r2, r4-r7, lr}",
        "vpush {d8-d9}",
        "sub sp, sp, #8",
        "nop",
        "add sp, sp, #8",
        "vpop {d8-d9}",
    ]
    text = function_of_cores("f", "int a", {DSP: [*lines, "pop {r2, r4-r7, pc}"]}, "")
    rules = re.findall(r'MLF_UNWIND\("(.*?)"\)', text)
    assert rules == [
        "def_cfa_offset 24", "offset r2, -24", "offset r4, -20", "offset r5, -16", "offset r6, -12", "offset r7, -8",
        "offset lr, -4", "def_cfa_offset 40", "def_cfa_offset 48", "def_cfa_offset 40", "def_cfa_offset 24",
    ]  # fmt: skip
