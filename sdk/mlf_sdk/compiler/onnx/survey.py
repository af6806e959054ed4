# SPDX-License-Identifier: Apache-2.0
"""Survey of an ONNX file, also of one that can't be compiled."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from mlf_sdk.compiler.onnx.load import Reading, Shapes, model_faults, read_graph
from mlf_sdk.compiler.onnx.raw import RawNode
from mlf_sdk.compiler.passes.integer_layers import settled
from mlf_sdk.compiler.survey import BLOCKED_DOWNSTREAM, NOT_SUPPORTED, Survey, SurveyedOperator, survey_graph
from mlf_sdk.tools.checks import shown


def survey_onnx(path: Path, shapes: Shapes | None = None, batch: int = 1) -> Survey:
    """Survey the model in ``path``; operators are those of the graph that its nodes become.

    Args:
        shapes: of inputs whose shape the file leaves open.
        batch: extent of a first axis that the file leaves open.

    Raises:
        ArchiveError: the file is damaged, or a shape is missing; all faults at once.
        InputError: it is no ONNX file.
    """
    faults = model_faults(path)
    result = read_graph(path, "", shapes or {}, batch, faults)
    operators = tuple(
        dataclasses.replace(operator, number=number)
        for operator, number in zip(result.graph.operators, result.node_of, strict=True)
    )
    rest = [
        _row(node, result)
        for node in result.nodes
        if node.number in result.refused | result.blocked_downstream
    ]
    graph = dataclasses.replace(result.graph, operators=operators)
    return survey_graph(
        graph if faults.faults else settled(graph), rest, [str(fault) for fault in faults.faults]
    )


def _row(node: RawNode, result: Reading) -> SurveyedOperator:
    """A node that the graph does not hold."""
    reads = [result.tensors[name] for name in node.inputs if name in result.tensors]
    given = [t for t in reads if t.data is None][:1]
    return SurveyedOperator(
        number=node.number,
        kind=node.kind,
        detail=shown(node.name or ", ".join(node.outputs[:3])),
        dtype=" > ".join(t.dtype.name for t in given),
        shapes=tuple(t.shape for t in given),
        macs=None,
        weights_bytes=sum(t.data.nbytes for t in reads if t.data is not None),
        note=NOT_SUPPORTED if node.number in result.refused else BLOCKED_DOWNSTREAM,
    )
