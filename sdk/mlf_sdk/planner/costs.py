# SPDX-License-Identifier: Apache-2.0
"""Costs in arena bytes of what is known, and of what is not known, about each kernel."""

from __future__ import annotations

import dataclasses

import msgspec

from mlf_sdk.ir.model import Model, Span, Step
from mlf_sdk.planner.layout import ModelLayout, plan_problem
from mlf_sdk.planner.plan import plan_memory


class StepCost(msgspec.Struct, frozen=True, kw_only=True):
    """Arena sizes with and without the knowledge of one kernel.

    Attributes:
        saved_bytes: what the arena would have more if the kernel were taken as a whole.
        whole_bytes: most that the arena has more because the kernel is taken as a whole.
        effects_bytes: what the arena has more because of the kernel's effects.
    """

    saved_bytes: int = 0
    whole_bytes: int = 0
    effects_bytes: int = 0


def step_costs(layout: ModelLayout) -> dict[int, StepCost]:
    """Plan the model anew for each of its steps, by step index.

    Args:
        layout: of an analysed model.
    """
    return {step.index: _cost(layout, step) for step in layout.model.steps}


def bytes_saved(layout: ModelLayout) -> int:
    """Bytes that the arena would have more if every kernel were taken as a whole."""
    return _arena(layout, *map(_as_whole, layout.model.steps)) - layout.arena_bytes


def _cost(layout: ModelLayout, step: Step) -> StepCost:
    plain = dataclasses.replace(step, escaping_args=(), persistent_globals=())
    return StepCost(
        saved_bytes=_arena(layout, _as_whole(step)) - layout.arena_bytes if step.phases > 1 else 0,
        whole_bytes=layout.arena_bytes - _arena(layout, _at_best(step)) if step.opaque_reason else 0,
        effects_bytes=layout.arena_bytes - _arena(layout, plain) if plain != step else 0,
    )


def _arena(layout: ModelLayout, *changed: Step) -> int:
    """Size of the arena with other steps in place of some."""
    steps = {step.index: step for step in (*layout.model.steps, *changed)}
    model: Model = dataclasses.replace(layout.model, steps=tuple(steps[i] for i in sorted(steps)))
    return plan_memory(plan_problem(model, keep_inputs=layout.inputs_kept)).arena_bytes


def _as_whole(step: Step) -> Step:
    whole = Span(first=0, last=0)
    return dataclasses.replace(
        step,
        phases=1,
        spans=(whole,) * len(step.arguments),
        workspaces=tuple(dataclasses.replace(w, span=whole) for w in step.workspaces),
    )


def _at_best(step: Step) -> Step:
    """The step with nothing in use at the same time: the limit of any analysis."""
    count = len(step.arguments) + len(step.workspaces)
    phases = [Span(first=phase, last=phase) for phase in range(count)]
    own, tensors = phases[: len(step.workspaces)], phases[len(step.workspaces) :]
    workspaces = zip(step.workspaces, own, strict=True)
    return dataclasses.replace(
        step,
        phases=max(count, 1),
        spans=tuple(tensors),
        workspaces=tuple(dataclasses.replace(w, span=span) for w, span in workspaces),
    )
