# SPDX-License-Identifier: Apache-2.0
"""Parameters beside exported libraries, and libraries that can be inspected only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import archives
from exported_libraries import (
    ADD,
    NEW,
    OLD,
    Code,
    adding,
    aot,
    array,
    factory,
    graph_files,
    loader,
    named,
    new_modules,
    old_modules,
    relax_files,
    sized,
    write_library,
)
from mlf_sdk import frontends
from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.frontends import Stated
from mlf_sdk.frontends.exported import contents, parameters
from mlf_sdk.frontends.mlf.params import write_params
from mlf_sdk.ir.model import Model

FILES = relax_files(adding().build())
W = named("w", np.arange(4, dtype=np.float32))


def lines_of(model: Model, label: str) -> list[str]:
    return [line for name, lines in model.contents if name == label for line in lines]


# ---- parameters from another file ----


@pytest.mark.parametrize("kind", ["params", "npz"])
def test_parameters_from_a_file(tmp_path: Path, kind: str) -> None:
    made = Code(parameters=("x", "w")).argument(0, 1, 4).argument(1, 4).allocate(2, 3, 1, 4)
    path = write_library(relax_files(made.call("add", 0, 1, 3).returns(3).build()), tmp_path / "net.tar")
    file = tmp_path / f"w.{kind}"
    if kind == "params":
        file.write_bytes(write_params([W]))
    else:
        np.savez(file, w=W.array())
    assert frontends.load(path).io_names[0] == ("x", "w")
    model = frontends.load(path, stated=Stated(params=(str(file),)))
    assert model.io_names[0] == ("x",)
    assert [t.data for t in model.constants] == [W.data]


def test_parameters_of_a_graph_from_a_file(tmp_path: Path) -> None:
    spec = archives.Spec()
    made = archives.build()
    graph, params = made[archives.graph_member(spec)], archives.tensors(spec)
    library = graph_files() | {
        "devc.c": array(old_modules(("GraphRuntimeFactory", factory(graph, params[:1], "tiny")), ("_lib", None)), OLD)
    }  # fmt: skip
    path = write_library(library, tmp_path / "tiny.tar")
    file = tmp_path / "rest.params"
    file.write_bytes(write_params(params[1:]))
    whole = frontends.load(path, stated=Stated(params=(str(file),)))
    assert whole.tensors == frontends.load(archives.write(made, tmp_path / "mlf.tar")).tensors
    file.write_bytes(write_params(params))
    with pytest.raises(InputError, match=f"the parameter '{params[0].name}' is in the library"):
        frontends.load(path, stated=Stated(params=(str(file),)))
    file.write_bytes(write_params([named(params[1].name, np.zeros(3, np.int8))]))
    with pytest.raises(ArchiveError, match="is int8"):
        frontends.load(path, stated=Stated(params=(str(file),)))


def test_parameters_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_library(FILES, tmp_path / "net.tar")
    file = tmp_path / "w.params"
    file.write_bytes(write_params([W]))
    with pytest.raises(InputError, match="'w' is unknown to the library"):
        frontends.load(path, stated=Stated(params=(str(file),)))
    file.write_bytes(write_params([named("x", np.zeros(3, np.float32))]))
    assert "x" in frontends.load(path, stated=Stated(params=(str(file),))).blocked
    file.write_bytes(write_params([W])[:-1])
    with pytest.raises(ArchiveError, match="needs 16 bytes"):
        frontends.load(path, stated=Stated(params=(str(file),)))
    with pytest.raises(InputError, match="cannot be read"):
        frontends.load(path, stated=Stated(params=(str(tmp_path),)))
    monkeypatch.setattr(parameters, "_MAX_BYTES", 8)
    with pytest.raises(InputError, match="more than 8 bytes"):
        frontends.load(path, stated=Stated(params=(str(file),)))


@pytest.mark.parametrize(
    ("stated", "flag"), [(Stated(outputs=("y",)), "--output-name"), (Stated(types=("x=int8",)), "--type")]
)
def test_statements_that_are_refused(tmp_path: Path, stated: Stated, flag: str) -> None:
    with pytest.raises(InputError, match=flag):
        frontends.load(write_library(FILES, tmp_path / "net.tar"), stated=stated)


# ---- libraries that can be inspected only ----


@pytest.mark.parametrize(
    ("modules", "what"),
    [
        (old_modules(("AotExecutorFactory", aot([W], "net")), ("_lib", None)), "compiled for the AOT executor"),
        (old_modules(("const_loader", loader([W], {"dnnl": ["w"]})), ("_lib", None)), "a collection of functions"),
        (old_modules(("metadata_module", b""), ("_lib", None)), "a collection of functions"),
        (old_modules(("relax.Executable", sized(Code(types={"tensor": 0}).returns(3).build())), ("_lib", None)), "can't be planned: the function returns"),
    ],
)  # fmt: skip
def test_inspected_only(tmp_path: Path, modules: bytes, what: str) -> None:
    model = frontends.load(write_library({"lib0.c": b"", "devc.c": array(modules, OLD)}, tmp_path / "a.tar"))
    assert what in model.blocked
    assert (model.steps, model.executor) == ((), "library")


def test_functions_without_modules(tmp_path: Path) -> None:
    made = {"lib0.c": ADD.encode(), "lib1.cpp": b"", "weights.bin": b"1"}
    model = frontends.load(write_library(made, tmp_path / "functions.tar"))
    assert "a collection of functions" in model.blocked
    assert lines_of(model, "modules") == ["none: the library is its own root"]
    assert lines_of(model, "other files") == ["weights.bin"]
    assert lines_of(model, "code") == ["lib0.c: C source", "lib1.cc: C++ source"]
    assert frontends.modules(tmp_path / "functions.tar") == ()
    assert model.provenance.compiler_text == "TVM"


def test_contents_of_all_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = adding()
    for kind, value in (("int", 3), ("float", 0.5), ("dtype", (0, 0, 0))):
        made.constant(kind, value)
    made.call("vm.builtin.other", (3 << 56) | 1, *[0] * 21, to=1 << 54)
    made.call("vm.builtin.alloc_storage", 0, to=2)
    made.words += [[4, 0, 1], [3, -1]]
    parts = [
        ("relax.VMExecutable", made.build()),
        ("_lib", None),
        ("cuda", b"123"),
        ("const_loader", loader([], {})),
    ]
    blob = new_modules(*parts, rows=(0, 3, 4, 4, 4), children=(1, 2, 3, 3))
    library = {"lib0.c": ADD.encode(), "net_devc.c": array(blob, f"net_{NEW}"), "extra": b""}
    path = write_library(library, tmp_path / "net.tar")
    model = frontends.load(path)
    assert "system library 'net_'" in lines_of(model, "modules")[0]
    assert lines_of(model, "modules")[2:] == [
        "  _lib: the library's own code",
        "    const_loader: 0 parameters of 0 bytes for no module",
        "  cuda: 3 bytes, not decoded",
    ]
    text = "\n".join(lines_of(model, "bytecode"))
    assert "other(vm.builtin.check_tensor_info, x," in text
    assert ", ...)" in text
    assert "unless x go to 12" in text
    assert "go to 11" in text
    assert lines_of(model, "constants")[-3:] == ["13: int 3", "14: float 0.5", "15: dtype None"]
    monkeypatch.setattr(contents, "_MAX_LINES", 2)
    assert frontends.load(path).contents[1][1][-1].endswith("more")
