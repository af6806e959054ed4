# SPDX-License-Identifier: Apache-2.0
"""Runner of the stages: in order, each once for the same options, with progress.

Commands are compositions of these methods. Results of load, plan, render and build are kept for the lifetime
of the `Pipeline`, under the part of the request that their stages read; rendered projects and their builds
are kept on disk as well (`mlf_sdk.pipeline.cache`). Stages behind build are imported where they run: a
project is generated and built without numpy, which takes time to load.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from mlf_sdk.compiler.cores import core_of
from mlf_sdk.errors import (
    CodeError,
    InputError,
    MissingToolError,
    NotPossibleError,
    TargetError,
    UndecidedError,
)
from mlf_sdk.ir.model import Model, UnitKind
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.judge.evidence import BOARD_APART, HOST_GUARDED, HOST_SANITIZED
from mlf_sdk.pipeline import loading, stages
from mlf_sdk.pipeline.cache import cached_project
from mlf_sdk.pipeline.declare import Stage
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.project import BuiltProject, ProjectPlan, TargetProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.tools.locks import cache_in_use

if TYPE_CHECKING:
    from mlf_sdk.judge.data import Batch
    from mlf_sdk.judge.execute import Execution
    from mlf_sdk.pipeline.execution import Console
    from mlf_sdk.pipeline.opentarget import OpenTarget
    from mlf_sdk.tools.arrays import Array

HOST = "host"
NO_PORT: dict[str, Any] = {"port": None, "baud": None, "max_baud": None, "image": None}
_OPEN: dict[str, Any] = {"trust": None, "lock": None, "key": None, "monocypher": None, "model_version": 0}
_OUTSIDE = "The archive's code writes outside of its tensors: export the model again, or report it there."
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Twin:
    """Outputs of the model in an image that shares no memory, by name, and the name of that evidence."""

    outputs: Mapping[str, Array]
    evidence: str


class Pipeline:
    """Runs stages for requests.

    Args:
        progress: called with each stage and its state.
    """

    def __init__(self, progress: Progress = SILENT) -> None:
        self.progress = progress
        self._kept: dict[tuple[Stage, Request], Any] = {}
        self._cache = ExitStack()  # its projects stay in the cache as long as they may be used
        self._uses_cache = False
        weakref.finalize(self, self._cache.close)

    def close(self) -> None:
        """Use no project any more."""
        self._kept.clear()
        self._cache.close()
        self._uses_cache = False

    def _use_cache(self) -> None:
        if not self._uses_cache:
            self._cache.enter_context(cache_in_use())
            self._uses_cache = True

    def _once(self, stage: Stage, request: Request, make: Callable[[], _Result]) -> _Result:
        key = stage, request.up_to(stage)
        if key not in self._kept:
            self._kept[key] = make()
        result: _Result = self._kept[key]
        return result

    # ---- stages ----

    def models(self, request: Request) -> tuple[Model, ...]:
        """Models of all archives of the request (stage load)."""
        request = for_core(request)

        def make() -> tuple[Model, ...]:
            self.progress.say(f"reading {', '.join(request.source)}")
            try:
                return loading.load(request)
            except UndecidedError as error:
                from mlf_sdk.pipeline.probe import probe_outputs

                return loading.load(request.replace(output_names=probe_outputs(self, request, error)))

        return self._once(Stage.LOAD, request, make)

    def plan(self, request: Request) -> ProjectPlan:
        """Project of the request, decided but not written (stage plan)."""
        return self._once(Stage.PLAN, request, lambda: stages.plan(request, self.models(request)))

    def project(self, request: Request) -> TargetProject:
        """The project that the request names, or one made from its archive in the cache (stage render)."""

        stages.check_port_options(request)

        def make() -> TargetProject:
            if stages.is_project(request):
                return stages.read_project(request)
            self._use_cache()
            plan = self.plan(request)
            return TargetProject(
                folder=cached_project(plan),
                lock=plan.lock,
                model=plan.lock.models[0],
                choice=stages.target_choice(request),
                is_given=False,
            )

        result = self._once(Stage.RENDER, request, make)
        return dataclasses.replace(result, choice=stages.target_choice(request))

    def build(self, request: Request) -> BuiltProject:
        """The project's linked image (stage build)."""

        def make() -> BuiltProject:
            project = self.project(request)
            self._use_cache()
            self.progress.say(f"building for {project.lock.board}")
            return stages.build(request, project, self.progress.log)

        return self._once(Stage.BUILD, request, make)

    def check_programs(self, request: Request, *, twin: bool = False) -> None:
        """Check, before anything is built, that all programs are installed that a run needs.

        Args:
            twin: the host twin runs as well.

        Raises:
            ToolError: one is missing.
        """
        project = self.project(request)
        project.target.check_programs(build=stages.needs_compilers(project), start=True)
        if twin and self._can_have_twin(request):
            resolve_target(TargetChoice(board=HOST)).check_programs(start=True)

    def check(self, request: Request) -> CheckReport:
        """The linked image against the promises of its project; builds it when it is the cache's."""
        project = self.project(request)
        if not project.is_given:
            self.build(request)
        return stages.check(project, strict=bool(request.strict))

    @contextmanager
    def open(
        self,
        request: Request,
        console: Console | None = None,
        *,
        must_build: bool = False,
        emulator: Sequence[str] = (),
    ) -> Iterator[OpenTarget]:
        """Open the request's model on its target (stage open).

        Args:
            console: called with each piece of text that the target prints.
            must_build: build the image also where a board runs one of the archive already (to explain its
                faults). That of a project is always built: the board must run it.
            emulator: more arguments for the emulator.
        """
        from mlf_sdk.judge.execute import find_model
        from mlf_sdk.pipeline.execution import connect
        from mlf_sdk.pipeline.opentarget import OpenTarget

        project = self.project(request)
        stages.check_app(project)
        target = project.target
        stages.check_start(target)
        if not target.attached:
            self.check_programs(request)
        needless = target.attached and not project.is_given and not must_build
        built = None if needless else self.build(request)
        self.progress.say(f"{'connecting to' if target.attached else 'running on'} {target.name}")
        if emulator:
            target = target.with_emulator(emulator)
        with connect(request, target, project, built.elf if built else None, console) as session:
            yield OpenTarget(project, session, find_model(session, project.model))

    def batch(self, request: Request) -> Batch:
        """Inputs of the request."""
        from mlf_sdk.pipeline.execution import batch_of

        return batch_of(request, self.project(request))

    def execute(self, request: Request) -> Execution:
        """All inferences of the request on its target (stage execute)."""
        from mlf_sdk.pipeline.execution import execute

        with self.open(request) as target:
            return execute(request, target, self.batch(request), self.progress.count)

    # ---- the host twin ----

    def twin_request(self, request: Request) -> Request:
        """The same model on this machine.

        Raises:
            NotPossibleError: there can be no twin: the archive of a project is not there, machine code, or
                headers that only the target has.
            InputError: ``archive`` is given for a source that is one.
        """
        if stages.is_project(request):
            from mlf_sdk.pipeline.origin import archive_request

            request = archive_request(request)
        elif request.archive is not None:
            raise InputError("the source is an archive already", where="--archive", hint="Leave it out.")
        request = for_core(request)
        for model in self.models(request):
            linked = [unit for unit in model.units if unit.linked]
            if any(unit.kind is UnitKind.OBJECT for unit in linked):
                raise NotPossibleError("the archive holds machine code for the target: there is no host twin")
            if any(unit.kind is UnitKind.ASSEMBLY and not unit.clean for unit in linked):
                raise NotPossibleError("the archive holds assembly for the target: there is no host twin")
            if model.external_headers:
                raise NotPossibleError(f"its code needs {model.external_headers[0]}: there is no host twin")
        result = request.replace(board=HOST, board_file=None, platform=None, **NO_PORT)
        if request.frames and request.inputs is None:  # windows of a series, which no whole model asks for
            names = [tensor.name for tensor in self.project(request).model.inputs]
            windows = dict(zip(names, self.batch(request).arrays, strict=True))
            result = result.replace(inputs=windows)
        return without_memory_sharing(loading.without_rows(result))

    def _can_have_twin(self, request: Request) -> bool:
        try:
            self.twin_request(request)
        except NotPossibleError:
            return False
        return True

    def twin(self, request: Request) -> tuple[Twin | None, str]:
        """Run the model with memory of its own for each buffer, and steps in the archive's order.

        On this machine; where that is not possible, on the same board if it is emulated and has the memory.

        Returns:
            The twin, or None and the reason why there is none.

        Raises:
            TargetError: the twin faulted, or wrote outside of a buffer.
        """
        result, why = self.host_twin(request)
        return (result, "") if result is not None else self._board_twin(request, why)

    def host_twin(self, request: Request) -> tuple[Twin | None, str]:
        """Run the twin on this machine; returns and raises as `twin`."""
        try:
            twin = self.twin_request(request)
            is_split = self._is_split(twin)
        except (NotPossibleError, CodeError, MissingToolError) as error:
            if request.archive is not None:
                raise
            return None, " ".join(filter(None, [f"{error.what}.", error.hint]))
        self.progress.say("building and running the host twin")
        done = self._checked(twin, "the host twin")
        evidence = HOST_SANITIZED if done.stats.guards is None else HOST_GUARDED
        return self._twin(twin, self._as_compiled(twin, done) if is_split else done, evidence), ""

    def _is_split(self, request: Request) -> bool:
        """Return whether a model runs as steps that were found in its entry."""
        loaded = [[step.symbol for step in model.steps] for model in self.models(request)]
        return loaded != [[s.symbol for s in one.model.own_steps] for one in self.plan(request).layouts]

    def _as_compiled(self, twin: Request, steps: Execution) -> Execution:
        """Execute the entry that a twin's steps were found in; both must give the same outputs.

        Raises:
            TargetError: they do not.
        """
        done = self._checked(twin.replace(as_compiled=True), "the host twin of the entry")
        if any(a.tobytes() != b.tobytes() for a, b in zip(done.outputs, steps.outputs, strict=True)):
            raise TargetError(
                "its steps give other outputs than its main function",
                where=f"model {self.project(twin).model.name}",
                hint="Run it as compiled: --as-compiled. Report this archive.",
            )
        return done

    def _board_twin(self, request: Request, why: str) -> tuple[Twin | None, str]:
        """Run an image that shares no memory on the board of the request; ``why``: there is no host twin."""
        if stages.is_project(request) or request.plan == "none":
            return None, why
        try:
            twin = without_memory_sharing(request).replace(as_compiled=True)
            target = self.project(twin).target
            if target.attached:
                return None, why
            self.build(twin)
        except NotPossibleError as error:
            return None, f"{why} On the board: {error.what}"
        self.progress.say(f"running an image that shares no memory on {target.name}")
        return self._twin(twin, self._checked(twin, "the image that shares no memory"), BOARD_APART), ""

    def _twin(self, request: Request, done: Execution, evidence: str) -> Twin:
        from mlf_sdk.judge.execute import outputs_by_name

        return Twin(outputs_by_name(self.project(request).model, done), evidence)

    def _checked(self, twin: Request, name: str) -> Execution:
        """Execute a twin; a fault, or a write outside of a buffer, is reported as the twin's."""
        from mlf_sdk.judge.painted import guards_fault

        try:
            done = self.execute(twin)
        except TargetError as error:
            error.what = f"{name}, in which each buffer has memory of its own: {error.what}"
            raise
        model = self.project(twin).model
        if fault := guards_fault(model, done.stats):
            raise TargetError(f"{name}: {fault}", where=f"model {model.name}", hint=_OUTSIDE)
        return done


def for_core(request: Request) -> Request:
    """Copy with the core of its board, where a model is compiled when it is loaded and no core is stated."""
    if request.core is not None or not loading.compiled_sources(request):
        return request
    board = stages.board_of(request)
    return request.replace(core=core_of(board.cpu, dsp=board.dsp).name)


def without_memory_sharing(request: Request) -> Request:
    """Request for an image in which no buffer shares memory, and steps run in the archive's order."""
    return request.replace(executor="static", share_arena=False, plan="none", place=(), **_OPEN)
