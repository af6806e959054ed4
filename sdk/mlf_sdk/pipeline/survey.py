# SPDX-License-Identifier: Apache-2.0
"""Survey of a model that is not compiled yet, and the boards that can hold it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.rows.fused import KIND
from mlf_sdk.compiler.survey import Survey
from mlf_sdk.frontends.compiled import compiling_frontend
from mlf_sdk.pipeline.loading import load_analysed, options_in
from mlf_sdk.pipeline.request import Request
from mlf_sdk.planner.layout import lay_out
from mlf_sdk.targets.boards.load import load_boards
from mlf_sdk.targets.boards.row import Board


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBytes:
    """Memory of the compiled model: its arena, its states and its packed constants.

    Attributes:
        fused: layers that hand rows on to each other, a text for each region.
        front: choices of such layers where the request asks for less RAM: bytes by the search, and their
            number.
    """

    arena_bytes: int
    state_bytes: int
    params_bytes: int
    fused: tuple[str, ...] = ()
    front: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRoom:
    """Memory of a board, and what it lacks for the model, its stack and no other code; empty: nothing."""

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
    """

    source: str
    format: str
    survey: Survey
    plan: PlannedBytes | None
    boards: tuple[BoardRoom, ...]

    @property
    def ok(self) -> bool:
        """Return whether it can be compiled."""
        return not self.survey.faults


def survey_request(request: Request) -> ModelSurvey:
    """Survey the model of a request, for its board or for all that are known.

    Raises:
        ArchiveError: the file is damaged; all faults at once.
        InputError: there is no such board.
    """
    path = Path(request.source[0])
    frontend = compiling_frontend(path)
    survey = frontend.survey(path, options_in(request))
    plan = None if survey.faults else planned_bytes(request)
    if plan is not None and (request.goal == Goal.RAM.value or request.max_arena is not None):
        plan = dataclasses.replace(plan, front=frontend.ram_front(path, options_in(request)))
    rows = load_boards(request.board_file)
    boards = [row for row in rows.values() if row.memories]
    if request.board is not None:
        from mlf_sdk.pipeline.stages import board_of

        board = board_of(request)
        boards = [board] if board.memories else []
    return ModelSurvey(
        source=str(path),
        format=frontend.title,
        survey=survey,
        plan=plan,
        boards=() if plan is None else tuple(_room(board, plan) for board in boards),
    )


def planned_bytes(request: Request) -> PlannedBytes:
    """Compile the model of a request, and plan its memory; errors as in `survey_request`."""
    (model,) = load_analysed(request)
    layout = lay_out(model)
    layers = [step.layer for step in layout.model.steps if step.layer is not None]
    return PlannedBytes(
        arena_bytes=layout.arena_bytes,
        state_bytes=layout.state_bytes,
        params_bytes=layout.params_bytes,
        fused=tuple(one.detail for one in layers if one.operator == KIND),
    )


def _room(board: Board, plan: PlannedBytes) -> BoardRoom:
    lacks = []
    ram = plan.arena_bytes + plan.state_bytes + board.stack_bytes
    if ram > board.ram.size_bytes:
        lacks.append(f"{ram:,} B with its stack, and it has {board.ram.size_bytes:,} B of RAM")
    if plan.params_bytes > board.flash.size_bytes:
        lacks.append(f"{board.flash.size_bytes:,} B of flash")
    return BoardRoom(
        board=board.name,
        flash_bytes=board.flash.size_bytes,
        ram_bytes=board.ram.size_bytes,
        why="; ".join(lacks),
    )
