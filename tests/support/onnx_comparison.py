# SPDX-License-Identifier: Apache-2.0
"""Comparison of a random ONNX network as this package reads it with ONNX Runtime.

What the file means is computed by the reference on the graph as read, and on the improved graph; kernels are
compared with the reference operator by operator (`kernel_checks`). Quantised results start anew: everything
behind one is computed by ONNX Runtime from the numbers that the reference gave it, so that each step of rounding
is judged alone. A quantised number is right where it is a nearest one to the real number that ONNX Runtime has in
front of QuantizeLinear. Layers requantise their sums as TensorFlow Lite does, first to a fraction of a step and
then to a step: near the middle of two numbers, within half that fraction, they may give either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from kernel_checks import KernelCheck, Values, all_choices, checks_of, difference, trace
from mlf_sdk.compiler.cores import Core, core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.operators import Convert, Rounding
from mlf_sdk.compiler.passes import improve
from mlf_sdk.errors import MlfError
from onnx_network import Array, Network, Point, session_of

TOLERANCE = 1e-5  # of the largest magnitude
BETWEEN = 1e-3  # of a step: how far a real number may lie from the middle of two for either to be right
_SUMS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Mul")
_MEANS = ("GlobalAveragePool", "ReduceMean")
MOST = 0.25  # of two roundings, of which the first is to halves


@dataclass
class Comparison:
    """What came of one network.

    Attributes:
        refused: why it isn't read, one line for each reason.
        faults: what is wrong.
        checks: kernels that are still to be compared with the reference.
    """

    refused: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    checks: list[KernelCheck] = field(default_factory=list)


def compare(
    n: Network, name: str, folder: Path, cores: Sequence[Core] = (core_named("generic"),)
) -> Comparison:
    """Compare a network's meaning; collect its kernels.

    Args:
        folder: where its files are left.
        cores: for each of which all goals' kernels are collected.
    """
    found = Comparison()
    whole, plain = folder / f"{name}_points.onnx", folder / f"{name}.onnx"
    whole.write_bytes(n.model(points=True).SerializeToString())
    plain.write_bytes(n.model().SerializeToString())
    try:
        open_, closed = load_onnx(whole), load_onnx(plain)
    except MlfError as error:
        found.refused = _reasons(str(error))
        return found
    given = [v.data for v in n.inputs]
    try:
        oracle = _Oracle(n)
    except Fail:  # it takes each node, but not all of them: its shapes of pooling contradict each other
        found.refused = ["ONNX Runtime: it refuses what it computed node by node"]
        return found
    as_read = outputs_of(open_, trace(open_, [given]))
    found.faults += [f"{name}: as read: {f}" for f in oracle.faults(as_read)]
    better = improve(open_)
    found.faults += [
        f"{name}: improved: {f}" for f in oracle.faults(outputs_of(better, trace(better, [given])))
    ]
    best = improve(closed)
    traced = trace(best, [given])
    if not _rounds_real_numbers(best):
        for value, got, wanted in zip(n.results, outputs_of(best, traced), as_read, strict=False):
            says = difference(got, wanted)
            found.faults += [f"{name}: without points: {value.name}: {says}"] * bool(says)
    for core in cores:
        found.checks += checks_of(name, best, traced, all_choices(core))
    return found


def outputs_of(graph: Graph, traced: Sequence[tuple[Values, ...]]) -> list[Array]:
    """Outputs of a graph in the first run of a trace."""
    found: dict[int, Array] = {}
    for operator, values in zip(graph.operators, traced, strict=True):
        found.update(zip(operator.outputs, values[0].outputs, strict=True))
    return [found[i] for i in graph.outputs]


def _reasons(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line.startswith("node ")] or lines[:1]


def _rounds_real_numbers(graph: Graph) -> bool:
    """True where real numbers that were computed are quantised: other roundings of them are other integers."""
    return any(
        isinstance(o, Convert) and o.rounding is Rounding.NEAREST_EVEN and o.inputs[0] not in graph.inputs
        for o in graph.operators
    )


class _Oracle:
    """ONNX Runtime on a network's meaning."""

    def __init__(self, n: Network) -> None:
        self.n = n
        model = n.anew()
        self.makers = {o: node for node in n.meaning for o in node.output}
        self.names = [o.name for o in model.graph.output]
        self.reads = {i.name for i in model.graph.input}
        self.session = session_of(model)

    def faults(self, ours: Sequence[Array]) -> list[str]:
        """Everything wrong with the outputs of a graph: the network's results, then its other points."""
        n = self.n
        names = [v.name for v in n.results]
        names += [p.name for p in n.points if p.name not in names]
        mine = dict(zip(names, ours, strict=True))
        shapes = {p.name: p.shape for p in n.points}
        feeds: dict[str, Any] = {v.name: v.data for v in n.inputs}
        feeds |= {
            p.name: np.asarray(mine[p.name]).astype(p.dtype).reshape(shapes[p.name])
            for p in n.points
            if p.name in self.reads
        }
        found = self.session.run(self.names, feeds)
        real = {
            name.removesuffix(".same"): np.asarray(array)
            for name, array in zip(self.names, found, strict=True)
        }
        faults = [
            f"{name}: {says}" for name in n.plain_results if (says := _difference(mine[name], real[name]))
        ]
        faults += [
            f"{p.name}: {says}"
            for p in n.points
            if (says := _rounded(mine[p.name], real[p.source], p, self._between(p)))
        ]
        return faults

    def _scale(self, name: str) -> float:
        """Largest scale of the stored numbers that a tensor was made from by moves; 0 where there are none."""
        node = self.makers.get(name)
        while node is not None and node.op_type != "DequantizeLinear":
            node = self.makers.get(node.input[0]) if node.input else None
        return 0.0 if node is None else float(self.n.constants[node.input[1]].max())

    def _between(self, point: Point) -> float:
        """How far from the middle of two numbers a result may be either of them, in steps."""
        node = self.makers.get(point.source)
        while node is not None and node.op_type in ("Relu", "Clip"):
            node = self.makers.get(node.input[0])
        if node is None or node.op_type not in (*_SUMS, *_MEANS, "AveragePool"):
            return BETWEEN
        if node.op_type in _MEANS:
            return MOST
        scales = [s for name in node.input[:2] if (s := self._scale(name))]
        share = 1 / 64 if node.op_type == "AveragePool" else 1.0
        # The first rounding is to the power of two under the multiplier of the sums.
        return min(max(BETWEEN, share * float(np.prod(scales)) / point.scale), MOST) if scales else BETWEEN


def _difference(got: Array, wanted: Array) -> str:
    if got.shape != wanted.shape:
        return f"the shape {got.shape} instead of {wanted.shape}"
    return difference(got, wanted, TOLERANCE)


def _rounded(got: Array, real: Array, point: Point, between: float) -> str:
    """How quantised numbers are none of the nearest to real ones; empty where they are."""
    if got.shape != real.shape or got.dtype != point.dtype:
        return f"{got.dtype}{got.shape} instead of {point.dtype}{real.shape}"
    info = np.iinfo(point.dtype)
    exact = np.clip(real.astype(np.float64) / point.scale + point.zero, info.min, info.max)
    far = np.abs(got.astype(np.float64) - exact)
    largest = float(np.abs(real).max(initial=0)) / point.scale
    wrong = far > 0.5 + between + TOLERANCE * largest
    if not wrong.any():
        return ""
    at = int(np.argmax(far.reshape(-1)))
    return (
        f"{int(wrong.sum())} of {wrong.size} are not the nearest; [{at}] is {got.reshape(-1)[at]}, "
        f"exactly {exact.reshape(-1)[at]:.5f}"
    )
