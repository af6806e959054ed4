# SPDX-License-Identifier: Apache-2.0
"""The same model on several targets: outputs of all, and the first step that differs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import InputError, MlfError, TargetError
from mlf_sdk.ir.model import Model
from mlf_sdk.judge.bisect import (
    CompareReport,
    Observer,
    PlaceResult,
    StepArrays,
    first_difference,
)
from mlf_sdk.judge.compare import StepDifference, compare_outputs
from mlf_sdk.judge.data import Batch, write_npz
from mlf_sdk.judge.witnesses.reference import REFERENCE
from mlf_sdk.pipeline import execution, stages
from mlf_sdk.pipeline.arguments import Sources, make_request, own_options
from mlf_sdk.pipeline.declare import option_of
from mlf_sdk.pipeline.loading import with_section
from mlf_sdk.pipeline.options import CompareOptions
from mlf_sdk.pipeline.origin import archive_request, check_same_archive
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.request import HOST, NO_PORT, Request
from mlf_sdk.pipeline.stages import for_core
from mlf_sdk.pipeline.twin import without_memory_sharing
from mlf_sdk.pipeline.witness import Origin, first_wrong_inference, first_wrong_step, origin_of, statements_of
from mlf_sdk.targets.boards import DEFAULT_BOARD
from mlf_sdk.tools.arrays import Array
from mlf_sdk.tools.files import make_folder
from mlf_sdk.wire.transport import Deadline

_FILE_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """One of the targets: its name as it was given, and the request that runs the model on it."""

    name: str
    request: Request


def compare(
    source: Sources,
    request: Request | None = None,
    *,
    own: CompareOptions | None = None,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401
) -> CompareReport:
    """Run the same inputs on several targets, and find the first step that differs from the first target's.

    Args:
        source: an archive, or the folder of a project (made from `archive`, or a file beside it).
        request: prepared options.
        own: prepared options of this function alone.
        progress: called with each stage and its state.
        options: fields of `CompareOptions` and `Request`.

    Raises:
        InputError: bad arguments, archive, or arrays; a project of another archive.
        ToolError: a tool is missing or failed.
        TargetError: a target did not answer in time, or faulted.
    """
    chosen, rest = own_options(CompareOptions, own, options)
    return compare_request(make_request(source, request, rest), chosen, Pipeline(progress))


def compare_request(request: Request, own: CompareOptions, pipeline: Pipeline) -> CompareReport:
    """Compare targets on a pipeline; errors as in `compare`."""
    folder = request.source[0] if stages.is_project(request) else None
    archive = for_core(request) if folder is None else _archive_of(request)
    model = with_section(archive, pipeline.models(archive))[0]
    default = (HOST, request.board or DEFAULT_BOARD) if folder is None else (HOST, f"dir:{folder}")
    names = own.on or default
    if len(names) < 2 or len(set(names)) != len(names):
        raise InputError(
            "at least two different targets are needed", where="--on", hint="E.g. --on host,mps2-an386"
        )
    places = [_Place(name=name, request=_request_on(name, archive, model)) for name in names]
    return _Comparer(model, places, own, pipeline).run()


def _archive_of(request: Request) -> Request:
    """The archive of a project; a board on a port must run the project's image."""
    return archive_request(request).replace(image=request.image or request.source[0])


def _request_on(name: str, archive: Request, model: Model) -> Request:
    """Request that runs the archive's model on a target by its name."""
    if name.startswith("dir:"):
        check_same_archive(Path(name[4:]), read_lock(Path(name[4:])), model)
        plain = {f.name: f.default for f in dataclasses.fields(Request) if option_of(f).fixed}
        return archive.replace(**plain, **NO_PORT, source=(name[4:],), board=None, module=model.name)
    if name.startswith("port:"):
        return archive.replace(port=name[5:])
    if name == HOST:
        return without_memory_sharing(archive.replace(**NO_PORT, board=HOST, board_file=None, platform=None))
    return archive.replace(**NO_PORT, board=name)


class _Comparer:
    def __init__(
        self, model: Model, places: Sequence[_Place], own: CompareOptions, pipeline: Pipeline
    ) -> None:
        self.model = model
        self.places = places
        self.own = own
        self.pipeline = pipeline
        self.tolerance = execution.tolerance_of(places[0].request)

    def run(self) -> CompareReport:
        first = self.places[0]
        batch = self.pipeline.batch(first.request)
        expected = self._outputs(first, batch)
        results = [PlaceResult(name=first.name, board=self._board(first))]
        results += [self._against(place, batch, expected) for place in self.places[1:]]
        results += self._witnesses(batch, expected)
        return CompareReport(
            model=self.model.name,
            archive_sha256=self.model.provenance.sha256,
            inferences=batch.count,
            steps=len(self.model.steps),
            places=tuple(results),
        )

    def _against(self, place: _Place, batch: Batch, expected: Mapping[str, Array]) -> PlaceResult:
        got = self._outputs(place, batch)
        comparison = compare_outputs(got, expected, self.tolerance)
        result = PlaceResult(name=place.name, board=self._board(place), comparison=comparison)
        inference = self._first_inference(got, expected, batch.count)
        if inference is None and not self.own.every_step:
            return result
        return self._bisected(
            dataclasses.replace(result, inference=inference), place, batch.inputs(inference or 0)
        )

    def _witnesses(self, batch: Batch, outputs: Mapping[str, Array]) -> list[PlaceResult]:
        """The first target against what the model file means: a place for each witness."""
        first = self.places[0]
        project = self.pipeline.project(first.request)
        origin = origin_of(first.request, project)
        said = statements_of(first.request, origin, project.model, batch)
        results = []
        for one in said:
            result = PlaceResult(
                name=one.witness, board=one.witness, comparison=one.compare(outputs), note=one.why
            )
            if one.witness == REFERENCE and one.outputs:
                result = self._layer_by_layer(result, origin, batch, first_wrong_inference(said, outputs))
            results.append(result)
        return results

    def _layer_by_layer(
        self, result: PlaceResult, origin: Origin, batch: Batch, wrong: int | None
    ) -> PlaceResult:
        if wrong is None and not self.own.every_step:
            return result
        request = self.places[0].request
        try:
            with self.pipeline.open(request) as target:
                inputs = batch.inputs(wrong or 0)
                first = first_wrong_step(origin, self.model, target, inputs, request)
        except TargetError as error:
            return dataclasses.replace(result, inference=wrong, note=f"steps can't be observed: {error.what}")
        return dataclasses.replace(result, inference=wrong, first=first, steps_equal=first is None)

    def _first_inference(
        self, got: Mapping[str, Array], expected: Mapping[str, Array], count: int
    ) -> int | None:
        for index in range(count):
            result = compare_outputs(
                {name: array[index : index + 1] for name, array in got.items()},
                {name: array[index : index + 1] for name, array in expected.items()},
                self.tolerance,
            )
            if not result.ok:
                return index
        return None

    def _bisected(self, result: PlaceResult, place: _Place, inputs: Sequence[Array]) -> PlaceResult:
        """Look at all steps, on both targets at once."""
        self.pipeline.progress.say(f"looking for the first step that differs on {place.name}")
        with (
            self.pipeline.open(self.places[0].request) as ours,
            self.pipeline.open(place.request) as theirs,
        ):
            slowest = max(one.project.target.limit_s(place.request.timeout_s) for one in (ours, theirs))
            deadline = Deadline.after(slowest)
            try:
                reference = Observer(ours.session, ours.info, self.model, inputs, deadline)
                other = Observer(theirs.session, theirs.info, self.model, inputs, deadline)
            except MlfError as error:
                return dataclasses.replace(result, note=f"steps can't be observed: {error.what}")
            first = first_difference(reference, other, self.model, self.tolerance)
            result = dataclasses.replace(
                result, first=first, steps_equal=first is None, note=self._note(result, first)
            )
            if first is None or self.own.save is None:
                return result
            arrays = reference.arrays(first.number), other.arrays(first.number)
            return dataclasses.replace(result, saved=self._save(place, first, inputs, *arrays))

    def _note(self, result: PlaceResult, first: StepDifference | None) -> str:
        if first is None:
            return "" if result.inference is None else "every step agrees when they are run one at a time"
        if len(self.model.steps) == 1 and self.model.executor == "aot":
            return "compiled ahead of time: the whole model is one step, so that the kernel can't be named"
        return ""

    def _save(
        self,
        place: _Place,
        first: StepDifference,
        inputs: Sequence[Array],
        ours: StepArrays,
        theirs: StepArrays,
    ) -> Path:
        folder = Path(self.own.save or "")
        make_folder(folder)
        project = self.pipeline.project(place.request)
        who = project.folder.resolve().name if project.is_given else place.name
        path = folder / f"{_FILE_NAME.sub('-', f'{self.model.c_name}-{who}')}-step{first.number}.npz"
        arrays: dict[str, Array] = {"step": np.array(first.number), "name": np.array(first.name)}
        arrays.update({f"model_input_{i}": array for i, array in enumerate(inputs)})
        arrays.update({f"input_{i}": array for i, array in enumerate(ours.inputs)})
        if not first.same_inputs:
            arrays.update({f"input_{i}_got": array for i, array in enumerate(theirs.inputs)})
        arrays.update({f"output_{i}_expected": array for i, array in enumerate(ours.outputs)})
        arrays.update({f"output_{i}_got": array for i, array in enumerate(theirs.outputs)})
        write_npz(path, arrays)
        return path

    # ---- targets ----

    def _board(self, place: _Place) -> str:
        return self.pipeline.project(place.request).target.name

    def _outputs(self, place: _Place, batch: Batch) -> dict[str, Array]:
        """All outputs by name, each (inferences, *shape)."""
        model = self.pipeline.project(place.request).model
        with self.pipeline.open(place.request) as target:
            timeout_s = target.project.target.limit_s(place.request.timeout_s)
            rows = [target.infer_one(batch, index, timeout_s) for index in range(batch.count)]
        return {
            t.name: np.stack(result) for t, result in zip(model.outputs, zip(*rows, strict=True), strict=True)
        }
