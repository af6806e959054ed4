# SPDX-License-Identifier: Apache-2.0
"""Scalar functions: each row of the one table says the same in numpy and in C, whatever file asks for it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.functions import FUNCTIONS
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.operators import Call, Map, Rounding
from mlf_sdk.compiler.passes.layers import fuse_maps
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from one_operator import Values, compare, fields
from onnx_models import OnnxMaker
from tflite_models import Maker

Array = np.ndarray[Any, np.dtype[Any]]
SHAPE = (2, 3, 5)
OTHER_TYPES = {"flip_sign": "int8", "shift_left": "uint32", "shift_right": "uint32"}
PARAMETERS = {1: (0.75,), 2: (-0.5, 1.25), 0: ()}
# Operator of .tflite, options, operator of ONNX, attributes; the functions of one value.
SAME = (
    ("ABS", "Abs"), ("NEG", "Neg"), ("EXP", "Exp"), ("LOGISTIC", "Sigmoid"), ("TANH", "Tanh"), ("SIN", "Sin"),
    ("HARD_SWISH", "HardSwish"), ("ELU", "Elu"), ("FLOOR", "Floor"), ("RELU", "Relu"), ("SQRT", "Sqrt"),
    ("LOG", "Log"),
)  # fmt: skip


@pytest.mark.parametrize("pair", SAME, ids=lambda pair: pair[1])
def test_two_formats_have_the_same_kernels(pair: tuple[str, str], tmp_path: Path) -> None:
    """A float .tflite and the ONNX file of the same network: ADD with a RELU fused, a function, MUL by itself."""
    kind, node = pair
    m, o = Maker(1), OnnxMaker(1)
    tensors = [m.spec.tensor(name, "float32", SHAPE) for name in ("x", "sum", "found", "product")]
    data = np.linspace(-2, 3, 5, dtype=np.float32)
    held = m.spec.tensor("c", "float32", (5,), data=data)
    m.spec.inputs.append(tensors[0])
    m.spec.add("ADD", (tensors[0], held), tensors[1], ("AddOptions", {"FusedActivationFunction": 1}))
    m.spec.add(kind, (tensors[1],), tensors[2])
    m.spec.add("MUL", (tensors[2], tensors[2]), tensors[3], ("MulOptions", {}))
    (tmp_path / "one.tflite").write_bytes(m.finish(tensors[3]))
    found = o.add(node, o.add("Relu", o.add("Add", o.input(*SHAPE), o.constant(data))))
    o.save(tmp_path / "one.onnx", o.add("Mul", found, found))
    first, second = load_tflite(tmp_path / "one.tflite"), load_onnx(tmp_path / "one.onnx")
    texts = [compile_graph(graph, Choice()).code.own for graph in (first, second)]
    texts = [re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL) for text in texts]
    assert len({re.sub(r"\b(one|model|main)_", "", text) for text in texts}) == 1
    x = np.random.default_rng(2).uniform(-3, 3, SHAPE).astype(np.float32)
    np.testing.assert_array_equal(*(Interpreter(graph).run([x])[0] for graph in (first, second)))


def operands(function: str) -> tuple[int, tuple[float, ...]]:
    """How many operands a function has in its C texts, and parameters for it."""
    row = FUNCTIONS[function]
    text = row.real or row.whole
    return len({*re.findall(r"\b[abc]\b", text)}), PARAMETERS[len({*re.findall(r"\{\d\}", text)})]


def graph_of(function: str, dtype: str) -> tuple[Values, Map]:
    v = Values(3)
    count, parameters = operands(function)
    types = ["bool", *[dtype] * 2] if function == "where" else [dtype] * count
    if function in ("quantise", "dequantise"):
        types = ["int8", *[dtype] * 2] if function == "quantise" else ["int8", "int8", dtype]
    truth = function in ("and", "equal", "greater", "greater_equal", "is_inf", "is_nan", "less", "less_equal",
                         "not", "not_equal", "or", "truth", "xor")  # fmt: skip
    inputs = tuple(v.add(kind, SHAPE) for kind in types)
    y = v.add("bool" if truth else "int32" if function == "cast" else dtype, SHAPE)
    return v, Map(**fields(inputs, y), expression=Call.of(function, count, parameters))


def test_every_row(tmp_path: Path) -> None:
    """Each function, compiled, gives what numpy does; sums and remainders near the ends of the type too."""
    checks = []
    for function, row in FUNCTIONS.items():
        if row.real:
            v, operator = graph_of(function, "float32")
            checks += v.checks(operator)
        if row.whole:
            v, operator = graph_of(function, OTHER_TYPES.get(function, "int32"))
            checks += v.checks(operator)
    compare(checks, tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64"])
def test_whole_numbers_by_zero_are_zero(dtype: str, tmp_path: Path) -> None:
    """A branch that a run does not take may divide by what it was chosen to avoid: no trap on any host."""
    a = np.arange(1, 31, dtype=dtype).reshape(SHAPE)
    b = np.tile(np.array([0, 2, 0, 3, 5], dtype), 6).reshape(SHAPE)
    checks = []
    for function in ("div", "mod", "fmod"):
        v, operator = graph_of(function, dtype)
        result = Interpreter(v.graph(operator)).run([a, b])[0]
        assert not result[b == 0].any() and result[0, 0, 1] == {"div": 1, "mod": 0, "fmod": 0}[function]
        checks += v.checks(operator, (a, b), random=False)
    compare(checks, tmp_path)


def test_numpy_and_c_have_the_same_parameters() -> None:
    for name, row in FUNCTIONS.items():
        count, parameters = operands(name)
        if inspect.isfunction(row.numpy):
            assert len(inspect.signature(row.numpy).parameters) == count + len(parameters), name


def chain(seed: int) -> tuple[Graph, int]:
    """A random chain of maps of real numbers, some of whose results have a second reader."""
    random = np.random.default_rng(seed)
    values, operators = Values(seed), []
    x = values.add("float32", SHAPE)
    known = [x]
    for number in range(12):
        function = random.choice(["add", "mul", "max", "tanh", "abs", "clip"])
        count, parameters = operands(function)
        inputs = tuple(int(i) for i in random.choice(known[-3:], count))
        if count == 2 and random.random() < 0.4:
            inputs = (inputs[0], values.normal(*SHAPE[-int(random.integers(0, 4)) :]))
        y = values.add("float32", SHAPE)
        held = {**fields(inputs, y), "number": number}
        operators.append(Map(**held, expression=Call.of(function, count, parameters)))
        known.append(y)
    outputs = (known[-1], known[6]) if seed % 2 else (known[-1],)
    return Graph(
        name="chain", values=tuple(values.all), operators=tuple(operators), inputs=(x,), outputs=outputs
    ), len(operators)


@pytest.mark.parametrize("seed", range(20))
def test_fused_maps(seed: int) -> None:
    graph, count = chain(seed)
    fused = fuse_maps(graph)
    assert len(fused.operators) < count
    x = np.random.default_rng(seed).uniform(-2, 2, SHAPE).astype(np.float32)
    for a, b in zip(Interpreter(graph).run([x]), Interpreter(fused).run([x]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_chain_is_one_loop() -> None:
    """Also where the result in the middle is read twice by one map."""
    v = Values(1)
    x, a, b, c = (v.add("float32", SHAPE) for _ in range(4))
    maps = (
        Map(**fields((x,), a), expression=Call.of("exp")),
        Map(**fields((a, a), b), expression=Call.of("mul", 2)),
        Map(**fields((x, b), c), expression=Call.of("sub", 2)),
    )
    fused = fuse_maps(Graph(name="g", values=tuple(v.all), operators=maps, inputs=(x,), outputs=(c,)))
    (one,) = fused.operators
    assert isinstance(one, Map)
    square = Call("mul", (Call("exp", (0,)), Call("exp", (0,))))
    assert one.inputs == (x,)
    assert one.expression == Call("sub", (0, square))


@pytest.mark.parametrize("function", ["sigmoid", "tanh", "clip", "abs", "elu", "leaky_relu"])
def test_a_function_of_bytes_is_a_table_for_every_goal(function: str, tmp_path: Path) -> None:
    """No other kernel may be chosen for size: only the table holds the rounding."""
    v = Values(1)
    count, parameters = operands(function)
    x, y = v.add("int8", (4, 64), 0.05, 3), v.add("int8", (4, 64), 0.02, -11)
    call = Call.of(function, count, parameters)
    data = np.arange(-128, 128, dtype=np.int8).reshape(4, 64)
    checks = v.checks(Map(**fields((x,), y), expression=call, rounding=Rounding.TFLM), data)
    assert {check.kernel.family for check in checks} == {"table"}
    compare(checks, tmp_path)
