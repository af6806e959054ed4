# SPDX-License-Identifier: Apache-2.0
"""Compile a model file to an archive."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.errors import InputError
from mlf_sdk.frontends.tflite.frontend import TfliteFrontend, compile_file
from mlf_sdk.ir.model import Model
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.tools.files import write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledModel:
    """An archive that was made.

    Attributes:
        output: path of the archive.
        size_bytes: of the archive.
        model: as read back from it.
    """

    output: Path
    size_bytes: int
    model: Model


def compile(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    name: str = "",
    goal: str = "balanced",
    progress: Progress = SILENT,
) -> CompiledModel:
    """Compile a ``.tflite`` model to an archive in the Model Library Format, version 7.

    Args:
        source: the model.
        output: path of the archive; an existing one is replaced.
        name: of the module in the archive; by default the file's name as a C identifier.
        goal: ``speed``, ``balanced`` or ``size``.
        progress: told what is done.

    Raises:
        ArchiveError: the file is damaged, or has operators that are not supported; all at once.
        InputError: it is no ``.tflite`` file, or the archive can't be written.
    """
    from mlf_sdk.frontends import load

    path = Path(source)
    if not path.is_file() or not TfliteFrontend().recognise(path):
        what = "not a .tflite file" if path.exists() else "no such file"
        raise InputError(what, where=str(path), hint="Give a TensorFlow Lite model.")
    if Path(output).resolve() == path.resolve():
        raise InputError("the archive would replace the model", where="--output", hint="Give another path.")
    progress.say(f"compiling {path}")
    content = compile_file(path, name=name, goal=goal)
    write_whole(Path(output), content)
    return CompiledModel(output=Path(output), size_bytes=len(content), model=load(Path(output)))
