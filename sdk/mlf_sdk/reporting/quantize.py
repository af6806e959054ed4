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


def quantized_parts(found: QuantizedModel) -> Parts:
    """Lay out loss and savings: layers, outputs, accuracy, memory."""
    where = "" if found.own_samples else ", the same as those of the calibration"
    return [
        line("calibrated", f"with {counted(found.calibrated, 'sample')}"),
        line("measured", f"on {counted(found.measured, 'sample')}{where}; by ONNX Runtime"),
        "",
        table(
            ("tensor", "node", ">SNR dB", ">max error", ">max value"),
            map(_row, found.layers),
        ),
        "",
        *lines("output", map(_output_text, found.outputs)),
        *_classes(found),
        line("flash", _saved(found.before.params_bytes, found.after.params_bytes) + " of constants"),
        line("RAM", _saved(_ram(found.before), _ram(found.after)) + " of arena and states"),
        *_instructions(found),
        *_left(found),
        line("written", f"{found.output}: {size(found.size_bytes)}"),
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


def _classes(found: QuantizedModel) -> Parts:
    parts: Parts = []
    if found.agreement is not None:
        parts.append(line("top class", f"the same in {found.agreement:.2%} of the samples"))
    if found.accuracy_before is not None and found.accuracy_after is not None:
        parts.append(
            line("accuracy", f"{found.accuracy_before:.2%} before, {found.accuracy_after:.2%} after")
        )
    return parts


def _ram(planned: PlannedBytes) -> int:
    return planned.arena_bytes + planned.state_bytes


def _saved(before: int, after: int) -> str:
    share = f" ({after / before:.0%})" if before else ""
    return f"{number(before)} B before, {size(after)} after{share}"


def _instructions(found: QuantizedModel) -> Parts:
    before, after = found.instructions_before, found.instructions_after
    if not before or after is None:
        return []
    text = (
        f"{number(before)} instructions before, {number(after)} after ({after / before:.0%}) on {found.board}"
    )
    return [line("executes", text)]


def _left(found: QuantizedModel) -> Parts:
    kinds = dict.fromkeys(found.real_operators)
    if not kinds:
        return []
    return [line("float", f"{', '.join(kinds)}: still computed with real numbers")]


def quantized_values(found: QuantizedModel) -> dict[str, Any]:
    """The same as plain values."""
    return {**dataclasses.asdict(found), "output": str(found.output)}
