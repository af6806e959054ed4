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
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from mlf_sdk.errors import (
    InputError,
    NotPossibleError,
    UndecidedError,
)
from mlf_sdk.ir.model import Model
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.pipeline import loading, stages
from mlf_sdk.pipeline.cache import cached_project
from mlf_sdk.pipeline.declare import Stage
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.project import BuiltProject, ProjectPlan, TargetProject
from mlf_sdk.pipeline.request import HOST, Request
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.tools.locks import cache_in_use

if TYPE_CHECKING:
    from mlf_sdk.judge.data import Batch
    from mlf_sdk.judge.execute import Execution
    from mlf_sdk.pipeline.execution import Console
    from mlf_sdk.pipeline.opentarget import OpenTarget
    from mlf_sdk.pipeline.twin import Twin

_Result = TypeVar("_Result")


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
        request = stages.for_core(request)

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

        _check_port_options(request)

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

    # ---- the twin: `mlf_sdk.pipeline.twin` ----

    def twin_request(self, request: Request) -> Request:
        """The same model on this machine; errors as in `mlf_sdk.pipeline.twin.twin_request`."""
        from mlf_sdk.pipeline.twin import twin_request

        return twin_request(self, request)

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
        from mlf_sdk.pipeline.twin import board_twin

        result, why = self.host_twin(request)
        return (result, "") if result is not None else board_twin(self, request, why)

    def host_twin(self, request: Request) -> tuple[Twin | None, str]:
        """Run the twin on this machine; returns and raises as `twin`."""
        from mlf_sdk.pipeline.twin import host_twin

        return host_twin(self, request)


def _check_port_options(request: Request) -> None:
    """Refuse options of a port without one.

    Raises:
        InputError: ``baud``, ``max_baud`` or ``image`` is given without a port or a place.
    """
    named = request.port is not None or (request.board is not None and ":" in request.board)
    values = {"--baud": request.baud, "--max-baud": request.max_baud, "--image": request.image}
    for name, value in values.items():
        if value is not None and not named:
            raise InputError(f"{name} is for a port", where=name, hint="Add --port PORT.")
