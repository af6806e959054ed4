# SPDX-License-Identifier: Apache-2.0
"""Formats are found by content; an unknown file gets one error that says what it looks like."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from archives import Spec, build, merge, write
from mlf_sdk import frontends
from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.frontends import registry
from mlf_sdk.frontends.analysis import analyse
from mlf_sdk.ir.model import Model


class Never(frontends.Frontend):
    """A format of files that begin with ``never``."""

    name = "never"
    title = "a test's format"

    def recognise(self, path: Path) -> bool:
        return path.is_file() and path.read_bytes().startswith(b"never")

    def load(self, path: Path, module: str | None = None) -> Model:
        raise ArchiveError(str(path), ())


@pytest.fixture
def never() -> Iterator[None]:
    frontends.register_frontend(Never())
    yield
    frontends.unregister_frontend("never")


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.xz", "a.bin", "folder"])
def test_found_by_content(tmp_path: Path, name: str) -> None:
    path = write(build(), tmp_path / name)
    assert frontends.find_frontend(path).name == "mlf"
    assert frontends.load(path).name == "tiny"
    assert frontends.modules(path) == ("tiny",)
    assert frontends.examine(path).model == analyse(frontends.load(path), None)


def test_modules(tmp_path: Path) -> None:
    path = write(merge(Spec(name="first"), Spec(name="second")), tmp_path / "a.tar")
    assert frontends.modules(path) == ("first", "second")
    assert frontends.load(path, "second").name == "second"
    assert frontends.modules(write(build(kind="operator"), tmp_path / "b.tar")) == ("scale",)


def test_registered_format(tmp_path: Path, never: None) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"never mind")
    found = frontends.find_frontend(path)
    assert found.name == "never"
    assert found.modules(path) == ()
    with pytest.raises(ArchiveError):
        frontends.examine(path)


@pytest.mark.parametrize("name", ["never", "mlf"])
def test_name_that_is_taken(never: None, name: str) -> None:
    class Other(Never):
        pass

    Other.name = name
    with pytest.raises(InputError, match=f"a format '{name}' already"):
        frontends.register_frontend(Other())


def test_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "never_format-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: never-format\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[mlf_sdk.frontends]\nnever = never_format:Never\n")
    (tmp_path / "never_format.py").write_text(f"from {__name__} import Never\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "x"
    path.write_bytes(b"never mind")
    assert frontends.find_frontend(path).name == "never"
    (package / "entry_points.txt").write_text("[mlf_sdk.frontends]\nbad = never_format:Missing\n")
    with pytest.raises(InputError, match="the format 'bad' can't be loaded") as caught:
        frontends.find_frontend(path)
    assert "never_format:Missing of never-format" in caught.value.where


def elf(kind: int, order: int = 1) -> bytes:
    head = bytearray(b"\x7fELF\x01" + bytes([order]) + bytes(60))
    head[16:18] = kind.to_bytes(2, "little" if order == 1 else "big")
    return bytes(head)


def tar(*names: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    return buffer.getvalue()


UNKNOWN = {
    "empty": (b"", "an empty file", ""),
    "text": ("model: größe\n".encode(), "a text file", ""),
    "noise": (bytes(range(256)), "a file of an unknown kind", ""),
    "firmware": (elf(2), "a linked program (ELF)", "Give the archive that the firmware was made from"),
    "big-endian object": (elf(1, order=2), "a relocatable object (ELF)", ""),
    "library": (elf(3), "a shared library (ELF)", ""),
    "cut ELF": (b"\x7fELF", "a file (ELF)", ""),
    "zip": (b"PK\x03\x04", "a zip archive (perhaps .npz)", ""),
    "ar": (b"!<arch>\nx", "a library of objects (ar)", ""),
    "tar": (tar("main.c", "data.bin"), "a tar archive", ""),
    "gzip": (gzip.compress(tar("main.o")), "a gzip archive", ""),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_file(tmp_path: Path, name: str, never: None) -> None:
    data, look, hint = UNKNOWN[name]
    path = tmp_path / "model"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        frontends.load(path)
    assert caught.value.what == f"not a compiled model of a known format: it is {look}"
    assert caught.value.where == str(path)
    assert caught.value.hint.startswith(hint)
    assert caught.value.hint.endswith(
        "Known formats: never (a test's format), mlf (TVM's Model Library Format), tflite (TensorFlow Lite model), "
        "exported (TVM's exported library), onnx (ONNX model), torch (PyTorch program), glow (Glow's bundle)."
    )


def test_other_folder(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    with pytest.raises(InputError, match="it is a folder"):
        frontends.load(tmp_path)


def test_folder_above_an_archive(tmp_path: Path) -> None:
    """The reader says where to pack it from."""
    write(build(), tmp_path / "inside")
    with pytest.raises(ArchiveError, match="pack the archive from inside that folder"):
        frontends.load(tmp_path)


def test_what_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: no such file"):
        frontends.load(tmp_path / "missing")
    with pytest.raises(InputError, match="neither a file nor a folder"):
        frontends.load(Path("/dev/null"))


@pytest.mark.parametrize("end", ["tar", "tar.gz", "tar.xz"])
def test_damaged_archives_are_recognised(tmp_path: Path, end: str) -> None:
    """Whatever is lost behind the first header: the reader says what."""
    data = write(build(), tmp_path / f"a.{end}").read_bytes()
    cut = tmp_path / "cut"
    for size in (300, len(data) // 2):
        cut.write_bytes(data[:size])
        with pytest.raises(InputError):
            frontends.load(cut)
        if end != "tar" or size > 300:
            assert frontends.find_frontend(cut).name == "mlf"


def test_built_in_formats_are_imported_on_use() -> None:
    assert all(":" in one.place for one in registry._BUILT_IN.values())
    for one in registry._BUILT_IN.values():
        assert one.frontend().compiles == one.compiles


@pytest.mark.parametrize(
    ("stated", "flag"), [({"outputs": ("y",)}, "--output-name"), ({"types": ("x=int8",)}, "--type")]
)
def test_an_archive_that_states_its_tensors_takes_no_statements(
    tmp_path: Path, stated: dict[str, tuple[str, ...]], flag: str
) -> None:
    path = write(build(), tmp_path / "a.tar")
    for call in (frontends.load, frontends.examine):
        with pytest.raises(InputError, match=f"{flag}: the file states its inputs"):
            call(path, stated=frontends.Stated(**stated))
