# SPDX-License-Identifier: Apache-2.0
"""The code of a module: who defines what, what an entry needs, where objects and sources meet."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysed import load_model
from archives import Spec, build, merge, write
from elfobjects import M4, Elf
from mlf_sdk.errors import ArchiveError, FaultCollector
from mlf_sdk.frontends.code import CodeFile, CodeIndex, index_code
from mlf_sdk.frontends.mlf.archive import load_mlf
from mlf_sdk.ir.model import UnitKind

GLOBAL, WEAK, LOCAL = 18, 34, 2  # functions
UNDEFINED = 16


def kernel_object(*symbols: tuple[str, int, int, int]) -> bytes:
    return Elf(tags=dict(M4), symbols=list(symbols)).build()


def index(**files: bytes) -> tuple[CodeIndex, list[str]]:
    """The index of these files, by name with the last ``_`` as a dot, and the faults."""
    sources = []
    for name, data in files.items():
        stem, _, kind = name.rpartition("_")
        sources.append(CodeFile(member=f"{stem}.{kind}", kind=kind, data=data))
    faults = FaultCollector("any.tar")
    found = index_code(sources, faults)
    return found, [f"{fault.member}: {fault.what}" for fault in faults.faults]


def test_an_object_and_the_sources_it_needs() -> None:
    code, faults = index(
        kernel_o=kernel_object(("helper", 1, LOCAL, 1), ("k", 1, GLOBAL, 1), ("table", 0, UNDEFINED, 0)),
        table_c=b"const int table[2] = {1, 2};\nint lookup(int i) { return table[i]; }\n",
        other_c=b"int other(void) { return 0; }\n",
        call_c=b"extern int k(void);\nint entry(void) { return k(); }\n",
    )
    assert faults == []
    assert code.external_symbols("kernel.o") == ("k",)
    assert code.external_symbols("table.c") == ("lookup", "table")
    assert code.external_headers("kernel.o") == ()
    assert code.defines("k") and not code.defines("helper")
    assert code.reachable(["entry"]) == ("kernel.o", "call.c")
    assert code.reachable(["lookup"]) == ("table.c",)
    assert code.reachable(["nothing"]) == ()
    units = {unit.member: unit for unit in code.units(["kernel.o"])}
    assert [name for name, unit in units.items() if unit.linked] == ["kernel.o"]
    assert (units["kernel.o"].kind, units["kernel.o"].symbols) == (UnitKind.OBJECT, ("k",))


def test_an_object_that_asks_for_a_function() -> None:
    code, _ = index(
        kernel_o=kernel_object(("k", 1, GLOBAL, 1), ("lookup", 0, UNDEFINED, 0)),
        table_c=b"int lookup(int i) { return i; }\n",
    )
    assert code.reachable(["k"]) == ("kernel.o", "table.c")


def test_one_symbol_of_an_object_and_a_source() -> None:
    source = b"int k(void) { return 0; }\n"
    code, faults = index(kernel_o=kernel_object(("k", 1, GLOBAL, 1)), more_c=source)
    assert (code.defined_in["k"], faults) == (("kernel.o", "more.c"), [])
    code, faults = index(kernel_o=kernel_object(("k", 1, WEAK, 1)), more_c=source)
    assert (code.defined_in["k"], faults) == (("more.c",), [])


def test_what_is_broken_is_told_and_the_rest_is_read() -> None:
    code, faults = index(
        kernel_o=kernel_object(("k", 1, GLOBAL, 1))[:60], bad_c=b"int f(void) {", good_c=b"int g(void) { }"
    )  # fmt: skip
    assert [fault.partition(":")[0] for fault in faults] == ["kernel.o", "bad.c"]
    assert "a brace does not close" in faults[1]
    assert code.defines("g") and not code.objects


def test_headers() -> None:
    code, _ = index(
        own_h=b"#define LIMIT 9\n",
        k_c=b'#include <math.h>\n#include "own.h"\n#include <arm_nnfunctions.h>\nint k(void) { return 0; }\n',
    )
    assert code.external_headers("k.c") == ("arm_nnfunctions.h",)
    (header,) = [unit for unit in code.units([]) if unit.kind is UnitKind.HEADER]
    assert header.symbols == ()


def test_two_modules_with_one_function(tmp_path: Path) -> None:
    """They are read apart: each module has its own code."""
    path = write(merge(Spec(name="a"), Spec(name="b")), tmp_path / "two.tar")
    codes = []
    for module in load_mlf(path).modules:
        faults = FaultCollector("two.tar")
        codes.append(index_code(module.sources, faults))
        assert not faults.faults
    assert not set(codes[0].files) & set(codes[1].files)


def test_faults_of_code_refuse_the_archive(tmp_path: Path) -> None:
    files = {**build(), "codegen/host/src/tiny_lib2.c": b"int f(void) {\n"}
    with pytest.raises(ArchiveError, match="a brace does not close"):
        load_model(write(files, tmp_path / "bad.tar"))


def test_assembly_defines_and_needs_symbols() -> None:
    code, faults = index(
        call_c=b"extern int first(void);\nint entry(void) { return first(); }\n",
        tile_S=b"/* .global not_this\n*/ .text // helper2\n.globl first\nfirst:\n  bl helper\nlocal:\n  bx lr\n.global outside\n",
        helper_c=b"int helper(void) { return 1; }\n",
        helper2_c=b"int helper2(void) { return 1; }\n",
    )
    assert faults == []
    assert code.external_symbols("tile.S") == ("first",)
    assert code.reachable(["entry"]) == ("call.c", "tile.S", "helper.c")
    (unit,) = (unit for unit in code.units(["tile.S"]) if unit.linked)
    assert (unit.kind, unit.symbols, unit.headers) == (UnitKind.ASSEMBLY, ("first",), ())
