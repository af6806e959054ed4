# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from archives import Spec, build, edit_json, graph_member, merge, tensors, without, write
from mlf_sdk.errors import ArchiveError
from mlf_sdk.frontends.mlf.archive import RawArchive, RawModule, load_mlf

GRAPH = graph_member(Spec())
LIB0, LIB1 = "codegen/host/src/tiny_lib0.c", "codegen/host/src/tiny_lib1.c"
ELF = b"\x7fELF" + bytes(60)


@pytest.fixture
def load(tmp_path: Path) -> Any:
    def load(files: Mapping[str, bytes]) -> RawArchive:
        return load_mlf(write(files, tmp_path / "a.tar"))

    return load


@pytest.fixture
def one(load: Any) -> Any:
    def one(files: Mapping[str, bytes]) -> RawModule:
        (module,) = load(files).modules
        return module

    return one


@pytest.fixture
def faults(load: Any) -> Any:
    def faults(files: Mapping[str, bytes]) -> list[str]:
        with pytest.raises(ArchiveError) as caught:
            load(files)
        return [str(fault) for fault in caught.value.faults]

    return faults


@pytest.mark.parametrize(
    ("version", "member", "sources"),
    [
        (1, "runtime-config/graph/graph.json", ["lib0.c", "lib1.c"]),
        (4, "runtime-config/graph/graph.json", ["tiny_lib0.c", "tiny_lib1.c"]),
        (5, "executor-config/graph/graph.json", ["tiny_lib0.c", "tiny_lib1.c"]),
        (7, "executor-config/graph/tiny.graph", ["tiny_lib0.c", "tiny_lib1.c"]),
    ],
)
def test_members_of_every_version(load: Any, version: int, member: str, sources: list[str]) -> None:
    spec = Spec(version=version)
    archive = load(build(spec))
    (module,) = archive.modules
    assert archive.version == version
    assert module.graph_member == member
    assert [Path(file.member).name for file in module.sources] == sources
    assert {file.kind for file in module.sources} == {"c"}
    assert module.params == tensors(spec)
    assert module.relay is not None
    assert module.relay.startswith("def @main")
    assert module.interface is None


def test_the_c_interface(one: Any) -> None:
    module = one(build(kind="aot-c"))
    assert module.interface.inputs == ("x",)
    assert [file.kind for file in module.sources] == ["h", "c", "c"]
    assert (module.graph, module.graph_member, module.params) == (None, None, ())


def test_operators(one: Any) -> None:
    module = one(build(kind="operator"))
    assert [file.member for file in module.sources] == ["codegen/host/src/lib0.c", "codegen/host/src/lib1.c"]
    assert module.relay == "primfn(A, B)\n"


def test_code_of_every_kind_in_natural_order(one: Any) -> None:
    files = build()
    more = {f"codegen/host/src/tiny_lib{n}.c": b"int x;\n" for n in (2, 9, 10)}
    more["codegen/host/src/tiny_lib3.cc"] = more["codegen/host/src/tiny_lib4.cpp"] = b"int y;\n"
    more["codegen/host/lib/tiny_lib5.o"] = ELF
    module = one({**files, **more})
    assert [(Path(file.member).name, file.kind) for file in module.sources] == [
        ("tiny_lib5.o", "o"),
        ("tiny_lib0.c", "c"),
        ("tiny_lib1.c", "c"),
        ("tiny_lib2.c", "c"),
        ("tiny_lib3.cc", "cc"),
        ("tiny_lib4.cpp", "cc"),
        ("tiny_lib9.c", "c"),
        ("tiny_lib10.c", "c"),
    ]


def test_functions_may_be_in_an_object(one: Any) -> None:
    names = b"\x00".join(
        b"tvmgen_tiny_" + name for name in (b"fused_multiply", b"fused_smooth", b"fused_add_relu")
    )
    files = {**without(build(), LIB0, LIB1), "codegen/host/lib/tiny_lib0.o": ELF + names}
    assert one(files).graph is not None


def test_one_module_owns_all_whatever_the_names(one: Any) -> None:
    files = build()
    renamed = {
        "codegen/host/src/devc.c": files[LIB1],
        "parameters/other.params": files["parameters/tiny.params"],
        "executor-config/graph/graph.json": files[GRAPH],
        "src/other.relay": files["src/tiny.relay"],
    }
    module = one({**without(files, LIB1, "parameters/tiny.params", GRAPH, "src/tiny.relay"), **renamed})
    assert module.graph_member == "executor-config/graph/graph.json"
    assert module.params == tensors(Spec())
    assert module.relay is not None


def test_several_modules(load: Any) -> None:
    specs = Spec(name="net"), Spec(name="net_2", dtype="int8"), Spec(name="Net:3", kind="aot-c")
    files = merge(*specs[:2], Spec(name="Net_3", kind="aot-c"))
    files["codegen/host/include/shared.h"] = b"int z;\n"
    archive = load(files)
    assert [module.metadata.name for module in archive.modules] == ["net", "net_2", "Net_3"]
    for module, spec in zip(archive.modules[:2], specs, strict=False):
        assert module.graph_member == f"executor-config/graph/{spec.name}.graph"
        assert module.params == tensors(spec)
        assert [file.member for file in module.sources] == [
            "codegen/host/include/shared.h",
            f"codegen/host/src/{spec.name}_lib0.c",
            f"codegen/host/src/{spec.name}_lib1.c",
        ]
    assert archive.modules[2].interface is not None
    assert archive.modules[2].relay is not None


def test_a_module_of_several_does_not_get_the_members_of_another(faults: Any) -> None:
    files = merge(Spec(name="a"), Spec(name="b"))
    missing = without(files, "executor-config/graph/b.graph", "parameters/b.params", "src/b.relay")
    assert faults(missing) == [
        "executor-config/graph/: no graph of module 'b', whose executor is the graph's",
        "parameters/: no parameters of module 'b'",
    ]


def test_relay_and_header_may_be_missing(one: Any) -> None:
    assert one(without(build(), "src/tiny.relay")).relay is None
    assert one(build(kind="aot-packed")).interface is None


def test_aot_needs_no_parameters(one: Any) -> None:
    assert one(without(build(kind="aot-c"), "parameters/tiny.params")).params == ()


def test_linked_parameters(one: Any) -> None:
    files = build()
    files["parameters/tiny.params"] = build(kind="aot-c")["parameters/tiny.params"]
    module = one(files)
    assert (module.params, len(module.graph.arg_nodes)) == ((), 3)


@pytest.mark.parametrize(
    "name",
    ['image:0 "x" */', "${HOME}", "$(reboot)", "{{ 7*7 }}", "a'b`c", "\u8f93\u5165", "-o", "..", "%s%n"],
)
def test_odd_tensor_names_are_kept_as_they_are(one: Any, name: str) -> None:
    files = edit_json(build(), GRAPH, lambda top: top["nodes"][0].update(name=name))
    assert one(files).graph.nodes[0].name == name


@pytest.mark.parametrize(
    "name", ['a "model" *', "${HOME} $(reboot)", "{{ 7*7 }}", "a;b'c`d", "\u6a21\u578b", "-o", "a:0"]
)
@pytest.mark.parametrize("version", [2, 7])
def test_odd_module_names_are_kept_as_they_are(one: Any, version: int, name: str) -> None:
    def rename(top: Any) -> None:
        top["model_name"] = name
        if version == 7:
            top["modules"] = {name: top["modules"]["tiny"]}

    assert one(edit_json(build(version=version), "metadata.json", rename)).metadata.name == name


def test_the_archive_is_identified(tmp_path: Path) -> None:
    one = load_mlf(write(build(), tmp_path / "one.tar"))
    two = load_mlf(write(build(), tmp_path / "two.tar"))
    other = load_mlf(write(build(dtype="int8"), tmp_path / "other.tar"))
    assert one.sha256 == two.sha256 != other.sha256
    assert (one.source, two.source) == (str(tmp_path / "one.tar"), str(tmp_path / "two.tar"))


def test_faults_of_all_members_are_reported_together(faults: Any) -> None:
    files = build(kind="aot-c")
    files["parameters/tiny.params"] = b"x"
    files["src/tiny.relay"] = b"\xff"
    files["codegen/host/src/tiny_lib0.c"] += b"\x00"
    files["codegen/host/include/tvmgen_tiny.h"] = b"// nothing\n"
    files["codegen/host/lib/tiny_lib9.o"] = b"text"
    files["codegen/host/lib/notes.md"] = b"text"
    files["metadata.json"] = build(version=7)["metadata.json"]
    assert faults(files) == [
        "codegen/host/lib/notes.md: unknown kind of code; .c, .cc, .cpp, .S, .o and .h under codegen/host are read",
        "parameters/tiny.params: byte 0: the header needs 24 bytes, 1 are left",
        "src/tiny.relay: byte 0: invalid UTF-8",
        "codegen/host/include/tvmgen_tiny.h: no function ends in '_run'; one is the entry",
        "codegen/host/lib/tiny_lib9.o: is not an ELF object file",
        f"codegen/host/src/tiny_lib0.c: byte {len(files[LIB0]) - 1}: source text with a NUL",
        "executor-config/graph/: no graph of module 'tiny', whose executor is the graph's",
    ]


def test_members_are_looked_at_though_the_metadata_is_broken(faults: Any) -> None:
    files = {**build(), "metadata.json": b"{", GRAPH: b"[]", "parameters/tiny.params": b""}
    seen = faults(files)
    assert [fault.split(":")[0] for fault in seen] == ["metadata.json", GRAPH, "parameters/tiny.params"]


def test_a_nested_archive_gets_a_hint(tmp_path: Path) -> None:
    nested = {f"model/{name}": data for name, data in build().items()}
    with pytest.raises(ArchiveError) as caught:
        load_mlf(write(nested, tmp_path / "a"))
    assert caught.value.hint == "There is a model/metadata.json: pack the archive from inside that folder."
    with pytest.raises(ArchiveError) as caught:
        load_mlf(write(without(build(), "metadata.json"), tmp_path / "b.tar"))
    assert "metadata.json: is missing" in str(caught.value)
    assert "pack the archive" not in caught.value.hint


def test_a_function_in_no_file(faults: Any) -> None:
    files = build()
    for member in (LIB0, LIB1):
        files[member] = files[member].replace(b"fused_smooth", b"fused_smooth_1")
    assert faults(files) == [
        f"{GRAPH}: $.nodes[3].attrs.func_name: function 'tvmgen_tiny_fused_smooth' is in no code file"
    ]


def test_a_function_that_is_only_in_a_header(faults: Any) -> None:
    files = build(kind="operator")
    header = b"int other(void);\n"
    files["codegen/host/include/other.h"] = header
    files = edit_json(
        files, "metadata.json", lambda top: top["memory"].update(other=top["memory"].pop("scale"))
    )
    assert faults(files) == ["metadata.json: function 'other' of module 'tiny' is in no code file"]


def test_looking_for_functions_is_bounded(one: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a budget, and for code made of near hits, finding out is left to the linker."""
    files = build()
    files[LIB0] = b"int x;\n"
    files[LIB1] = (
        b"tvmgen_tiny_fused_smoothly " * 1000 + b"tvmgen_tiny_fused_multiply(tvmgen_tiny_fused_add_relu("
    )
    assert one(files).graph is not None
    files[LIB1] = b"int y;\n"
    monkeypatch.setattr("mlf_sdk.frontends.mlf.archive._SCAN_BYTES", 0)
    assert one(files).graph is not None
