# SPDX-License-Identifier: Apache-2.0
"""Control flow: branches that a run decides, and bodies that are repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.reals import Reduce
from mlf_sdk.errors import MlfError
from onnx_models import OnnxMaker

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
from onnx_agreement import agree

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Info = tuple[str, int, tuple[int, ...]]


def graph(nodes: list[Any], given: list[Info], results: list[str], **held: Any) -> Any:
    constants = [numpy_helper.from_array(np.asarray(data), name) for name, data in held.items()]
    ends = [helper.make_empty_tensor_value_info(name) for name in results]
    return helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*one) for one in given], ends, constants
    )


def branch(kind: str, *inputs: str, name: str = "r", **held: Any) -> Any:
    return graph([helper.make_node(kind, inputs, [name])], [], [name], **held)


def test_a_branch_that_a_run_decides(tmp_path: Path) -> None:
    """Both are computed: the second holds another If, and one of the results is a constant."""
    m = OnnxMaker()
    x = m.input(2, 3)
    total = m.add("ReduceSum", x, keepdims=1)
    rises = m.add("Greater", total, m.constant(np.float32(0)))
    far = m.add("Reshape", m.add("Greater", total, m.constant(np.float32(-3))), m.constant(np.array([1])))
    inner = {"then_branch": branch("Neg", x, name="s"), "else_branch": branch("Exp", x, name="s")}
    other = graph([helper.make_node("If", [far], ["r"], **inner)], [], ["r"])
    y = m.add("If", rises, then_branch=branch("Mul", x, "two", two=np.float32(2)), else_branch=other)
    fixed = [graph([], [], ["r"], r=np.full(3, value, np.float32)) for value in (0.5, -1)]
    z = m.add("If", rises, then_branch=fixed[0], else_branch=fixed[1])
    runs = [[np.full((2, 3), value, np.float32)] for value in (1, -0.25, -2)]
    agree(m.save(tmp_path / "m.onnx", m.add("Abs", y), z), *runs)


def nearest(m: OnnxMaker) -> str:
    """Distances of a row to all rows of a constant, as exporters of nearest neighbours write them."""
    nodes = [
        helper.make_node("Identity", ["row"], ["same"]),
        helper.make_node("Sub", ["row", "known"], ["d"]),
        helper.make_node("ReduceSumSquare", ["d"], ["far"], axes=[1], keepdims=0),
    ]
    body = graph(nodes, [("row", FLOAT, (1, 4)), ("known", FLOAT, (4,))], ["same", "far"])
    m.add("Scan", m.input(1, 4), m.weights(9, 4), body=body, num_scan_inputs=1, outputs=2)
    return m.add("Transpose", m.nodes[-1].output[1], perm=[1, 0])


def running(m: OnnxMaker) -> tuple[str, str]:
    """Sums from the last column to the first, which are collected behind each other in the order of columns."""
    nodes = [
        helper.make_node("Add", ["sum", "column"], ["next"]),
        helper.make_node("Tanh", ["next"], ["small"]),
    ]
    body = graph(nodes, [("sum", FLOAT, (3,)), ("column", FLOAT, (3,))], ["next", "small"])
    names = ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")
    ways = dict(zip(names, ([-1], [1], [1], [1]), strict=True))
    y = m.add("Scan", m.weights(3), m.input(3, 5), body=body, num_scan_inputs=1, outputs=2, **ways)
    return y, m.nodes[-1].output[1]


@pytest.mark.parametrize("opset", [11, 17])
def test_slices_one_after_the_other(opset: int, tmp_path: Path) -> None:
    m = OnnxMaker(1, opset)
    agree(m.save(tmp_path / "m.onnx", *running(m)))


def test_nearest_neighbours(tmp_path: Path) -> None:
    m = OnnxMaker(2)
    distances = nearest(m)
    m.add("TopK", distances, m.constant(np.array([3])), axis=1, largest=0, outputs=2)
    graph = agree(m.save(tmp_path / "m.onnx", *m.nodes[-1].output))
    assert sum(isinstance(operator, Reduce) for operator in graph.operators) == 1  # of all distances


def loop(m: OnnxMaker, limit: str, condition: str, least: float) -> list[str]:
    """A value that grows with the number of each repetition while that is below ``least``."""
    nodes = [
        helper.make_node("Cast", ["step"], ["real"], to=FLOAT),
        helper.make_node("Add", ["value", "real"], ["next"]),
        helper.make_node("Less", ["real", "least"], ["again"]),
    ]
    given: list[Info] = [("step", INT64, ()), ("before", BOOL, ()), ("value", FLOAT, (2, 3))]
    body = graph(nodes, given, ["again", "next", "real"], least=np.float32(least))
    m.add("Loop", limit, condition, "x", body=body, outputs=2)
    return list(m.nodes[-1].output)


@pytest.mark.parametrize(("limit", "least"), [(4, 99), (4, 1.5), (0, 99), (None, 2.5)])
def test_a_loop_whose_repetitions_are_known(limit: int | None, least: float, tmp_path: Path) -> None:
    """By its limit, or by a condition that follows from constants; it may not run at all."""
    m = OnnxMaker()
    m.input(2, 3)
    most = "" if limit is None else m.constant(np.array(limit))
    ends = loop(m, most, m.constant(np.array(True)) if limit is None else "", least)
    agree(m.save(tmp_path / "m.onnx", *ends[: 1 if limit == 0 else 2]))


def refused(m: OnnxMaker, folder: Path, *ends: str) -> str:
    with pytest.raises(MlfError) as caught:
        load_onnx(m.save(folder / "m.onnx", *ends))
    return str(caught.value)


def test_branches_of_two_shapes(tmp_path: Path) -> None:
    m = OnnxMaker()
    x = m.input(2, 3)
    condition = m.input(dtype=BOOL, name="b")
    both = {"then_branch": branch("Abs", x), "else_branch": branch("Transpose", x)}
    says = refused(m, tmp_path, m.add("If", condition, **both))
    assert "its branches give float32 (2, 3) and float32 (3, 2); where a run decides, results of one" in says


def test_a_loop_that_a_run_decides(tmp_path: Path) -> None:
    m = OnnxMaker()
    m.input(2, 3)
    says = refused(m, tmp_path, loop(m, m.input(dtype=INT64, name="n"), "", 9)[0])
    assert "the input of a run decides how often it repeats" in says


def test_a_loop_without_results(tmp_path: Path) -> None:
    m = OnnxMaker()
    m.input(2, 3)
    says = refused(m, tmp_path, loop(m, m.constant(np.array(0)), "", 9)[1])
    assert "it never runs, and its results have no elements" in says


def test_a_loop_of_large_branches(tmp_path: Path) -> None:
    """What is inside of its body counts as often as it is repeated."""
    m = OnnxMaker()
    x = m.input(2)
    nodes = [helper.make_node("Abs", [f"h{n}" if n else x], [f"h{n + 1}"]) for n in range(99)]
    sides = {f"{side}_branch": graph(nodes, [], ["h99"]) for side in ("then", "else")}
    body = [
        helper.make_node("If", ["before"], ["y"], **sides),
        helper.make_node("Identity", ["before"], ["on"]),
    ]
    inner = graph(body, [("step", INT64, ()), ("before", BOOL, ())], ["on", "y"])
    y = m.add("Loop", m.constant(np.array(50)), m.input(dtype=BOOL, name="b"), body=inner)
    assert "decides how often it repeats" in refused(m, tmp_path, y)
    m.nodes[0].input[1] = ""
    assert "its body would be repeated too often" in refused(m, tmp_path, y)


def test_a_loop_without_an_end(tmp_path: Path) -> None:
    """Each of its repetitions takes from what may be read of all loops of a model."""
    m = OnnxMaker()
    m.input(2, 3)
    says = refused(m, tmp_path, loop(m, m.constant(np.array(1 << 40)), "", 1e9)[0])
    assert "its body would be repeated too often: at most 4096 nodes of loops are read" in says


def test_slices_in_no_direction(tmp_path: Path) -> None:
    m = OnnxMaker()
    y, _ = running(m)
    next(a for a in m.nodes[0].attribute if a.name == "scan_output_directions").ints[0] = -1
    assert "its attribute scan_output_directions is [-1]; 0 and 1 are supported" in refused(m, tmp_path, y)


@pytest.mark.parametrize("kind", ["If", "Loop", "Scan"])
def test_a_node_without_its_graph(kind: str, tmp_path: Path) -> None:
    m = OnnxMaker()
    inputs = [m.input(3, dtype=BOOL)] if kind == "If" else [m.constant(np.array(1)), "", m.input(3)]
    says = refused(m, tmp_path, m.add(kind, *inputs[-1:] if kind == "Scan" else inputs, num_scan_inputs=1))
    assert "is missing, or has another number of inputs or results" in says
