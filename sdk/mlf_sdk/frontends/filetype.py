# SPDX-License-Identifier: Apache-2.0
"""Kinds of files by their first bytes: for messages about a file that is no compiled model."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Final

import msgspec

from mlf_sdk.analysis.elf.raw import ELF_MAGIC, ET_DYN, ET_EXEC, ET_REL, elf_type
from mlf_sdk.errors import InputError
from mlf_sdk.tools.files import read_error

_HEAD_BYTES: Final = 1024
_TFLITE: Final = b"TFL3"
_ELF_TYPES: Final = {
    ET_REL: "a relocatable object",
    ET_EXEC: "a linked program",
    ET_DYN: "a shared library",
}
MODULE_SYMBOLS: Final = ("__tvm_ffi__library_bin", "__tvm_ffi_library_bin", "__tvm_dev_mblob")
"""Ends of the symbols by which TVM's exported libraries name their serialized modules, newest first."""

_MAGIC: Final = (
    (0, b"\x1f\x8b", "a gzip archive", ""),
    (0, b"\xfd7zXZ\x00", "an xz archive", ""),
    (257, b"ustar", "a tar archive", ""),
    (0, b"!<arch>\n", "a library of objects (ar)", ""),
    (0, b"PK\x03\x04", "a zip archive (perhaps .npz)", ""),
    (0, b"\x93NUMPY", "a numpy array", ""),
    (0, b":", "perhaps an Intel HEX image", ""),
)


_CONTAINERS: Final = 3  # of these are archives of models


class FileKind(msgspec.Struct, frozen=True, kw_only=True):
    """Kind of a file.

    Attributes:
        title: with its article, e.g. ``a zip archive``.
        hint: a sentence with a space behind it, or empty.
    """

    title: str
    hint: str = ""


def file_kind(path: Path) -> FileKind:
    """Kind of the file at ``path``.

    Raises:
        InputError: it can't be read, or is neither a file nor a folder.
    """
    from mlf_sdk.frontends.foreign import foreign_model  # not for files of a known format

    try:
        foreign = foreign_model(path)
        if foreign is not None:
            return FileKind(title=foreign.title, hint=f"{foreign.hint} ")
        if path.is_dir():
            return FileKind(title="a folder")
        if path.exists() and not path.is_file():
            raise InputError("neither a file nor a folder", where=str(path))
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise read_error(error, str(path), "Give the path of a model, or of an archive's folder.") from error
    return _of_head(head)


def _of_head(head: bytes) -> FileKind:
    if not head:
        return FileKind(title="an empty file")
    if head.startswith(ELF_MAGIC):
        return _of_elf(head)
    for offset, magic, title, hint in _MAGIC:
        if head.startswith(magic, offset):
            return FileKind(title=title, hint=hint)
    return FileKind(title="a text file" if _is_text(head) else "a file of an unknown kind")


def _is_text(head: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # its last character may be cut
    except UnicodeDecodeError:
        return False
    return all(c.isprintable() or c in "\t\r\n\f" for c in text)


def _of_elf(head: bytes) -> FileKind:
    kind, hint = elf_type(head), ""
    if kind == ET_EXEC:
        hint = "Give the archive that the firmware was made from; mlf-sdk inspect FIRMWARE names it. "
    return FileKind(title=f"{_ELF_TYPES.get(kind, 'a file')} (ELF)", hint=hint)


def is_container(path: Path) -> bool:
    """Return whether ``path`` is a folder, or begins like a tar archive, compressed or not."""
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if not any(head.startswith(magic, at) for at, magic, _, _ in _MAGIC[:_CONTAINERS]):
            return False
    kind = file_kind(path).title
    return kind in ("a folder", "a gzip archive", "an xz archive", "a tar archive")


def is_tflite(path: Path) -> bool:
    """Return whether ``path`` begins with the identifier of TensorFlow Lite models."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(8)[4:] == _TFLITE


def may_be_library(path: Path) -> bool:
    """Return whether ``path`` may hold a library of TVM: a container, or an ELF file."""
    if is_container(path):
        return True
    with path.open("rb") as file:
        return file.read(len(ELF_MAGIC)) == ELF_MAGIC


def may_be_any(_path: Path) -> bool:
    """Return True: the first bytes exclude nothing."""
    return True


def is_elf(path: Path) -> bool:
    """Return whether ``path`` is a linked ELF file, whatever its name, and no library that holds a model."""
    from mlf_sdk.frontends.intake.limits import DEFAULT_LIMITS

    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(18)
            kind = elf_type(head)
            if not head.startswith(ELF_MAGIC) or kind == ET_REL:
                return False
            return kind != ET_DYN or not holds_modules(file.read(DEFAULT_LIMITS.file_bytes))
    except OSError:
        return False


def holds_modules(data: bytes) -> bool:
    """Return whether a file names serialized modules of TVM as a symbol does."""
    return any(name.encode() + b"\0" in data for name in MODULE_SYMBOLS)
