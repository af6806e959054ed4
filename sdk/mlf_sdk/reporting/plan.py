# SPDX-License-Identifier: Apache-2.0
"""Memory plans, kernel by kernel: what was read of each, its effects, and what both cost in the arena."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlf_sdk.ir.model import Model, Step
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.reporting.layout import Parts, counted, line, lines, number, size, table

if TYPE_CHECKING:
    from mlf_sdk.planner.costs import StepCost

Values = dict[str, Any]


def reading_text(model: Model) -> str:
    """Number of kernels that were looked into, and by what means, in words."""
    known = sum(not step.opaque_reason for step in model.steps)
    text = f"{known} of {counted(len(model.steps), 'kernel')} looked into"
    return f"{text}; code {model.reader}" if model.reader else text


def effect_lines(model: Model) -> Parts:
    """Effects of all kernels beyond their outputs; nothing where there are none."""
    return lines("effects", [f"{model.label(s.symbol)} {_effects(model, s)}" for s in model.steps if _has(s)])


def plan_parts(layout: ModelLayout, costs: Mapping[int, StepCost], saved_bytes: int) -> Parts:
    """Table of the kernels in the order in which they run."""
    rows = [
        (
            str(place),
            _cost_text(costs[step.index]),
            layout.model.label(step.name),
            _reading(layout.model, step),
        )
        for place, step in enumerate(layout.steps)
    ]
    whole = f"{size(saved_bytes)} less than with every kernel taken as a whole"
    return ["", table((">step", ">arena", "kernel", "analysis"), rows), "", line("phases", whole)]


def plan_values(layout: ModelLayout, costs: Mapping[int, StepCost], saved_bytes: int) -> Values:
    """The same as plain values."""
    model = layout.model
    return {
        "reader": model.reader,
        "saved_bytes": saved_bytes,
        "steps": [
            {
                "name": step.name,
                "symbol": step.symbol,
                "looked_into": not step.opaque_reason,
                "reason": step.opaque_reason,
                "phases": step.phases,
                "saved_bytes": costs[step.index].saved_bytes,
                "whole_bytes_at_most": costs[step.index].whole_bytes,
                "effects_bytes": costs[step.index].effects_bytes,
                **effect_values(model, step),
            }
            for step in layout.steps
        ],
    }


def effect_values(model: Model, step: Step) -> Values:
    """Effects of one kernel as plain values."""
    return {
        "writes": [model.tensors[step.inputs[i]].name for i in step.writes],
        "keeps": [model.tensors[step.arguments[i]].name for i in step.escaping_args],
        "depends_on": list(step.persistent_globals),
    }


def _has(step: Step) -> bool:
    return bool(step.writes or step.escaping_args or step.persistent_globals)


def _cost_text(cost: StepCost) -> str:
    if cost.whole_bytes:
        return f"<= +{number(cost.whole_bytes)}"
    net = cost.effects_bytes - cost.saved_bytes
    return f"{'+' if net > 0 else ''}{number(net)}"


def _reading(model: Model, step: Step) -> str:
    text = (
        f"taken as a whole: {step.opaque_reason}"
        if step.opaque_reason
        else f"looked into, {counted(step.phases, 'phase')}"
    )
    return f"{text}; {_effects(model, step)}" if _has(step) else text


def _effects(model: Model, step: Step) -> str:
    result = effect_values(model, step)
    parts = [f"writes its input '{name}'" for name in result["writes"]]
    parts += [f"may keep the address of '{name}', alive in all of the run" for name in result["keeps"]]
    if step.persistent_globals:
        parts.append(f"depends on {', '.join(step.persistent_globals)}: keeps its place in the order")
    return "; ".join(parts)
