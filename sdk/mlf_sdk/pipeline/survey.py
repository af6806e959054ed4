# SPDX-License-Identifier: Apache-2.0
"""Survey of a model that is not compiled yet, and the boards that can hold it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.rows.fused import KIND
from mlf_sdk.compiler.survey import Survey
from mlf_sdk.errors import DoesNotFitError
from mlf_sdk.frontends.compiled import compiling_frontend
from mlf_sdk.pipeline.loading import load_analysed, options_in
from mlf_sdk.pipeline.request import Request
from mlf_sdk.planner.layout import ModelLayout, lay_out
from mlf_sdk.targets.boards.load import load_boards
from mlf_sdk.targets.boards.row import Board


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBytes:
    """Memory of the compiled model: its arena, its states and its packed constants.

    Attributes:
        caller_inputs_bytes: of inputs in memory of the caller; 0: they lie in the arena.
        fused: layers that hand rows on to each other, a text for each region.
        front: choices of such layers where the request asks for less RAM: bytes by the search, and their
            number.
    """

    arena_bytes: int
    state_bytes: int
    params_bytes: int
    caller_inputs_bytes: int = 0
    fused: tuple[str, ...] = ()
    front: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRoom:
    """Memory of a board, and why an image with model, stack and RPC server does not fit; empty: it does."""

    board: str
    flash_bytes: int
    ram_bytes: int
    why: str = ""

    @property
    def holds(self) -> bool:
        """Return whether nothing speaks against the board."""
        return not self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSurvey:
    """A model's operators and needs, and the boards that can hold it.

    Attributes:
        plan: memory of the compiled model; None when it can't be compiled.
        boards: empty when it can't be compiled.
        chosen: the boards are the one that was asked for.
    """

    source: str
    format: str
    survey: Survey
    plan: PlannedBytes | None
    boards: tuple[BoardRoom, ...]
    chosen: bool = False

    @property
    def can_compile(self) -> bool:
        """Return whether it can be compiled."""
        return not self.survey.faults

    @property
    def ok(self) -> bool:
        """Return whether it can be compiled and the board that was asked for holds it."""
        return self.can_compile and not (self.chosen and any(not room.holds for room in self.boards))


def survey_request(request: Request) -> ModelSurvey:
    """Survey the model of a request, for its board or for all that are known.

    Raises:
        ArchiveError: the file is damaged; all faults at once.
        InputError: there is no such board.
    """
    path = Path(request.source[0])
    frontend = compiling_frontend(path)
    survey = frontend.survey(path, options_in(request))
    layout = None if survey.faults else _layout_of(request)
    plan = None if layout is None else _bytes_of(layout)
    if plan is not None and (request.goal == Goal.RAM.value or request.max_arena is not None):
        plan = dataclasses.replace(plan, front=frontend.ram_front(path, options_in(request)))
    from mlf_sdk.pipeline.stages import board_of, project_options

    rows = load_boards(request.board_file).values() if request.board is None else [board_of(request)]
    boards = [row for row in rows if row.memories]
    options = project_options(request)
    return ModelSurvey(
        source=str(path),
        format=frontend.title,
        survey=survey,
        plan=plan,
        boards=() if layout is None else tuple(_room(board, layout, options) for board in boards),
        chosen=request.board is not None,
    )


def planned_bytes(request: Request) -> PlannedBytes:
    """Compile the model of a request, and plan its memory; errors as in `survey_request`."""
    return _bytes_of(_layout_of(request))


def _layout_of(request: Request) -> ModelLayout:
    (model,) = load_analysed(request)
    return lay_out(model)


def _bytes_of(layout: ModelLayout) -> PlannedBytes:
    layers = [step.layer for step in layout.model.steps if step.layer is not None]
    return PlannedBytes(
        arena_bytes=layout.arena_bytes,
        caller_inputs_bytes=layout.model.caller_inputs_bytes,
        state_bytes=layout.state_bytes,
        params_bytes=layout.params_bytes,
        fused=tuple(one.detail for one in layers if one.operator == KIND),
    )


def _room(board: Board, layout: ModelLayout, options: ProjectOptions) -> BoardRoom:
    """Room of a board, by the count that a run of the model takes."""
    from mlf_sdk.pipeline.stages import fitted

    why = ""
    try:
        fitted((layout,), board, options)
    except DoesNotFitError as error:
        why = error.what.removeprefix("it does not fit: ")
    return BoardRoom(
        board=board.name,
        flash_bytes=board.flash.size_bytes,
        ram_bytes=board.ram.size_bytes,
        why=why,
    )
