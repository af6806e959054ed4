# SPDX-License-Identifier: Apache-2.0
"""Models as plain C sources, with the manifest of a build system and an example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlf_sdk.codegen.export import check_is_c, render_export
from mlf_sdk.codegen.exportformat import ExportFormat, export_format
from mlf_sdk.codegen.writer import write_project
from mlf_sdk.compiler.cores import core_of, cores
from mlf_sdk.pipeline.arguments import Source, Sources, make_request, own_options
from mlf_sdk.pipeline.exportoptions import ExportOptions
from mlf_sdk.pipeline.loading import compiled_sources
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.request import HOST, Request
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.targets.chips.load import find_chip


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedModel:
    """An export that was written.

    Attributes:
        folder: that holds it.
        chosen: its format.
        layouts: memory of each model.
        sizes_bytes: by path.
        kept: the user's files that were kept although a new export would differ.
        backups: copies (``NAME.orig``) of edited files that were replaced.
        samples: evidence for the outputs that the example expects, of each model.
    """

    folder: Path
    chosen: ExportFormat
    layouts: tuple[ModelLayout, ...]
    sizes_bytes: Mapping[str, int]
    kept: tuple[str, ...] = ()
    backups: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()


def export(
    source: Sources | None = None,
    output: Source | None = None,
    *,
    request: Request | None = None,
    own: ExportOptions | None = None,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401 - declared by the fields of Request and ExportOptions
) -> ExportedModel:
    """Write models as plain C sources, for a build system: weights as arrays, headers, manifest, example.

    Args:
        source: one model, or several that share a runtime.
        output: folder: new, or that of an earlier export; what the user edited is kept or refused.
        request: options that were prepared.
        own: the command's own options, prepared.
        progress: called with each stage and its state.
        options: keyword arguments: fields of `Request` and of `ExportOptions`; ``to`` is the format.

    Raises:
        ChangedFilesError: generated files were edited, and ``force`` is not set.
        CheckError: ``sample_outputs``: they are not what the model's file means.
        InputError: bad model or arguments, or the model's code is not all C.
    """
    if output is not None:
        options["output"] = str(output)
    chosen, rest = own_options(ExportOptions, own, options)
    made = _for_chip(make_request(source, request, rest).replace(app="library"))
    if made.board is None:
        made = made.replace(board=HOST)  # nothing of a board is exported: what runs here builds anywhere
    pipeline = Pipeline(progress)
    for model in pipeline.models(made):
        check_is_c(model)
    plan = pipeline.plan(made)
    samples: tuple[Any, ...] = ()
    if chosen.sample_outputs:
        from mlf_sdk.pipeline.sample import outputs_for_sample

        host = made.replace(board=HOST, app="standalone")
        samples = outputs_for_sample(pipeline, host)
    row = export_format(chosen.to)
    progress.say(f"writing {chosen.output}")
    rendered = render_export(
        plan.layouts,
        plan.linkages,
        plan.options,
        row,
        version=chosen.version,
        expected=tuple(one.outputs for one in samples),
    )
    written = write_project(
        rendered.files, Path(chosen.output), force=chosen.force, user_files=rendered.user_files
    )
    return ExportedModel(
        folder=Path(chosen.output),
        chosen=row,
        layouts=plan.layouts,
        sizes_bytes={path: len(data) for path, data in rendered.files.items()},
        kept=written.kept,
        backups=written.backups,
        samples=tuple(one.evidence for one in samples),
    )


def _for_chip(request: Request) -> Request:
    """Copy with the core of the chip that it names, where a model is compiled and no core is stated."""
    if request.chip is None:
        return request
    chip = find_chip(request.chip)
    if request.core is not None or not compiled_sources(request):
        return request
    known = chip.core in cores()  # others get the generic kernels
    return request.replace(core=core_of(chip.cpu, dsp=known).name)
