# SPDX-License-Identifier: Apache-2.0
"""Bundles read from files of any name and form, and everything that can be wrong with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from glow_bundles import ROWS, Dynamic, Placeholder, Text, X, Y, archive, code, write_bundle
from mlf_sdk import frontends
from mlf_sdk.errors import ArchiveError, InputError, ModuleChoiceError, UndecidedError
from mlf_sdk.frontends import Stated
from mlf_sdk.frontends.glow import files
from mlf_sdk.frontends.glow.frontend import GlowFrontend
from mlf_sdk.ir.abi import Convention, ValueKind
from mlf_sdk.ir.model import Model, TensorKind, UnitKind
from mlf_sdk.planner.layout import lay_out

TYPES = ("x=float32[1,8]", "y=float32[1,4]")


def faults_of(path: Path, **options: Any) -> str:
    with pytest.raises(ArchiveError) as caught:
        frontends.load(path, **options)
    assert caught.value.exit_code == 2
    return "\n".join(map(str, caught.value.faults))


# ---- the model ----


def test_model_of_a_static_bundle(tmp_path: Path) -> None:
    model = frontends.load(write_bundle(tmp_path / "b"))
    assert (model.name, model.io_names, model.executor) == ("net", (("x",), ("y",)), "bundle")
    assert model.provenance.format_text == "Glow bundle (static API)"
    assert model.provenance.compiler_text == "Glow 2024-05-11 (05dd99b97)"
    assert model.targets == ("cortex-m4, VFPv4-D16, hard float arguments",)
    assert model.exports == ("net",)
    (step,) = model.steps
    assert (step.abi.convention, step.abi.result) == (Convention.C, "int")
    assert [value.kind for value in step.abi.values] == [ValueKind.TENSOR] * 3
    assert model.alignment == 64
    layout = lay_out(model)
    memory = {t.name: layout.offset(t.id) for t in model.tensors if t.kind is not TensorKind.CONSTANT}
    assert memory == {"memory": 0, "activations": 128, "x": 0, "y": 64}
    assert (layout.arena_bytes, layout.params_bytes, layout.io_bytes) == (192, 64, 48)
    assert layout.params_blob() == bytes(range(64))


@pytest.mark.parametrize("name", ["", "net.o", "net.h"])
def test_any_file_of_it_is_taken(tmp_path: Path, name: str) -> None:
    """Folder, object and header give one model, with one digest."""
    folder = write_bundle(tmp_path / "b")
    path = folder / name
    assert frontends.find_frontend(path).name == "glow"
    assert frontends.load(path).provenance.sha256 == frontends.load(folder).provenance.sha256
    assert frontends.modules(path) == ("net",)
    files = {file.name for file in GlowFrontend().files(path) if file.is_file()}
    assert files == {file.name for file in folder.iterdir()}
    assert frontends.examine(path).findings == ()


def test_other_files_are_no_bundle(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b")
    (tmp_path / "plain.h").write_text("#define _GLOW_BUNDLE_COMMON_DEFS\n")
    (tmp_path / "other.o").write_bytes(code("net").build())
    (tmp_path / "linked.o").write_bytes(code("net").build()[:16] + b"\x02\x00" + b"\0" * 40)
    (tmp_path / "empty.o").write_bytes(b"")
    for path in (tmp_path, tmp_path / "missing", folder / "net.weights.bin", *tmp_path.glob("*.?")):
        assert not GlowFrontend().recognise(path)
    with pytest.raises(InputError, match="a relocatable object"):
        frontends.load(tmp_path / "other.o")


def test_names_need_not_agree(tmp_path: Path) -> None:
    """One header and one object in a folder belong together; so do constants of another name."""
    folder = write_bundle(tmp_path / "b", data=code("infer").build(), name="other", entries=("void infer",))
    (folder / "net.weights.bin").rename(folder / "third.weights")
    (folder / "net.o").rename(folder / "file.obj")
    model = frontends.load(folder)
    assert (model.name, model.steps[0].symbol, model.steps[0].abi.result) == ("other", "infer", "void")


def test_the_entry_must_be_in_the_object(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", entries=("int net", "int absent"))
    assert faults_of(folder, module="net") == "net.o: it does not define the entry 'absent'"


def test_several_bundles_in_a_folder(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b")
    for old in list(folder.iterdir()):
        (folder / old.name.replace("net", "second", 1)).write_bytes(old.read_bytes())
    assert frontends.modules(folder) == ("net", "second")
    assert frontends.load(folder, "second").provenance.source == str(folder)
    assert frontends.load(folder / "second.o").name == "net"
    for module in (None, "third"):
        with pytest.raises(ModuleChoiceError, match="several bundles"):
            frontends.load(folder, module)


def test_several_entries(tmp_path: Path) -> None:
    """Each is a model of its own, called like the entry; the order in memory decides nothing."""
    text = Text(entries=("int add", "int mul"))
    folder = write_bundle(tmp_path / "b", text, code("add", "mul").build())
    assert frontends.modules(folder) == ("add", "mul")
    with pytest.raises(ModuleChoiceError, match="several entries"):
        frontends.load(folder)
    with pytest.raises(ModuleChoiceError, match="no entry 'sub'"):
        frontends.load(folder, "sub")
    with pytest.raises(UndecidedError) as caught:
        frontends.load(folder, "mul")
    assert caught.value.names == ("x", "y")
    model = frontends.load(folder, "mul", Stated(outputs=("y",)))
    assert (model.name, model.exports, model.outputs) == ("mul", ("mul",), (3,))


# ---- code ----


def test_an_archive_of_objects(tmp_path: Path) -> None:
    """Members are taken as a linker takes them, and never by their names."""
    members = [
        ("/abs/../../net.o", code("net", undefined=["kernel", "expf"]).build()),
        ("unused.o", code("unused").build()),
        ("k.o", code("kernel", "other").build()),
        ("k.o", code("kernel").build()),
    ]
    folder = write_bundle(tmp_path / "b", data=archive(members))
    model = frontends.load(folder)
    assert [(u.member, u.symbols, u.kind) for u in model.units] == [
        ("bundle/part0.o", ("net",), UnitKind.OBJECT),
        ("bundle/part1.o", (), UnitKind.OBJECT),
    ]
    assert [u.data for u in model.units] == [members[0][1], members[2][1]]
    (folder / "net.o").write_bytes(archive(members, index=False))
    assert (
        faults_of(folder)
        == "net.o: the archive of objects is broken: it has no symbol index: make one with ranlib"
    )
    (folder / "net.o").write_bytes(archive([*members, ("bad.o", b"\x7fELF")]))
    assert "net.o ('bad.o'): the object file is broken" in faults_of(folder)


def test_a_dynamic_bundle_in_an_archive(tmp_path: Path) -> None:
    members = [("k.o", code("kernel").build()), ("net.o", Dynamic().build())]
    folder = write_bundle(tmp_path / "b", None, archive(members))
    stated = Stated(types=TYPES, outputs=("y",))
    assert frontends.load(folder, stated=stated).steps[0].symbol == "net"
    (folder / "net.o").write_bytes(archive(members)[:-8])
    assert not GlowFrontend().recognise(folder)


def test_object_without_attributes(tmp_path: Path) -> None:
    made = code("net")
    del made.sections[".ARM.attributes"]
    assert frontends.load(write_bundle(tmp_path / "b", data=made.build())).targets == ("ARM",)
    made = code("net")
    made.sections[".ARM.attributes"] = (0, 0, b"A\x10\0\0\0aeabi\0\x01\x06\0\0\0")
    made.sections[".ARM.attributes"] = (0, 0, b"A\x11\0\0\0aeabi\0\x01\x07\0\0\0\x06\x0d")
    model = frontends.load(write_bundle(tmp_path / "c", data=made.build()))
    assert model.targets == ("ARMv7E-M, no FPU, no float arguments",)


def test_no_object(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b")
    (folder / "net.o").unlink()
    assert "there is no object file" in faults_of(folder / "net.h")


# ---- constants ----


def as_text(data: bytes) -> str:
    rows = (data[i : i + 20] for i in range(0, len(data), 20))
    return "\n".join("".join(f" 0X{byte:02X}," for byte in row) for row in rows) + "\n"


def as_array(data: bytes) -> str:
    return f"/* made by xxd */\nconst unsigned char net_bin[] = {{ // all\n{as_text(data).rstrip(',')}\n}};\nint n;\n"


DATA = bytes(range(64))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("net.weights.bin", DATA),
        ("net.weights", DATA),
        ("net.bin", DATA),
        ("net.weights.txt", as_text(DATA)),
        ("net.txt", as_text(DATA)),
        ("net.inc", as_text(DATA)),
        ("net_weights.h", as_array(DATA)),
        ("net.weights.c", as_array(DATA)),
    ],
)
def test_constants_of_every_form(tmp_path: Path, name: str, content: bytes | str) -> None:
    folder = write_bundle(tmp_path / "b")
    (folder / "net.weights.bin").unlink()
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert frontends.load(folder).constants[0].data == DATA


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"net.weights.bin": DATA[:63]}, "it holds 63 bytes; the constants of the bundle have 64"),
        ({"net.weights.bin": DATA + b"\0"}, "it holds 65 bytes"),
        ({"net.weights.txt": as_text(DATA[:60])}, "net.weights.txt: it holds 60 bytes"),
        ({"net.weights.txt": as_text(b"\1" + DATA[1:])}, "it differs from net.weights.bin, first in byte 0"),
        ({"net.weights.txt": "0x1, what"}, "neither a list of bytes nor an array"),
        ({"net_weights.h": "char net[] = { 0x12,"}, "neither a list of bytes nor an array"),
        ({"net.weights.txt": " " * 70000}, "too long for 64 bytes"),
        ({"net.weights.bin": None}, "no file with the 64 bytes of constants"),
    ],
)
def test_constants_that_do_not_fit(tmp_path: Path, more: dict[str, Any], what: str) -> None:
    folder = write_bundle(tmp_path / "b")
    for name, content in more.items():
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert what in faults_of(folder)


def test_binary_and_text_that_agree(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b")
    (folder / "net.weights.txt").write_text(as_text(DATA))
    assert frontends.load(folder).constants[0].data == DATA


def test_no_constants_and_no_activations(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", sizes=(0, 128, 0, 64))
    (folder / "net.weights.bin").unlink()
    model = frontends.load(folder)
    assert model.constants == ()
    assert next(v.kind for v in model.steps[0].abi.values) is ValueKind.NULL
    assert lay_out(model).arena_bytes == 128


# ---- directions ----


@pytest.mark.parametrize(
    ("change", "outputs"),
    [
        ({}, ("y",)),
        ({"placeholders": (replace(X, offset=64), replace(Y, offset=0))}, ("x",)),
        ({"version": ""}, None),
        ({"version": "", "placeholders": (X, replace(Y, name="save_y"))}, ("save_y",)),
        ({"version": "", "placeholders": (replace(X, name="save_x"), replace(Y, name="save_y"))}, None),
        ({"placeholders": (X, Y, Placeholder("z", 128, (1,))), "sizes": (64, 192, 64, 64)}, None),
        ({"placeholders": (X,)}, None),
    ],
)
def test_evidence_of_directions(
    tmp_path: Path, change: dict[str, Any], outputs: tuple[str, ...] | None
) -> None:
    folder = write_bundle(tmp_path / "b", **change)
    if outputs is None:
        with pytest.raises(UndecidedError, match="does not state which tensors are outputs") as caught:
            frontends.load(folder)
        assert set(caught.value.names) == {p.name for p in change.get("placeholders", (X, Y))}
    else:
        assert frontends.load(folder).output_names == outputs
    with pytest.raises(UndecidedError, match="no placeholder 'q'"):
        frontends.load(folder, stated=Stated(outputs=("q",)))


def test_a_statement_overrides_the_evidence(tmp_path: Path) -> None:
    model = frontends.load(write_bundle(tmp_path / "b"), stated=Stated(outputs=("x",)))
    assert model.io_names == (("y",), ("x",))


# ---- the dynamic API ----


@pytest.mark.parametrize("bits", [32, 64])
def test_dynamic_bundle(tmp_path: Path, bits: int) -> None:
    """Sizes and placeholders come from the object; types from the header."""
    data = Dynamic(bits=bits).build()
    folder = write_bundle(tmp_path / "b", data=data, config="net")
    model = frontends.load(folder)
    assert (model.io_names, model.provenance.format_version) == ((("x",), ("y",)), "(dynamic API)")
    assert model.tensors[2].shape == (1, 8)
    assert lay_out(model).arena_bytes == 192


def headerless(folder: Path, made: Dynamic) -> Path:
    return write_bundle(folder, None, made.build())


def test_without_a_header(tmp_path: Path) -> None:
    """Types are asked for; the entry is the object's function, and may return nothing."""
    folder = headerless(tmp_path / "b", Dynamic(rows=(ROWS[0], ("save_y", 64, 4, 1))))
    with pytest.raises(InputError, match=r"types are not stated: x \(8 elements\), save_y"):
        frontends.load(folder)
    types = ("x=float32[1,8]", "save_y=int8")
    model = frontends.load(folder, stated=Stated(types=types))
    assert [(t.name, t.dtype.name, t.shape) for t in model.tensors[2:4]] == [
        ("x", "float32", (1, 8)),
        ("save_y", "int8", (4,)),
    ]
    assert (model.steps[0].abi.result, model.output_names) == ("void", ("save_y",))
    assert model.provenance.compiler_text == "Glow"


@pytest.mark.parametrize(
    ("types", "what"),
    [
        ((*TYPES, "z=int8"), "no placeholder 'z'"),
        (("x=float32[9]", TYPES[1]), "'x' has 8 elements, and 9 are stated"),
        (("x=float32[8]", "y=float64x4"), "invalid value 'y=float64x4'|has room"),
        (("x=float64x4", TYPES[1]), "room for 64 bytes"),
        (("x=float32", "x=int8"), "invalid value 'x=int8'"),
        (("x",), "invalid value 'x'"),
        (("x=float33", TYPES[1]), "no such element type"),
    ],
)
def test_stated_types_that_do_not_fit(tmp_path: Path, types: tuple[str, ...], what: str) -> None:
    with pytest.raises(InputError, match=what):
        frontends.load(headerless(tmp_path / "b", Dynamic()), stated=Stated(types=types, outputs=("y",)))


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (Dynamic(stated=4), ""),  # 2018 and 2019: counts constants as well
        (Dynamic(rows=(*ROWS, ("w", 0, 16, 0))), ""),  # early 2018: constants are listed
        (Dynamic(table_bytes=0), ""),  # the symbol has no size
        (Dynamic(stated=1), "numSymbols is 1; the table has 2 rows"),
        (Dynamic(stated=1 << 40), "numSymbols is 1099511627776"),
        (Dynamic(table_bytes=0, stated=4), "the table of 4 symbols at offset 0 lies outside its section"),
        (Dynamic(table_bytes=32 * 5000, stated=5000), "the table has 5000 rows; at most"),
        (Dynamic(rows=(("x", 0, 8, 7), ROWS[1])), "row 0 of the table is of the unknown kind 7"),
        (Dynamic(rows=(("", 0, 8, 1), ROWS[1])), "name at offset 0 is empty"),
        (Dynamic(rows=(("a\1", 0, 8, 1), ROWS[1])), "name at offset 0 is empty, unprintable"),
        (Dynamic(rows=(("x", 1 << 40, 8, 1), ROWS[1])), "row 0 of the table has a size or offset beyond"),
        (Dynamic(rows=(("x", 64, 8, 1), ROWS[1])), "overlaps"),
        (Dynamic(rows=(("x", 0, 8, 1), ("x", 64, 4, 1))), "two placeholders are called 'x'"),
        (Dynamic(rows=(("x", 32, 8, 1), ROWS[1])), "offset 32 of 'x' is not a multiple of 64"),
        (
            Dynamic(rows=(("x", 0, 8, 1), ("y", 128, 4, 1))),
            "'y' ends at byte 132; the mutable memory has 128",
        ),
        (Dynamic(rows=(("w", 0, 16, 0),)), "it lists no placeholders"),
        (Dynamic(early=True), "it lists no placeholders"),
        (Dynamic(sizes=(64, 120, 64, 64)), "size of the mutable memory, 120, is not a multiple of 64"),
        (Dynamic(sizes=(1 << 40, 128, 64, 64)), "size of the constant memory, 1099511627776, is more than"),
        (Dynamic(sizes=(64, 128, 64, 48)), "alignment 48 is not a power of two"),
        (Dynamic(entries=()), "no global function beside the configuration"),
        (Dynamic(entries=("if",)), "an entry is reserved in C"),
    ],
)
def test_configurations(tmp_path: Path, made: Dynamic, what: str) -> None:
    folder = headerless(tmp_path / "b", made)
    stated = Stated(types=TYPES, outputs=("y",))
    if what:
        assert what in faults_of(folder, stated=stated)
    else:
        assert frontends.load(folder, stated=stated).io_names == (("x",), ("y",))


def test_pointers_of_a_configuration(tmp_path: Path) -> None:
    made = Dynamic().elf()
    cases = []
    for name, change in {
        "has no relocation": lambda e: e.relocations[".rodata"].pop(),
        "leads out of the object": lambda e: e.symbols.__setitem__(1, ("away", 0, 0, 0, 0x10)),
        "at offset 4096 lies outside its section": lambda e: e.symbols.__setitem__(0, ("", 2, 4096, 0, 3)),
    }.items():
        elf = Dynamic().elf()
        change(elf)
        cases.append((elf, name))
    for number, (elf, what) in enumerate(cases):
        folder = write_bundle(tmp_path / str(number), None, elf.build())
        assert what in faults_of(folder, stated=Stated(types=TYPES)), what
    assert made.build()


def test_a_name_before_its_section(tmp_path: Path) -> None:
    elf = Dynamic(bits=64).elf()
    offset, symbol, _ = elf.relocations[".rodata"][0]
    elf.relocations[".rodata"][0] = (offset, symbol, -1)
    folder = write_bundle(tmp_path / "b", None, elf.build())
    assert "the name at offset -1" in faults_of(folder, stated=Stated(types=TYPES))


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ({"config": "other"}, "it holds 0 configurations of a bundle called other_config"),
        (
            {"config": "net", "placeholders": (X, replace(Y, offset=128))},
            "does not have 'y' as the header has it",
        ),
        ({"config": "net", "placeholders": (X,)}, "its configuration has 2 placeholders; the header 1"),
    ],
)
def test_header_and_configuration(tmp_path: Path, header: dict[str, Any], what: str) -> None:
    assert what in faults_of(write_bundle(tmp_path / "b", data=Dynamic().build(), **header))


def test_header_of_a_dynamic_bundle_whose_object_has_no_configuration(tmp_path: Path) -> None:
    assert "it holds 0 configurations" in faults_of(write_bundle(tmp_path / "b", config="net"))


def test_early_configuration_with_a_header(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", data=Dynamic(early=True).build(), config="net")
    assert frontends.load(folder).io_names == (("x",), ("y",))


# ---- intake ----


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_bundle(tmp_path / "b")
    monkeypatch.setattr(
        files, "DEFAULT_LIMITS", msgspec.structs.replace(files.DEFAULT_LIMITS, file_bytes=100)
    )
    with pytest.raises(InputError, match="more than 100 bytes"):
        frontends.load(folder)
    headerless(tmp_path / "c", Dynamic())
    assert not GlowFrontend().recognise(tmp_path / "c")


def test_unreadable_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_bundle(tmp_path / "b")
    found = files.find_bundles(folder)[0]
    (folder / "net.weights.bin").unlink()
    with pytest.raises(InputError, match="no such file"):
        files.read_files(found, folder)
    real = Path.open

    def refuse(path: Path, *given: Any, **more: Any) -> Any:
        if path.suffix == ".o":
            raise PermissionError(13, "Permission denied")
        return real(path, *given, **more)

    monkeypatch.setattr(Path, "open", refuse)
    assert files.find_bundles(folder)[0].code is None


def test_links_and_hidden_files_of_a_folder_are_passed_over(tmp_path: Path) -> None:
    write_bundle(tmp_path / "real")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "net.h").symlink_to(tmp_path / "real" / "net.h")
    (tmp_path / "b" / ".net.h").write_bytes((tmp_path / "real" / "net.h").read_bytes())
    assert not GlowFrontend().recognise(tmp_path / "b")
    assert isinstance(GlowFrontend().load(tmp_path / "real"), Model)
