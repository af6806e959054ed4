# SPDX-License-Identifier: Apache-2.0
"""Kernels without assembly are C99: clang finds no extension of GNU's in them, apart from what guards hold.

It is the machine's clang and, for the warnings of later versions, that of the package ziglang where it is installed.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccode import call, compiler
from kernel_library import units
from maker_graphs import graphs
from makers import made_kernels
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.cores import cores
from mlf_sdk.compiler.options import Asm, Goal
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from row_networks import keyword
from tflite_models import Maker

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "tflite"
MODELS = {"layers": ROOT / "examples/layers/layers.tflite"}
MODELS |= {name: SHARED / f"{name}_int8.tflite" for name in ("kws", "resnet8", "vww", "ad", "sww")}

# Warnings that are not about the language: all others of -Weverything end a test.
STYLE = {
    "-Wdeclaration-after-statement",  # is C99
    "-Wused-but-marked-unused",  # functions of which another core needs none
    "-Wfloat-equal",  # what EQUAL computes
    "-Wbad-function-cast",  # (int32_t)floorf(x)
    "-Wunsafe-buffer-usage",  # of clang 16 and later: each access by a pointer
    "-Wswitch-default",  # of clang 18 and later
    "-Wpre-c11-compat",
}
CHECK = ("-std=c99", "-Wpedantic", "-Weverything", "-fsyntax-only")
EXTENSION = re.compile(
    r"\b(?:__attribute(?:__)?|__builtin_\w+|__asm(?:__)?|asm|__extension__|__typeof(?:__)?|typeof|__auto_type|"
    r"__label__|__inline(?:__)?|__restrict(?:__)?|__alignof(?:__)?|__[a-z]\w*\s*\()"
)
# What a compiler for a core defines; without __GNUC__ it is one that has none of GNU's extensions.
CORE_MACROS = [
    f"-D__ARM_{name}"
    for name in (
        "FEATURE_DSP=1",
        "FEATURE_UNALIGNED=1",
        "FEATURE_MVE=3",
        "FEATURE_FMA=1",
        "FP=12",
        "ARCH_7M__=1",
    )
]
CORE_MACROS += ["-D__thumb__=1", "-D__thumb2__=1", "-D__ARM_ARCH_6M__=1"]


def ziglang() -> tuple[str, ...] | None:
    """Clang of the package itself, not Zig's driver of it; None where it is not installed."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        return None
    include = Path(spec.origin).parent / "lib" / "include"
    return (sys.executable, "-m", "ziglang", "clang", "-isystem", str(include))


@pytest.fixture(scope="module", params=["clang", "ziglang"])
def clang(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Command of a compiler."""
    if request.param == "clang":
        return (compiler("clang"),)
    return ziglang() or pytest.skip("ziglang is not installed")


@pytest.fixture(scope="module")
def latest_clang() -> tuple[str, ...]:
    """Command of the one that warns of more: its kernels are those of the makers, which both read."""
    return ziglang() or (compiler("clang"),)


def test_ziglang_has_a_late_clang() -> None:
    pytest.importorskip("ziglang")
    version = re.search(r"clang version (\d+)", call(sys.executable, "-m", "ziglang", "clang", "--version"))
    assert version is not None
    assert int(version[1]) >= 19


def faults(clang: tuple[str, ...], source: Path, folder: Path) -> Iterator[str]:
    """Each extension that a source has outside of guards, and everything that clang warns of."""
    done = subprocess.run([*clang, *CHECK, source], capture_output=True, text=True, timeout=240, check=False)
    for line in done.stderr.splitlines():
        found = re.search(r"(?:warning|error): .*?(?:\[(-W[\w+-]+)[^\]]*\])?$", line)
        if found is not None and found[1] not in STYLE:
            yield line
    for macros in ((), CORE_MACROS):
        flags = ["-std=c99", "-U__GNUC__", "-w", "-E", "-P", "-nostdinc", *macros]
        left = call(*clang, *flags, *stubs(folder), source)
        lines = left.splitlines()
        yield from (f"{source.name}: {line.strip()}" for line in lines if EXTENSION.search(line))


def stubs(folder: Path) -> list[str]:
    """Empty headers of the library, whose own extensions do not count."""
    (folder / "stubs").mkdir(exist_ok=True)
    for name in ("math.h", "stdint.h", "string.h", "stdbool.h"):
        (folder / "stubs" / name).write_text("")
    return [f"-I{folder / 'stubs'}", f"-I{folder}"]


def test_models_have_no_extension(latest_clang: tuple[str, ...], tmp_path: Path) -> None:
    """Each set of instructions with each goal whose kernels differ the most, by the models in turn."""
    models = [path for path in MODELS.values() if path.is_file()]
    sets = {core.instruction_sets: core for core in cores().values()}.values()
    goals = (Goal.SPEED, Goal.SIZE, Goal.RAM)
    for (i, core), (j, goal) in itertools.product(enumerate(sets), enumerate(goals)):
        path = models[(i + 2 * j) % len(models)]
        code = compile_graph(load_tflite(path), Choice(core=core, goal=goal), asm=Asm.NO).code
        (tmp_path / code.header_name).write_text(code.header)
        (tmp_path / "kernels.c").write_text(code.own)
        found = [*faults(latest_clang, tmp_path / "kernels.c", tmp_path)]
        assert found == [], f"{path.stem} {core.name} {goal.value}"


def test_a_region_with_a_dense_layer_has_no_extension(clang: tuple[str, ...], tmp_path: Path) -> None:
    m = Maker(5)
    (tmp_path / "model.tflite").write_bytes(m.finish(keyword(m)))
    choice = Choice(core=cores()["cortex-m4"], goal=Goal.RAM)
    code = compile_graph(load_tflite(tmp_path / "model.tflite"), choice, asm=Asm.NO).code
    assert "add_products" in code.own
    (tmp_path / code.header_name).write_text(code.header)
    (tmp_path / "kernels.c").write_text(code.own)
    assert [*faults(clang, tmp_path / "kernels.c", tmp_path)] == []


def test_kernels_of_every_maker_have_no_extension(tmp_path: Path) -> None:
    """What each maker of the schedule gives, for each operator of the tests' models that it fits."""
    made = made_kernels(map(improve, graphs(tmp_path)))
    kernels = [kernel for kernel in made if kernel.family != "custom"]  # that is the user's code
    assert len(kernels) > 900
    clangs = [command for command in ((compiler("clang"),), ziglang()) if command is not None]
    for number, (text, _, _) in enumerate(units(kernels, tmp_path, Asm.NO)):
        source = tmp_path / f"kernels{number}.c"
        source.write_text(text)
        assert [fault for clang in clangs for fault in faults(clang, source, tmp_path)] == []


@pytest.mark.parametrize(
    "text",
    [
        "int f(int a) { return ({ a; }); }",
        "int f(int a) { return a ?: 1; }",
        "struct s { int n; int a[0]; };",
        "int f(int n) { int a[n]; return a[0]; }",
        "int f(void *p) { return *(char *)(p + 1); }",
        "static int f(unsigned a) { return __builtin_clz(a); }",
        "__attribute__((noinline)) static int f(void) { return 1; }",
        'static int f(int a) { __asm__("" : "+r"(a)); return a; }',
        "int f(int a) { switch (a) { case 1 ... 3: return 1; default: return 0; } }",
        "int f(void) { return 0b101; }",
        '_Static_assert(1, "");',
        "typeof(1) a;",
        "#if defined(__ARM_FEATURE_DSP)\nint f(int a) { return __smlad(a, a, a); }\n#endif",
    ],
)
def test_an_extension_is_found(text: str, clang: tuple[str, ...], tmp_path: Path) -> None:
    """The check itself: what a kernel could have had."""
    (tmp_path / "one.c").write_text(f"{text}\n")
    found = [
        fault for fault in faults(clang, tmp_path / "one.c", tmp_path) if "previous prototype" not in fault
    ]
    assert found
