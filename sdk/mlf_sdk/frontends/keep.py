# SPDX-License-Identifier: Apache-2.0
"""Models that were compiled, kept between runs under a hash of everything that they depend on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec

from mlf_sdk.ir.model import Model
from mlf_sdk.resources import cache_dir, data_dir
from mlf_sdk.tools.files import write_whole
from mlf_sdk.version import __version__

_CODE: Final = ("analysis", "compiler", "frontends", "ir", "tools")
_DATA: Final = ("cores", "instruction_sets")


def kept_model(key: str, make: Callable[[], Model]) -> Model:
    """The model under ``key``, made where it is not there; one that is damaged is made again.

    Args:
        key: hash of everything that the model depends on, in hex.
    """
    path = cache_dir("compiled") / f"{key[:24]}.model"
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=Model)
    except (FileNotFoundError, msgspec.MsgspecError):
        found = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.msgpack.encode(found))
    return found


@cache
def compiler_digest() -> bytes:
    """Hash of all code and data of the SDK that decide what a model is compiled to."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256(__version__.encode())
    templates = data_dir("board_templates")
    for folder in (*(package / name for name in _CODE), *(templates / name for name in _DATA)):
        for file in sorted(_files(folder)):
            digest.update(os.fsencode(file.relative_to(folder)) + b"\0" + file.read_bytes())
    return digest.digest()


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.suffix in (".py", ".toml")]


def version_of(package: str) -> str:
    """Version of a Python package that is installed; empty for none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
