# SPDX-License-Identifier: Apache-2.0
"""Survey of a ``.tflite`` file, also of one that can't be compiled."""

from __future__ import annotations

from pathlib import Path

from mlf_sdk.compiler.survey import BLOCKED_DOWNSTREAM, NOT_SUPPORTED, Survey, SurveyedOperator, survey_graph
from mlf_sdk.compiler.tflite.file import RawOperator, tensors_of
from mlf_sdk.compiler.tflite.load import Reading, model_faults, read_graph

FOLDED = "computed at compile time"


def survey_tflite(path: Path, batch: int = 1, custom: str = "") -> Survey:
    """Survey the model in ``path``.

    Raises:
        ArchiveError: the file is damaged; all faults at once.
        InputError: it is no ``.tflite`` file.
    """
    faults = model_faults(path)
    graph = read_graph(path, "", faults, batch, custom)
    built = {operator.number for operator in graph.graph.operators}
    rest = [_row(o, graph) for o in graph.raw.operators if o.number not in built]
    return survey_graph(graph.graph, rest, [str(fault) for fault in faults.faults], graph.findings)


def _row(operator: RawOperator, result: Reading) -> SurveyedOperator:
    """An operator that the graph does not hold."""
    raw, number = result.raw, operator.number
    note = (
        NOT_SUPPORTED
        if number in result.refused
        else BLOCKED_DOWNSTREAM
        if number in result.blocked_downstream
        else FOLDED
    )
    reads = list(tensors_of(raw, operator.inputs))
    ends = [*(t for t in reads if t.data is None)][:1] + [*tensors_of(raw, operator.outputs)][:1]
    return SurveyedOperator(
        number=operator.number,
        kind=operator.kind,
        detail="",
        dtype=" > ".join(dict.fromkeys(t.dtype.name for t in ends if t.dtype is not None)),
        shapes=tuple(t.shape for t in ends),
        macs=0 if note == FOLDED else None,
        weights_bytes=sum(t.data.nbytes for t in reads if t.data is not None),
        note=note,
    )
