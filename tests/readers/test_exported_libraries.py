# SPDX-License-Identifier: Apache-2.0
"""Exported libraries as models: archives, folders, objects and shared libraries of both layouts."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archives
from exported_libraries import (
    ADD,
    MIDDLE,
    NEW,
    OLD,
    Code,
    adding,
    array,
    elf,
    factory,
    graph_files,
    named,
    new_modules,
    old_modules,
    relax_files,
    shared_library,
    write_library,
)
from glow_bundles import code
from mlf_sdk import frontends
from mlf_sdk.errors import ArchiveError, InputError, ModuleChoiceError
from mlf_sdk.frontends.exported import files
from mlf_sdk.frontends.exported.frontend import ExportedFrontend
from mlf_sdk.frontends.filetype import is_elf
from mlf_sdk.ir.abi import Convention
from mlf_sdk.ir.model import Model, TensorKind

FILES = relax_files(adding().build())
W = named("w", np.arange(4, dtype=np.float32))


def faults_of(path: Path, **options: Any) -> str:
    with pytest.raises(ArchiveError) as caught:
        frontends.load(path, **options)
    assert caught.value.exit_code == 2
    return "\n".join(map(str, caught.value.faults))


def lines_of(model: Model, label: str) -> list[str]:
    return [line for name, lines in model.contents if name == label for line in lines]


# ---- models ----


@pytest.mark.parametrize("name", ["net.tar", "net.tar.gz", "net.tar.xz", "net"])
def test_model_of_bytecode(tmp_path: Path, name: str) -> None:
    path = write_library(FILES, tmp_path / name)
    assert frontends.find_frontend(path).name == "exported"
    assert frontends.modules(path) == ("main",)
    model = frontends.load(path)
    assert (model.name, model.executor, model.io_names) == ("net", "bytecode", (("x",), ("output",)))
    assert model.provenance.format_text == "TVM exported library"
    assert model.provenance.compiler_text == "TVM 0.22 or later"
    assert [(s.name, s.symbol, s.abi.convention) for s in model.steps] == [
        ("add", "__tvm_ffi_add", Convention.FFI)
    ] * 2
    assert model.summary.workspace_bytes == 32
    assert (model.blocked, model.exports, model.is_analysed) == ("", (), False)
    assert [(u.member, u.linked) for u in model.units] == [("exported/lib0.c", True)]
    assert "r2 = vm.builtin.alloc_tensor(r1, 0, #6, #7)" in [t.strip() for t in lines_of(model, "bytecode")]
    assert lines_of(model, "allocates")[-1] == "32 bytes in all, by the bytecode's own plan"


@pytest.mark.parametrize(
    ("symbol", "kernel", "convention"), [(OLD, "add", Convention.PACKED), (MIDDLE, "add", Convention.FFI)]
)
def test_bytecode_of_older_releases(tmp_path: Path, symbol: str, kernel: str, convention: Convention) -> None:
    """Kernels have their plain names there; six arguments up to 0.20, four in 0.21."""
    known = {"tensor": 0, "dtype": 1, "shape": 2, "string": 3, "int": 4, "float": 5}
    if symbol == MIDDLE:
        known = {"int": 1, "float": 3, "dtype": 5, "string": 65, "shape": 71, "tensor": 72}
    source = ADD.replace("__tvm_ffi_add", "add")
    made = relax_files(adding(types=known).build(), source, symbol)
    model = frontends.load(write_library(made, tmp_path / "net.tar"))
    assert {(s.symbol, s.abi.convention) for s in model.steps} == {(kernel, convention)}


def test_model_of_a_graph(tmp_path: Path) -> None:
    """The same tensors, steps and parameters as the archive in the Model Library Format."""
    model = frontends.load(write_library(graph_files(), tmp_path / "tiny.tar"))
    twin = frontends.load(archives.write(archives.build(), tmp_path / "mlf.tar"))
    assert frontends.find_frontend(tmp_path / "mlf.tar").name == "mlf"
    assert model.tensors == twin.tensors
    assert model.steps == twin.steps
    assert (model.io_names, model.name, model.c_name) == (twin.io_names, twin.name, twin.c_name)
    assert model.targets == ("c -keys=cpu",)
    assert model.provenance.compiler_text == "TVM 0.20 or earlier"
    assert frontends.modules(tmp_path / "tiny.tar") == ()
    assert lines_of(model, "modules")[1].startswith("GraphExecutorFactory 'tiny': graph of ")


@pytest.mark.parametrize("kernel", ["__tvm_ffi_net_add", "__tvm_ffi_add"])
def test_system_library(tmp_path: Path, kernel: str) -> None:
    """Its kernels may have its prefix as well."""
    made = relax_files(adding().build(), ADD.replace("__tvm_ffi_add", kernel))
    made = {
        "lib0.c": made["lib0.c"],
        "net_devc.c": made["devc.c"].replace(b"__tvm_ffi__l", b"net___tvm_ffi__l"),
    }
    model = frontends.load(write_library(made, tmp_path / "net.tar"))
    assert {step.symbol for step in model.steps} == {kernel}


def test_graph_with_four_arguments(tmp_path: Path) -> None:
    model = frontends.load(write_library(graph_files(MIDDLE), tmp_path / "tiny.tar"))
    assert {step.abi.convention for step in model.steps} == {Convention.FFI}


def test_several_functions(tmp_path: Path) -> None:
    """Without a ``main`` one must be chosen."""
    one = adding(name="first")
    only = frontends.load(write_library(relax_files(one.build()), tmp_path / "one.tar"))
    assert only.name == "first"
    with pytest.raises(ModuleChoiceError, match="there is no function 'other'"):
        frontends.load(tmp_path / "one.tar", module="other")
    made = adding(name="first", end=9)
    made.words.append([2, 0])
    data = made.build()
    two = data.replace(b"\3\0\0\0\0\0\0\0add", b"\3\0\0\0\0\0\0\0sub")
    at = two.index(b"\3\0\0\0\0\0\0\0sub") - 4
    two = two[:at] + b"\1\0\0\0" + two[at + 4 :]
    end = at + 4 + 11
    two = (
        two[:end]
        + (9).to_bytes(8, "little")
        + (10).to_bytes(8, "little")
        + bytes(8)
        + (16).to_bytes(8, "little")
        + two[end + 32 :]
    )
    with pytest.raises(ModuleChoiceError, match="the bytecode has several functions") as caught:
        frontends.load(write_library(relax_files(two), tmp_path / "two.tar"))
    assert caught.value.names == ("first", "sub")


# ---- objects ----


def test_objects_are_joined(tmp_path: Path) -> None:
    """Only the kernels are seen from outside; variables for the runtime are defined by a source."""
    kernels = graph_kernels()
    pointer = ("__TVMAPISetLastError", 1, 0, 4, 0x21)
    unused = ("__tvm_module_ctx", 1, 0, 4, 0x21)
    objects = code(*kernels)
    objects.symbols += [pointer, unused]
    path = write_library({**graph_files(), "lib0.o": objects.build()}, tmp_path / "both.tar")
    assert "is defined" not in str(path)
    made = graph_files()
    del made["lib0.c"]
    model = frontends.load(write_library({**made, "lib0.o": objects.build()}, tmp_path / "o.tar"))
    assert model.exports == (*kernels, "__TVMAPISetLastError")
    lib, pointers = model.units
    assert (lib.linked, pointers.linked, pointers.member) == (True, True, "exported/pointers.c")
    assert b"(*const __TVMAPISetLastError)(const char *) = TVMAPISetLastError;" in pointers.data
    assert lib.symbols == model.exports
    assert lines_of(model, "code") == [f"lib0.o: ARM object, {len(objects.symbols)} symbols"]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("__TVMBackendAllocWorkspace", "through a variable: their workspaces are not known"),
        ("__TVMFuncCall", "call TVMFuncCall through variables"),
    ],
)
def test_variables_that_nothing_can_fill(tmp_path: Path, name: str, what: str) -> None:
    made, objects = graph_files(), code(*graph_kernels())
    objects.symbols.append((name, 1, 0, 4, 0x21))
    del made["lib0.c"]
    assert (
        what in frontends.load(write_library({**made, "lib0.o": objects.build()}, tmp_path / "o.tar")).blocked
    )


def graph_kernels() -> list[str]:
    return [f"tvmgen_tiny_fused_{name}" for name in ("multiply", "smooth", "add_relu")]


def test_shared_library(tmp_path: Path) -> None:
    """It is read, and not linked; a firmware is another kind of file."""
    blob = new_modules(("relax.VMExecutable", adding().build()), ("_lib", None))
    path = tmp_path / "net.so"
    path.write_bytes(shared_library(blob, "__tvm_ffi_add"))
    model = frontends.load(path)
    assert (len(model.steps), model.units, model.is_analysed) == (2, (), True)
    assert "shared library of x86-64 machine code" in model.blocked
    assert lines_of(model, "code") == ["x86-64 machine code, linked: 1 functions"]
    assert not is_elf(path)
    path.write_bytes(shared_library(blob, "__tvm_ffi_sub"))
    assert "calls 'add', and no code defines '__tvm_ffi_add'" in faults_of(path)
    path.write_bytes(shared_library(blob, "__tvm_ffi_add", symbol="other"))
    assert is_elf(path)
    assert not ExportedFrontend().recognise(path)


def test_stripped_shared_library(tmp_path: Path) -> None:
    """Of the tables of symbols only the dynamic one is left."""
    blob = new_modules(("relax.VMExecutable", adding().build()), ("_lib", None))
    data = bytearray(shared_library(blob, "__tvm_ffi_add"))
    (table,) = struct.unpack_from("<Q", data, 40)
    for at in range(table, len(data), 64):
        if struct.unpack_from("<I", data, at + 4)[0] == 2:
            struct.pack_into("<I", data, at + 4, 11)
    (tmp_path / "net.so").write_bytes(data)
    assert len(frontends.load(tmp_path / "net.so").steps) == 2


def test_objects_alone(tmp_path: Path) -> None:
    """The modules without code can be inspected; an object with both can be linked."""
    blob = new_modules(("relax.VMExecutable", adding().build()), ("_lib", None))
    path = tmp_path / "devc.o"
    path.write_bytes(elf(blob))
    model = frontends.load(path)
    assert model.blocked == "the file has no code, only modules: give the whole .tar"
    assert lines_of(model, "code") == ["none"]
    whole = code("__tvm_ffi_add")
    whole.sections[".rodata"] = (2, 0, blob)
    whole.symbols.append((NEW, 3, 0, 0, 0x11))
    path.write_bytes(whole.build())
    model = frontends.load(path)
    assert (model.blocked, model.exports) == ("", ("__tvm_ffi_add",))
    path.write_bytes(elf(blob[:-1]))
    assert "states" in faults_of(path)


# ---- recognition and damage ----


def test_other_files_are_no_library(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "plain.o").write_bytes(code("net").build())
    (tmp_path / "text.c").write_bytes(b"int x;")
    (tmp_path / "empty.tar").write_bytes(archives.tar_of([archives.entry("a/lib0.c", b"")]))
    for path in tmp_path.iterdir():
        assert not ExportedFrontend().recognise(path)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"devc.c": b"int x;"}, "devc.c: it holds no serialized modules"),
        ({"devc.c": array(b"123")}, "states"),
        ({"devc.o": FILES["devc.c"]}, "devc.o: the file is broken"),
        ({"a_devc.c": FILES["devc.c"]}, "the modules are in a_devc.c as well"),
        ({"lib1.cu": b""}, "lib1.cu: code of this kind is not supported"),
        ({"lib0.c": b"int x;"}, "calls 'add', and no code defines '__tvm_ffi_add'"),
        ({"lib1.o": b"not"}, "lib1.o"),
    ],
)
def test_damaged_archives(tmp_path: Path, change: dict[str, bytes], what: str) -> None:
    assert what in faults_of(write_library({**FILES, **change}, tmp_path / "net.tar"))


@pytest.mark.parametrize("name", ["../devc.c", "/devc.c", "lib0.c"])
def test_hostile_members(tmp_path: Path, name: str) -> None:
    entries = [archives.entry(n, d) for n, d in FILES.items()] + [archives.entry(name, b"")]
    (tmp_path / "net.tar").write_bytes(archives.tar_of(entries))
    assert faults_of(tmp_path / "net.tar")


def test_load_of_a_frontend(tmp_path: Path) -> None:
    """The interface without statements of the user gives the same model."""
    path = write_library(FILES, tmp_path / "net.tar")
    assert ExportedFrontend().load(path) == frontends.load(path)


def test_graphs_that_are_broken(tmp_path: Path) -> None:
    made = graph_files()
    bad = old_modules(("GraphExecutorFactory", factory(b"{", [], "a/b")), ("_lib", None))
    found = faults_of(write_library({**made, "devc.c": array(bad, OLD)}, tmp_path / "net.tar"))
    assert "the name of the module has a path separator" in found
    assert "JSON" in found or "json" in found


def test_names_of_kernels_are_c_identifiers(tmp_path: Path) -> None:
    made = Code().argument(0, 1, 4).allocate(1, 2, 1, 4).call("a-b", 0, 2).returns(2)
    assert "is not a C identifier" in faults_of(write_library(relax_files(made.build()), tmp_path / "n.tar"))


def test_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.o"
    path.write_bytes(elf(new_modules(("_lib", None), rows=(0, 0), children=())))
    monkeypatch.setattr(files, "DEFAULT_LIMITS", frontends.intake.limits.Limits(file_bytes=100))
    with pytest.raises(InputError, match="more than 100 bytes"):
        files.read_library(path)


def test_kinds_of_tensors(tmp_path: Path) -> None:
    model = frontends.load(write_library(FILES, tmp_path / "net.tar"))
    assert [t.kind for t in model.tensors if t.id in model.inputs] == [TensorKind.INPUT]
