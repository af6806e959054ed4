# SPDX-License-Identifier: Apache-2.0
"""Conversion of a compiled model to another format: an archive, or a bundle."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlf_sdk import frontends
from mlf_sdk.codegen.bundleplan import plan_bundle
from mlf_sdk.errors import InputError, MlfError
from mlf_sdk.frontends.mlf.from_model import archive_of_model
from mlf_sdk.frontends.mlf.writer import tar_of
from mlf_sdk.ir.model import Model
from mlf_sdk.pipeline.arguments import Source, check_output, make_request, own_options
from mlf_sdk.pipeline.convertoptions import ConvertOptions
from mlf_sdk.pipeline.loading import analyse_for, load
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.stages import board_of, project_options
from mlf_sdk.targets.boards.requirements import check_requirements
from mlf_sdk.targets.bundle import build_bundle
from mlf_sdk.tools.files import make_folder, write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedModel:
    """Files that were written.

    Attributes:
        output: path of the archive, or folder of the bundle.
        to: ``mlf`` or ``bundle``.
        sizes_bytes: by name of the file.
        model: as read back from them.
        board: that the bundle was compiled for; None for an archive.
    """

    output: Path
    to: str
    sizes_bytes: Mapping[str, int]
    model: Model
    board: str | None = None


def convert(
    source: Source | None = None,
    output: Source | None = None,
    *,
    request: Request | None = None,
    own: ConvertOptions | None = None,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401 - declared by the fields of Request and ConvertOptions
) -> ConvertedModel:
    """Write a model of any known format as an archive in the Model Library Format, or as a bundle.

    Args:
        source: the model.
        output: path of the archive (an existing one is replaced), or folder of the bundle (its files are
            replaced, others stay).
        request: options that were prepared.
        own: the command's own options, prepared.
        progress: called with each stage and its state.
        options: keyword arguments: fields of `Request` and of `ConvertOptions`.

    Raises:
        ArchiveError: the model is broken.
        InputError: it can't be expressed in that format, or the board's core can't execute it.
        ToolError: its code does not compile.
    """
    if output is not None:
        options["output"] = str(output)
    chosen, rest = own_options(ConvertOptions, own, options)
    made = make_request(source, request, rest)
    if len(made.source) != 1:
        raise InputError("one model is converted at a time", where="mlf-sdk convert")
    _check_output(Path(made.source[0]), Path(chosen.output), is_bundle=chosen.to == "bundle")
    progress.say(f"reading {made.source[0]}")
    (model,) = load(made)
    if chosen.to == "bundle":
        return _to_bundle(made, chosen, model, progress)
    return _to_archive(chosen, model)


def _check_output(source: Path, output: Path, *, is_bundle: bool) -> None:
    check_output(source, output)
    if is_bundle and output.exists() and not output.is_dir():
        raise InputError("a bundle is a folder of files", where=str(output), hint="Give a folder.")
    if not is_bundle and output.is_dir():
        raise InputError(
            "is a folder", where=str(output), hint="Give the path of an archive, e.g. model.tar."
        )


def _to_archive(own: ConvertOptions, model: Model) -> ConvertedModel:
    path = Path(own.output)
    return _publish(own, {path.name: tar_of(archive_of_model(model))}, path.parent, path)


def _publish(
    own: ConvertOptions, files: Mapping[str, bytes], folder: Path, main: Path, board: str | None = None
) -> ConvertedModel:
    """Write the files of a model into a folder once they have been read back elsewhere.

    Args:
        main: the one that the model is read from.
    """
    with tempfile.TemporaryDirectory(prefix="mlf-convert-") as name:
        for member, data in files.items():
            write_whole(Path(name) / member, data)
        try:
            model = frontends.load(Path(name) / main.name)
        except MlfError as error:
            raise InputError(
                f"what was made of the model can't be read back: {error.what}",
                where=own.output,
                hint="Nothing was written. Report it, with the model, to mlf-sdk's issue tracker.",
            ) from error
    if own.to == "bundle":
        make_folder(folder)
    for member, data in files.items():
        write_whole(folder / member, data)
    provenance = dataclasses.replace(model.provenance, source=str(main))
    return ConvertedModel(
        output=Path(own.output),
        to=own.to,
        sizes_bytes={member: len(data) for member, data in files.items()},
        model=dataclasses.replace(model, provenance=provenance),
        board=board,
    )


def _to_bundle(request: Request, own: ConvertOptions, model: Model, progress: Progress) -> ConvertedModel:
    board = board_of(request)
    if board.platform not in ("host", "baremetal"):
        raise InputError(
            "a bundle is compiled for a bare-metal board or the host",
            where=f"board {board.name}",
            hint="Give a board with the same core (mlf-sdk boards).",
        )
    options = project_options(request)
    check_requirements([model], board, options)
    (analysed,) = analyse_for([model], board, options)
    plan = plan_bundle(analysed, keep_inputs=options.keep_inputs)
    progress.say(f"compiling for {board.name}")
    files = build_bundle(plan, board, options, dynamic=own.api == "dynamic")
    folder = Path(own.output)
    return _publish(own, files, folder, folder / f"{plan.name}.h", board.name)
