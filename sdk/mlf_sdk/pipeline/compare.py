# SPDX-License-Identifier: Apache-2.0
"""The same model on several targets: outputs of all, and the first step that differs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlf_sdk.codegen.lock import LockModel, read_lock
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.writer import LOCK_NAME
from mlf_sdk.errors import InputError, MlfError
from mlf_sdk.ir.model import Model
from mlf_sdk.judge.bisect import Observer, StepArrays, StepDifference, first_difference
from mlf_sdk.judge.compare import Tolerance, compare_outputs
from mlf_sdk.judge.data import Batch, match_inputs, read_npz, write_npz
from mlf_sdk.judge.places import CompareReport, PlaceResult
from mlf_sdk.pipeline.cache import cached_project
from mlf_sdk.pipeline.deploy import Deployed, Prepared, deployed, prepare
from mlf_sdk.pipeline.project import PathLike, load, plan_project
from mlf_sdk.pipeline.results import Array
from mlf_sdk.pipeline.run import pattern_batch
from mlf_sdk.targets.boards import DEFAULT_BOARD
from mlf_sdk.targets.serial.session import PortChoice
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.wire.deadline import Deadline

Say = Callable[[str], None]
HOST = "host"
DEFAULT_PLACES = (HOST, DEFAULT_BOARD)
_FILE_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """How to compare; see ``compare``."""

    tolerance: Tolerance
    every_step: bool
    save: Path | None
    timeout_s: float
    options: ProjectOptions
    platform: str | None
    zephyr: ZephyrSetup | None
    baud: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    name: str
    prepared: Prepared
    port: PortChoice | None = None


def compare(  # noqa: PLR0913 (the front door: one keyword for each thing a person may choose)
    target: PathLike,
    *,
    on: Sequence[str] | None = None,
    archive: PathLike | None = None,
    module: str | None = None,
    inputs: PathLike | Mapping[str, Array] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    every_step: bool = True,
    save: PathLike | None = None,
    options: ProjectOptions | None = None,
    platform: str | None = None,
    zephyr: ZephyrSetup | None = None,
    baud: int | None = None,
    timeout_s: float = 120.0,
    say: Say = lambda _: None,
) -> CompareReport:
    """Run the same inputs on several targets, and find the first step that differs from the first target's.

    Args:
        target: an archive, or the folder of a project (then ``archive`` is what it was made from).
        on: targets: ``host``, the name of a board, ``dir:FOLDER`` (a project as it is, edited or not), or
            ``port:PORT`` (a board that holds the model already); default: the host and mps2-an386, or the
            host and the project.
        inputs: npz file or arrays by name (one extra leading axis is a batch); default: a repeatable pattern.
        rtol, atol: tolerance for floats; integers must be equal unless ``atol`` is 1 or more.
        every_step: look at all steps of the first inference also where the outputs agree: a later step may
            hide what an earlier one did.
        save: folder for the inputs and outputs of a step that differs.
        timeout_s: for each target: starting it and all its inferences together.

    Raises:
        InputError: bad arguments, archive, or arrays; a project of another archive.
        ToolError: a tool is missing or failed.
        TargetError: a target did not answer in time, or faulted.
    """
    request = CompareRequest(
        tolerance=Tolerance(rtol=rtol, atol=atol),
        every_step=every_step,
        save=Path(save) if save is not None else None,
        timeout_s=timeout_s,
        options=options or ProjectOptions(),
        platform=platform,
        zephyr=zephyr,
        baud=baud,
    )
    path = Path(target)
    is_project = (path / LOCK_NAME).is_file()
    model = load(_archive_of(path, archive) if is_project else path, module=module)
    names = tuple(on) if on else (HOST, f"dir:{path}") if is_project else DEFAULT_PLACES
    if len(names) < 2 or len(set(names)) != len(names):
        raise InputError(
            "at least two different targets are needed", where="--on", hint="E.g. --on host,mps2-an386"
        )
    places = [_place(name, model, request) for name in names]
    return _Comparer(model, places, request, say).run(inputs)


def _archive_of(folder: Path, archive: PathLike | None) -> Path:
    if archive is None:
        name = read_lock(folder).models[0].archive
        raise InputError(
            "a project does not hold the archive that it was made from",
            where=str(folder),
            hint=f"Name it: --archive {name}",
        )
    return Path(archive)


def _place(name: str, model: Model, request: CompareRequest) -> _Place:
    """A target by its name."""
    if name.startswith("dir:"):
        return _Place(name=name, prepared=_project(Path(name[4:]), model))
    if name.startswith("port:"):
        port = PortChoice(spec=name[5:], baud=request.baud)
        return _Place(name=name, prepared=_generated(HOST, model, request), port=port)
    return _Place(name=name, prepared=_generated(name, model, request))


def _generated(board: str, model: Model, request: CompareRequest) -> Prepared:
    platform = None if board == HOST else request.platform
    plan = plan_project(
        [model], board=board, options=request.options, platform=platform, zephyr=request.zephyr
    )
    return Prepared(folder=cached_project(plan), lock=plan.lock, board=plan.board, model=plan.lock.models[0])


def _project(folder: Path, model: Model) -> Prepared:
    prepared = prepare(folder)
    for found in prepared.lock.models:
        if found.archive_sha256 == model.archive_sha256 and found.name == model.name:
            return dataclasses.replace(prepared, model=found)
    held = ", ".join(f"{m.name} ({m.archive_sha256[:12]})" for m in prepared.lock.models)
    raise InputError(
        f"the project was not made from this archive ({model.archive_sha256[:12]}); it holds: {held}",
        where=str(folder),
        hint="Give the archive that it was made from.",
    )


class _Comparer:
    def __init__(self, model: Model, places: Sequence[_Place], request: CompareRequest, say: Say) -> None:
        self.model = model
        self.places = places
        self.request = request
        self.say = say

    def run(self, inputs: PathLike | Mapping[str, Array] | None) -> CompareReport:
        first = self.places[0]
        batch = _batch(first.prepared.model, inputs)
        expected = self._outputs(first, batch)
        results = [PlaceResult(name=first.name, board=first.prepared.board.name)]
        results += [self._against(place, batch, expected) for place in self.places[1:]]
        return CompareReport(
            model=self.model.name,
            archive_sha256=self.model.archive_sha256,
            inferences=batch.count,
            steps=len(self.model.steps),
            places=tuple(results),
        )

    def _against(self, place: _Place, batch: Batch, expected: Mapping[str, Array]) -> PlaceResult:
        got = self._outputs(place, batch)
        comparison = compare_outputs(got, expected, self.request.tolerance)
        result = PlaceResult(name=place.name, board=_board(place), comparison=comparison)
        inference = self._first_inference(got, expected, batch.count)
        if inference is None and not self.request.every_step:
            return result
        return self._bisected(
            dataclasses.replace(result, inference=inference), place, batch.inputs(inference or 0)
        )

    def _first_inference(
        self, got: Mapping[str, Array], expected: Mapping[str, Array], count: int
    ) -> int | None:
        for index in range(count):
            found = compare_outputs(
                {name: array[index : index + 1] for name, array in got.items()},
                {name: array[index : index + 1] for name, array in expected.items()},
                self.request.tolerance,
            )
            if not found.ok:
                return index
        return None

    def _bisected(self, result: PlaceResult, place: _Place, inputs: Sequence[Array]) -> PlaceResult:
        """Look at all steps, on both targets at once."""
        self.say(f"looking for the first step that differs on {place.name}")
        with self._open(self.places[0]) as ours, self._open(place) as theirs:
            deadline = Deadline.after(self.request.timeout_s)
            try:
                reference = Observer(ours.session, ours.info, self.model, inputs, deadline)
                other = Observer(theirs.session, theirs.info, self.model, inputs, deadline)
            except MlfError as error:
                return dataclasses.replace(result, note=f"steps can't be looked at: {error.what}")
            first = first_difference(reference, other, self.model, self.request.tolerance)
            result = dataclasses.replace(
                result, first=first, steps_equal=first is None, note=self._note(result, first)
            )
            if first is None or self.request.save is None:
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
        folder = self.request.save or Path()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"can't make the folder: {error.strerror}", where=str(folder)) from error
        who = place.prepared.folder.resolve().name if place.name.startswith("dir:") else place.name
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

    @contextmanager
    def _open(self, place: _Place) -> Iterator[Deployed]:
        with deployed(
            place.prepared, port=place.port, timeout_s=self.request.timeout_s, say=self.say
        ) as target:
            yield target

    def _outputs(self, place: _Place, batch: Batch) -> dict[str, Array]:
        """All outputs by name, each (inferences, *shape)."""
        model = place.prepared.model
        with self._open(place) as target:
            deadline = Deadline.after(self.request.timeout_s)
            rows = [target.infer_one(batch, index, deadline) for index in range(batch.count)]
        return {
            t.name: np.stack(found) for t, found in zip(model.outputs, zip(*rows, strict=True), strict=True)
        }


def _board(place: _Place) -> str:
    return place.prepared.board.name if place.port is None else place.port.spec


def _batch(model: LockModel, inputs: PathLike | Mapping[str, Array] | None) -> Batch:
    if inputs is None:
        return pattern_batch(model)
    arrays = inputs if isinstance(inputs, Mapping) else read_npz(Path(inputs))
    return match_inputs(model, arrays, "inputs" if isinstance(inputs, Mapping) else str(inputs))
