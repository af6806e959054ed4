# SPDX-License-Identifier: Apache-2.0
"""Survey of a model that is not compiled yet, for people and as plain values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec

from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.survey import SurveyedOperator
from mlf_sdk.pipeline.survey import ModelSurvey
from mlf_sdk.reporting.layout import Parts, counted, line, lines, number, size, table, verdict


def survey_parts(model_survey: ModelSurvey) -> Parts:
    """Lay out a model: operators, totals, boards, and what is not supported."""
    survey = model_survey.survey
    return [
        line("model", f"{survey.name}: {model_survey.format}, {counted(len(survey.operators), 'operator')}"),
        *lines("input", map(_value_text, survey.inputs)),
        *lines("output", map(_value_text, survey.outputs)),
        line("MACs", number(survey.macs)),
        *_needs(model_survey),
        "",
        table(
            (">", "operator", "type", "shapes", ">MACs", ">weights", ""),
            [_row(one) for one in survey.operators],
        ),
        "",
        *_boards(model_survey),
        *lines("finding", (f"{one.where}: {one.what}: {one.handled}" for one in survey.findings)),
        *lines("fault", survey.faults),
        line("verdict", _verdict_text(model_survey), verdict(model_survey.ok)),
    ]


def _verdict_text(model_survey: ModelSurvey) -> str:
    if not model_survey.can_compile:
        return f"it can't be compiled: {counted(len(model_survey.survey.faults), 'fault')}"
    if not model_survey.chosen or not model_survey.boards:
        return "it can be compiled"
    fits = "fits" if model_survey.ok else "does not fit"
    return f"it can be compiled, and {fits} {model_survey.boards[0].board}"


def _needs(model_survey: ModelSurvey) -> Parts:
    survey, plan = model_survey.survey, model_survey.plan
    if plan is None:
        return []
    weights = size(survey.weights_bytes)
    if survey.least_weights_bytes != survey.weights_bytes:
        weights += f", {number(survey.least_weights_bytes)} of them needed"
    ram = f"arena {size(plan.arena_bytes)} as compiled, at least {number(survey.least_ram_bytes)}"
    ram += " layer by layer" if plan.fused else ""
    if plan.caller_inputs_bytes:
        inputs = f"inputs of {size(plan.caller_inputs_bytes)} in memory of the caller"
        ram = f"arena {size(plan.arena_bytes)} as compiled, {inputs}"
    if plan.state_bytes:
        ram += f"; states {size(plan.state_bytes)}"
    return [
        line("weights", weights),
        line("flash", f"{size(plan.params_bytes)} as compiled, and the kernels"),
        line("RAM", f"{ram}; and the stack"),
        *lines("rows", (f"{one}, which hand rows on to each other" for one in plan.fused)),
        *([line("choices", _front(plan.front))] if plan.front else []),
    ]


def _front(front: Sequence[tuple[int, int]]) -> str:
    """RAM against the number of layers that run by rows, by the search: the plan may need a little more."""
    shown = [f"{number(ram)} B with {layers} layers by rows" for ram, layers in front if layers]
    return ", ".join([*shown, f"{size(front[-1][0])} layer by layer"])


def _value_text(value: Value) -> str:
    text = f"'{value.name}'  {value.dtype.name} {list(value.shape)}"
    if value.quantisation is not None and value.quantisation.axis is None:
        text += f"  scale {value.scale:.6g}, zero point {value.zero_point}"
    return text


def _row(one: SurveyedOperator) -> tuple[str, ...]:
    return (
        str(one.number),
        f"{one.kind} {one.detail}".rstrip(),
        one.dtype,
        " > ".join("x".join(map(str, shape)) or "1" for shape in one.shapes),
        "-" if one.macs is None else number(one.macs),
        number(one.weights_bytes),
        one.note,
    )


def _boards(model_survey: ModelSurvey) -> Parts:
    held = [room.board for room in model_survey.boards if room.holds]
    small = [f"{room.board}: {room.why}" for room in model_survey.boards if not room.holds]
    return [
        *([line("fits", ", ".join(held))] if held else []),
        *lines("too small", small),
    ]


def survey_values(model_survey: ModelSurvey) -> dict[str, Any]:
    """Survey as plain values."""
    survey = model_survey.survey
    return {
        "ok": model_survey.ok,
        "name": survey.name,
        "model": model_survey.source,
        "format": model_survey.format,
        "inputs": [_value_values(v) for v in survey.inputs],
        "outputs": [_value_values(v) for v in survey.outputs],
        "operators": [dataclasses.asdict(one) for one in survey.operators],
        "macs": survey.macs,
        "weights_bytes": survey.weights_bytes,
        "least_weights_bytes": survey.least_weights_bytes,
        "least_ram_bytes": survey.least_ram_bytes,
        "state_bytes": survey.state_bytes,
        "plan": model_survey.plan and dataclasses.asdict(model_survey.plan),
        "boards": [{**dataclasses.asdict(room), "holds": room.holds} for room in model_survey.boards],
        "faults": list(survey.faults),
        "findings": [msgspec.to_builtins(one) for one in survey.findings],
    }


def _value_values(value: Value) -> dict[str, Any]:
    return {
        "name": value.name,
        "dtype": value.dtype.name,
        "shape": list(value.shape),
        "scale": list(value.scales) if value.quantisation else [],
        "zero_point": list(value.quantisation.zero_point) if value.quantisation else [],
    }
