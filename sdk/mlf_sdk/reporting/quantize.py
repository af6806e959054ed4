# SPDX-License-Identifier: Apache-2.0
"""Result of a quantisation as terminal text and values."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from mlf_sdk.reporting.layout import Parts, counted, line, lines, number, size, table

if TYPE_CHECKING:
    from mlf_sdk.compiler.onnx.quantloss import TensorLoss
    from mlf_sdk.pipeline.quantize import QuantizedModel
    from mlf_sdk.pipeline.survey import PlannedBytes


def quantized_parts(quantized_model: QuantizedModel) -> Parts:
    """Lay out loss and savings: layers, outputs, accuracy, memory."""
    where = "" if quantized_model.own_samples else ", the same as those of the calibration"
    return [
        line("calibrated", f"with {counted(quantized_model.calibrated, 'sample')}"),
        line("measured", f"on {counted(quantized_model.measured, 'sample')}{where}; by ONNX Runtime"),
        "",
        table(
            ("tensor", "node", ">SNR dB", ">max error", ">max value"),
            map(_row, quantized_model.layers),
        ),
        "",
        *lines("output", map(_output_text, quantized_model.outputs)),
        *_classes(quantized_model),
        line(
            "flash",
            _saved(quantized_model.before.params_bytes, quantized_model.after.params_bytes) + " of constants",
        ),
        line(
            "RAM", _saved(_ram(quantized_model.before), _ram(quantized_model.after)) + " of arena and states"
        ),
        *_instructions(quantized_model),
        *_left(quantized_model),
        line("written", f"{quantized_model.output}: {size(quantized_model.size_bytes)}"),
    ]


def _row(one: TensorLoss) -> tuple[str, ...]:
    return (
        one.tensor,
        one.node,
        _decibel(one.snr_db),
        f"{one.max_error:.3g}",
        f"{one.max_value:.3g}",
    )


def _decibel(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _output_text(one: TensorLoss) -> str:
    return (
        f"'{one.tensor}'  SNR {_decibel(one.snr_db)} dB, largest error {one.max_error:.3g} "
        f"of values up to {one.max_value:.3g}"
    )


def _classes(quantized_model: QuantizedModel) -> Parts:
    parts: Parts = []
    if quantized_model.agreement is not None:
        parts.append(line("top class", f"the same in {quantized_model.agreement:.2%} of the samples"))
    if quantized_model.accuracy_before is not None and quantized_model.accuracy_after is not None:
        parts.append(
            line(
                "accuracy",
                f"{quantized_model.accuracy_before:.2%} before, {quantized_model.accuracy_after:.2%} after",
            )
        )
    return parts


def _ram(planned: PlannedBytes) -> int:
    return planned.arena_bytes + planned.state_bytes


def _saved(before: int, after: int) -> str:
    share = f" ({after / before:.0%})" if before else ""
    return f"{number(before)} B before, {size(after)} after{share}"


def _instructions(quantized_model: QuantizedModel) -> Parts:
    before, after = quantized_model.instructions_before, quantized_model.instructions_after
    if not before or after is None:
        return []
    share = f"{after / before:.0%}"
    text = f"{number(before)} instructions before, {number(after)} after ({share}) on {quantized_model.board}"
    return [line("executes", text)]


def _left(quantized_model: QuantizedModel) -> Parts:
    kinds = dict.fromkeys(quantized_model.real_operators)
    if not kinds:
        return []
    return [line("float", f"{', '.join(kinds)}: still computed with real numbers")]


def quantized_values(quantized_model: QuantizedModel) -> dict[str, Any]:
    """The same as plain values."""
    return {**dataclasses.asdict(quantized_model), "output": str(quantized_model.output)}
