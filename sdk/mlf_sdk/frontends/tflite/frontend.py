# SPDX-License-Identifier: Apache-2.0
"""The frontend of TensorFlow Lite models, which are compiled when they are loaded."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Final

import platformdirs

from mlf_sdk.frontends.registry import Frontend
from mlf_sdk.ir.model import Model
from mlf_sdk.tools.files import write_whole
from mlf_sdk.version import __version__

IDENTIFIER: Final = b"TFL3"


class TfliteFrontend(Frontend):
    """``.tflite`` files: compiled to an archive in the cache, which is then read like any other."""

    name = "tflite"
    title = "TensorFlow Lite model"

    def recognise(self, path: Path) -> bool:
        """Look for the format's identifier."""
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            return stream.read(8)[4:] == IDENTIFIER

    def load(self, path: Path, module: str | None = None) -> Model:
        """Compile the model, or take the archive of an earlier time."""
        from mlf_sdk.frontends.mlf.load import load_model

        model = load_model(compiled_archive(path), module=module)
        return dataclasses.replace(model, provenance=dataclasses.replace(model.provenance, source=str(path)))


def compiled_archive(path: Path) -> Path:
    """The archive of a model in the cache, made when it is not there."""
    digest = hashlib.sha256(__version__.encode() + _compiler_digest() + path.stem.encode())
    digest.update(path.read_bytes())
    archive = Path(platformdirs.user_cache_dir("mlf-sdk")) / "compiled" / f"{digest.hexdigest()[:24]}.tar"
    if not archive.is_file():
        content = compile_file(path)
        archive.parent.mkdir(parents=True, exist_ok=True)
        write_whole(archive, content)
    return archive


def compile_file(path: Path, *, name: str = "", goal: str = "balanced") -> bytes:
    """The archive of a model, as a tar.

    Args:
        name: of the module; by default the file's.
        goal: value of `Goal`.

    Raises:
        ArchiveError: the file is damaged, or has operators that are not supported; all at once.
        InputError: it is no ``.tflite`` file.
    """
    from mlf_sdk.compiler.build import compile_graph
    from mlf_sdk.compiler.schedule import Choice, Goal
    from mlf_sdk.compiler.tflite.load import load_tflite
    from mlf_sdk.frontends.mlf.writer import tar_of
    from mlf_sdk.frontends.tflite.archive import archive_of

    return tar_of(archive_of(compile_graph(load_tflite(path, name), Choice(goal=Goal(goal)))))


def _compiler_digest() -> bytes:
    """Hash of the compiler's own sources: an archive of another compiler is never taken."""
    root = Path(__file__).resolve().parents[2] / "compiler"
    digest = hashlib.sha256()
    for source in sorted(root.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.digest()
