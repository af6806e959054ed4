# SPDX-License-Identifier: Apache-2.0
"""Survey of a model before it is compiled: its operators, what they need, and what is not supported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.layer import detail_of, macs_of
from mlf_sdk.compiler.operators import Operator
from mlf_sdk.compiler.passes import improve
from mlf_sdk.ir.model import Finding

NOT_SUPPORTED: Final = "not supported"
BLOCKED_DOWNSTREAM: Final = "behind one that is not supported"


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedOperator:
    """An operator of the model's file.

    Attributes:
        number: position in the file.
        kind: name in the file's format.
        detail: such as a window; empty: none.
        dtype: element type of the first input that is not constant, and of the first output where it differs.
        shapes: of the same two tensors; empty where there is none.
        macs: multiply-accumulates; None for an operator that was not understood.
        weights_bytes: of its constants.
        note: ``not supported``, or why there is no work at run time; empty otherwise.
    """

    number: int
    kind: str
    detail: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    macs: int | None
    weights_bytes: int
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A model's operators and needs.

    Attributes:
        inputs, outputs: of the graph.
        faults: reasons why it can't be compiled; empty when it can.
        findings: about what the file says and what is made of it.
        weights_bytes: of all constants that operators read at run time.
        least_weights_bytes: of those that are left when channels that hold one value are removed.
        least_ram_bytes: of activations: no plan of these steps in this order needs less.
        state_bytes: of the values that live from one run to the next.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    operators: tuple[SurveyedOperator, ...]
    faults: tuple[str, ...]
    findings: tuple[Finding, ...]
    weights_bytes: int
    least_weights_bytes: int
    least_ram_bytes: int
    state_bytes: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all operators that were understood."""
        return sum(one.macs or 0 for one in self.operators)


def survey_graph(
    graph: Graph,
    rest: Iterable[SurveyedOperator] = (),
    faults: Sequence[str] = (),
    findings: Sequence[Finding] = (),
) -> Survey:
    """Survey a graph.

    Args:
        graph: the model, or what could be read of it.
        rest: operators of the file that are not in the graph.
        faults: reasons why it can't be compiled.
        findings: about its file.
    """
    rows = [*(_row(graph, operator) for operator in graph.operators), *rest]
    left = graph if faults else improve(graph)
    state_bytes = sum(s.initial.nbytes for s in graph.states)
    return Survey(
        name=graph.name,
        inputs=tuple(graph.values[i] for i in graph.inputs),
        outputs=tuple(graph.values[i] for i in graph.outputs),
        operators=tuple(sorted(rows, key=lambda row: row.number)),
        faults=tuple(faults),
        findings=tuple(findings),
        weights_bytes=_weights(graph),
        least_weights_bytes=_weights(left),
        least_ram_bytes=least_activations(left),
        state_bytes=state_bytes,
    )


def least_activations(graph: Graph) -> int:
    """Bytes that activations need at least, in the order of the operators.

    At each operator all values live that something reads later; of its own inputs that end there and its
    outputs, which may share memory, the larger.
    """
    last = {i: at for at, operator in enumerate(graph.operators) for i in operator.inputs}
    last |= dict.fromkeys(graph.outputs, len(graph.operators))
    live = set(graph.inputs)
    most = sum(graph.values[i].size_bytes for i in live)
    for at, operator in enumerate(graph.operators):
        ending = {i for i in live if last.get(i, -1) <= at}
        written = {*operator.outputs}
        through = live - ending
        ended = ending & set(operator.inputs)
        most = max(most, _bytes(graph, through) + max(_bytes(graph, ended), _bytes(graph, written)))
        live = through | {i for i in written if i in last}
    return most


def _bytes(graph: Graph, ids: Iterable[int]) -> int:
    return sum(graph.values[i].size_bytes for i in ids)


def _weights(graph: Graph) -> int:
    read = {i for operator in graph.operators for i in operator.inputs if graph.values[i].data is not None}
    return _bytes(graph, read)


def _row(graph: Graph, operator: Operator) -> SurveyedOperator:
    reads, writes = graph.read(operator), graph.written(operator)
    ends = [v for v in (next((v for v in reads if v.data is None), None), next(iter(writes), None)) if v]
    return SurveyedOperator(
        number=operator.number,
        kind=operator.kind,
        detail=detail_of(operator),
        dtype=" > ".join(dict.fromkeys(v.dtype.name for v in ends)),
        shapes=tuple(v.shape for v in ends),
        macs=macs_of(graph, operator),
        weights_bytes=sum(v.size_bytes for v in reads if v.data is not None),
    )
