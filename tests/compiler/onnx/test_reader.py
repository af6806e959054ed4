# SPDX-License-Identifier: Apache-2.0
"""Reading ONNX files: bounds of constants and functions, branches that are known, what ONNX Runtime takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from compiled_models import KernelRunner
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.onnx.budget import MAX_FOLDED
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.survey import NOT_SUPPORTED
from mlf_sdk.errors import MlfError
from mlf_sdk.frontends.mlf.compiled import archive_of
from onnx_models import OnnxMaker

ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
INT, Array = np.int64, np.ndarray[Any, np.dtype[Any]]
info = helper.make_tensor_value_info


def message(path: Path, shapes: dict[str, tuple[int, ...]] | None = None) -> str:
    with pytest.raises(MlfError) as caught:
        load_onnx(path, shapes=shapes)
    assert caught.value.exit_code == 2
    return str(caught.value)


def by_runtime(path: Path, given: list[Array]) -> list[Array]:
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(zip([i.name for i in session.get_inputs()], given, strict=True))))


def agree(path: Path, shapes: dict[str, tuple[int, ...]]) -> Graph:
    """Compare ONNX Runtime, the numpy reference and the kernels."""
    graph = load_onnx(path, shapes=shapes)
    random = np.random.default_rng(3)
    given = [random.standard_normal(graph.values[i].shape).astype(np.float32) for i in graph.inputs]
    wanted = by_runtime(path, given)
    by_kernels = KernelRunner(archive_of(compile_graph(graph, Choice())), path.parent, ("-O1",)).run(given)
    for found in (Interpreter(graph).run(given), by_kernels):
        for got, expected in zip(found, wanted, strict=True):
            np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=0, atol=1e-5)
    return graph


def test_numbers_beyond_single_precision_are_refused(tmp_path: Path) -> None:
    """They would be infinite: what hides behind them is lost."""
    m = OnnxMaker()
    x = m.add("Cast", m.input(1, 3), to=TensorProto.DOUBLE)
    y = m.add("Min", x, m.constant(np.array([1.0, -np.inf, 1.5e100])))
    text = message(m.save(tmp_path / "m.onnx", m.add("Cast", y, to=TensorProto.FLOAT)))
    assert "holds 1.5e+100, which single precision can't hold" in text


def test_old_versions_of_operators_that_stayed(tmp_path: Path) -> None:
    m = OnnxMaker(opset=6)
    y = m.add("Conv", m.input(1, 3, 5, 6), m.weights(4, 3, 3, 3), pads=[1, 1, 1, 1])
    y = m.add("MaxPool", m.add("Clip", y, min=-0.2, max=0.3), kernel_shape=[2, 2], strides=[2, 2])
    agree(m.save(tmp_path / "m.onnx", m.add("Softmax", m.add("Flatten", y))), {})


def doubled(m: OnnxMaker, kind: str, x: str) -> str:
    """A constant of twice the elements, by way of one of the operators that can give more than they read."""
    if kind == "Concat":
        return m.add("Concat", x, x, axis=0)
    if kind == "Expand":
        return m.add("Reshape", m.add("Expand", m.add("Unsqueeze", x, m.constant(np.array([0], INT))), m.constant(np.array([2, 1], INT))), m.constant(np.array([-1], INT)))  # fmt: skip
    if kind == "Pad":
        return m.add("Pad", x, m.add("Concat", m.constant(np.array([0], INT)), m.add("Shape", x), axis=0))
    if kind == "Gather":
        rows = m.add(
            "Gather", m.add("Unsqueeze", x, m.constant(np.array([0], INT))), m.constant(np.array([0, 0]))
        )
        return m.add("Reshape", rows, m.constant(np.array([-1], INT)))
    if kind == "ConstantOfShape":
        twice = m.add("Mul", m.add("Shape", x), m.constant(np.array([2], INT)))
        return m.add("ConstantOfShape", twice)
    if kind == "Resize":
        wide = m.add("Reshape", x, m.constant(np.array([1, 1, 1, -1], INT)))
        scales = m.constant(np.array([1, 1, 1, 2], np.float32))
        return m.add("Reshape", m.add("Resize", wide, "", scales), m.constant(np.array([-1], INT)))
    return m.add("Tile", x, m.constant(np.array([2], INT)))


@pytest.mark.parametrize("kind", ["Concat", "Expand", "Pad", "Gather", "ConstantOfShape", "Resize", "Tile"])
def test_constants_that_double_are_one_error(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every node is small for itself; together they have a budget, and the one that exceeds it is named."""
    monkeypatch.setattr("mlf_sdk.compiler.onnx.budget.MAX_FOLDED", 1 << 12)
    m = OnnxMaker(opset=18)
    x = m.constant(np.ones(3, np.float32))
    for _ in range(40):
        x = doubled(m, kind, x)
    text = message(m.save(tmp_path / "m.onnx", m.add("Add", m.input(1), x)))
    assert "more may be computed when the model is read" in text and text.count("node ") == 1
    assert MAX_FOLDED <= 1 << 24  # of eight bytes: 128 MB


@pytest.mark.parametrize("kind", ["MatMul", "Einsum", "Resize"])
def test_constants_that_take_long_are_one_error(kind: str, tmp_path: Path) -> None:
    """Their results are small."""
    m = OnnxMaker(opset=18)
    x = m.add("ConstantOfShape", m.constant(np.array([1 << 10, 1 << 10], INT)))
    if kind == "Resize":
        x = m.add("Reshape", x, m.constant(np.array([1, 1, 1 << 10, -1], INT)))
        x = m.add("Resize", x, "", "", m.constant(np.array([1, 1, 2, 2], INT)))
    elif kind == "Einsum":
        x = m.add("Einsum", x, x, x, equation="ab,cd,ef->a")
    else:
        for _ in range(4):
            x = m.add("MatMul", x, x)
    text = message(m.save(tmp_path / "m.onnx", m.add("Add", m.input(1), x)))
    assert " steps; " in text and text.count("node ") == 1


def test_results_that_are_counted_are_computed(tmp_path: Path) -> None:
    """The shape of NonZero depends on numbers, which are known here."""
    m = OnnxMaker()
    places = m.add("NonZero", m.constant(np.array([0, 1, 0, 1, 1], np.float32)))
    path = m.save(tmp_path / "m.onnx", m.add("Gather", m.input(5), m.add("Squeeze", places, m.constant(np.array([0], INT)))))  # fmt: skip
    assert load_onnx(path).values[-1].shape == (3,)


def with_functions(path: Path, functions: dict[str, tuple[str, ...]], opset: int = 17, own: int = 17) -> Path:
    """A model that calls the first of some functions of one operator each, which call others in a chain."""
    opsets = [helper.make_opsetid("my", 1), *([helper.make_opsetid("", opset)] if opset else [])]
    made = []
    for name, calls in functions.items():
        names = ["a", *(f"t{i}" for i in range(len(calls)))]
        nodes = [helper.make_node(c, [names[i]], [names[i + 1]], domain="my") for i, c in enumerate(calls)]
        nodes.append(helper.make_node("Abs", [names[-1]], ["b"]))
        inside = [helper.make_opsetid("my", 1), helper.make_opsetid("", own)]
        made.append(helper.make_function("my", name, ["a"], ["b"], nodes, inside))
    calls = [helper.make_node(next(iter(functions)), ["x"], ["y"], domain="my")]
    ends = [info("x", TensorProto.FLOAT, [4])], [info("y", TensorProto.FLOAT, [4])]
    graph = helper.make_graph(calls, "model", *ends)
    model = helper.make_model(graph, functions=made, opset_imports=opsets, ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def test_functions_in_functions(tmp_path: Path) -> None:
    few = {"F0": ("F1", "F1"), "F1": ("F2", "F2"), "F2": ()}
    for opset, own in ((17, 17), (0, 17), (18, 17)):  # without a version of its own, and with another one
        graph = agree(with_functions(tmp_path / "few.onnx", few, opset, own), {})
        assert len(graph.operators) == 7
    laughs = {f"F{i}": (f"F{i + 1}",) * 2 for i in range(40)} | {"F40": ()}
    text = message(with_functions(tmp_path / "laughs.onnx", laughs))
    assert (
        "the function 'my.F25' expands to 65535 nodes" not in text and "my.F2" in text and "nodes of" in text
    )
    chain = {f"F{i}": (f"F{i + 1}",) for i in range(900)} | {"F900": ()}
    assert "functions call each other 65 deep" in message(with_functions(tmp_path / "chain.onnx", chain))
    loop = {"F0": ("F1",), "F1": ("F2",), "F2": ("F1",)}
    assert "the function 'my.F1' calls itself" in message(with_functions(tmp_path / "loop.onnx", loop))


def test_a_function_behind_operators_of_onnx_runtime(tmp_path: Path) -> None:
    """What Celu is defined by depends on the type of its input, which ONNX does not know behind such operators."""
    m = OnnxMaker()
    y = m.add("Exp", m.add("QuickGelu", m.input(2, 5), domain="com.microsoft"))
    agree(m.save(tmp_path / "gelu.onnx", m.add("Celu", y)), {})
    m = OnnxMaker()
    scale, zero = m.constant(np.float32(0.1)), m.constant(np.int8(3))
    x = m.add("QuantizeLinear", m.input(2, 5), scale, zero)
    y = m.add("QLinearConcat", scale, zero, x, scale, zero, x, scale, zero, domain="com.microsoft", axis=0)
    agree(m.save(tmp_path / "concat.onnx", m.add("Celu", m.add("DequantizeLinear", y, scale, zero))), {})


def test_a_function_behind_classical_operators(tmp_path: Path) -> None:
    """ONNX infers no type of most operators of ai.onnx.ml, in functions and outside of them."""
    domain = "ai.onnx.ml"
    given: dict[str, Any] = {"kernel_type": "LINEAR", "kernel_params": [0.0] * 3}
    given |= {"rho": [0.5], "coefficients": [0.5, -0.25, 1.0]}
    m = OnnxMaker()
    body = [
        helper.make_node("Normalizer", ["a"], ["b"], domain=domain, norm="L2"),
        helper.make_node("SVMRegressor", ["b"], ["c"], domain=domain, **given),
        helper.make_node("Celu", ["c"], ["d"]),
    ]
    opsets = [helper.make_opsetid("", m.opset), helper.make_opsetid(domain, m.domains[domain])]
    m.domains["my"] = 1
    model = m.model(m.add("F", m.input(2, 3), domain="my"))
    model.functions.append(helper.make_function("my", "F", ["a"], ["d"], body, opsets))
    (tmp_path / "function.onnx").write_bytes(model.SerializeToString())
    agree(tmp_path / "function.onnx", {})
    m = OnnxMaker()
    coefficients = {"coefficients": [0.5, -0.25, 1.0, 1.0, 0.0, -1.0], "intercepts": [0.1, 0.2]}
    m.add(
        "LinearClassifier", m.input(2, 3), outputs=2, domain=domain,
        classlabels_ints=[3, 4], **coefficients,
    )  # fmt: skip
    scores = m.add("Imputer", m.nodes[-1].output[1], domain=domain, imputed_value_floats=[1.0])
    agree(m.save(tmp_path / "scores.onnx", m.add("Celu", scores)), {})


def test_functions_with_large_constants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlf_sdk.compiler.onnx.inline.MAX_EXPANDED_BYTES", 100)
    few = {"F0": ("F1",) * 30, "F1": ("F2",) * 3, "F2": ()}
    assert "bytes; at most" in message(with_functions(tmp_path / "m.onnx", few))


@pytest.mark.parametrize("stated", [0, -1])
def test_an_extent_that_older_exporters_leave_open(stated: int, tmp_path: Path) -> None:
    m = OnnxMaker()
    path = m.save(tmp_path / "m.onnx", m.add("Abs", m.input(stated, 4)))
    assert load_onnx(path, batch=3).values[0].shape == (3, 4)
    m = OnnxMaker()
    path = m.save(tmp_path / "n.onnx", m.add("Abs", m.input(2, stated)))
    said = message(path)
    assert "--shape x=2,N" in said and "the model has a fault" in said and "archive" not in said
    assert load_onnx(path, shapes={"x": (2, 7)}).values[0].shape == (2, 7)


def test_no_version_of_operators_that_no_node_needs(tmp_path: Path) -> None:
    m = OnnxMaker()
    model = m.model(m.add("Gelu", m.input(5), domain="com.microsoft"))
    del model.opset_import[0]
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    agree(path, {})
    model.graph.node[0].domain = ""
    path.write_bytes(model.SerializeToString())
    assert "no version of the standard operators" in message(path)


def branching(m: OnnxMaker, condition: str, inner: bool = False) -> str:
    """An If: the product of x and y with a constant in one branch, the transposed product in the other."""
    two = helper.make_tensor("two", TensorProto.FLOAT, [1], [2.0])
    then_nodes = [helper.make_node("Mul", ["x", "two"], ["h"]), helper.make_node("Add", ["h", "y"], ["r"])]
    else_nodes = [helper.make_node("Mul", ["y", "x"], ["h"]), helper.make_node("Transpose", ["h"], ["r"])]
    if inner:  # another If in the first branch, which captures what that writes
        deeper = [helper.make_graph([helper.make_node(k, ["h"], ["s"])], k, [], [helper.make_empty_tensor_value_info("s")]) for k in ("Exp", "Neg")]  # fmt: skip
        then_nodes.append(
            helper.make_node("If", [condition], ["q"], then_branch=deeper[0], else_branch=deeper[1])
        )
    ends = (
        [helper.make_empty_tensor_value_info("q" if inner else "r")],
        [helper.make_empty_tensor_value_info("r")],
    )
    then_branch = helper.make_graph(then_nodes, "then", [], ends[0], [two])
    else_branch = helper.make_graph(else_nodes, "else", [], ends[1])
    return m.add("If", condition, then_branch=then_branch, else_branch=else_branch)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("inner", [False, True])
def test_a_branch_that_shapes_decide(rows: int, inner: bool, tmp_path: Path) -> None:
    """Two of them, whose branches use the same names, read tensors of the graph and a constant of their own."""
    m = OnnxMaker()
    m.input("rows", 3)
    m.input("rows", 3, name="y")
    first = m.add("Gather", m.add("Shape", "x"), m.constant(INT(0)))
    one = branching(m, m.add("Equal", first, m.constant(INT(1))), inner)
    other = branching(m, m.add("Greater", first, m.constant(INT(1))))
    path = m.save(tmp_path / "m.onnx", one, m.add("Abs", other))
    graph = agree(path, {"x": (rows, 3), "y": (rows, 3)})
    assert "If" not in {o.kind for o in graph.operators}


def test_an_operator_of_a_branch_that_is_not_supported(tmp_path: Path) -> None:
    from mlf_sdk.compiler.onnx.survey import survey_onnx

    m = OnnxMaker()
    m.input(3, 3)
    m.input(3, 3, name="y")
    y = branching(m, m.constant(np.array(True)))
    then_branch = next(a.g for a in m.nodes[0].attribute if a.name == "then_branch")
    then_branch.node[1].op_type = "Frobnicate"
    path = m.save(tmp_path / "m.onnx", y)
    assert "node 0 Frobnicate" in message(path)
    (row,) = [row for row in survey_onnx(path).operators if row.note == NOT_SUPPORTED]
    assert row.kind == "If"


def stated(path: Path, kind: int, shape: list[int], *, inside: bool) -> Path:
    """A model that states a type and shape of its output, or of a tensor in front of it."""
    m = OnnxMaker()
    path = m.save(path, m.add("Neg", m.add("Abs", m.input(2, 3))))
    model = m.model("neg2")
    value = info("abs1" if inside else "neg2", kind, shape)
    if inside:
        model.graph.value_info.append(value)
    else:
        model.graph.output[0].CopyFrom(value)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("inside", [False, True])
def test_what_a_file_states_of_its_tensors(inside: bool, tmp_path: Path) -> None:
    """ONNX Runtime refuses another type, and warns of another shape."""
    path = tmp_path / "m.onnx"
    for shape in ([2, 3], [2, 4], [2, 3, 1], []):
        agree(stated(path, TensorProto.FLOAT, shape, inside=inside), {})
    stated(path, TensorProto.INT32, [2, 3], inside=inside)
    with pytest.raises(Exception, match="does not match expected type"):
        by_runtime(path, [np.zeros((2, 3), np.float32)])
    assert "is stated as int32, and its node writes float32" in message(path)


@pytest.mark.parametrize("shape", [(2,), (1, 3, 4), (4, 4), (2, 4)])
@pytest.mark.parametrize("constant", [False, True])
def test_a_term_of_a_product_that_does_not_fit(
    shape: tuple[int, ...], constant: bool, tmp_path: Path
) -> None:
    m = OnnxMaker()
    x, y = m.input(3, 4), m.input(4, 4, name="y")
    term = m.weights(*shape) if constant else m.input(*shape, name="c")
    path = m.save(tmp_path / "m.onnx", m.add("Gemm", x, y, term, alpha=0.5))
    assert f"an operand {shape} can't be broadcast to (3, 4)" in message(path)
    assert "an operand" in message(path)
