# SPDX-License-Identifier: Apache-2.0
"""Every operator in every type that TFLM computes: reference, kernels on the host and TFLM give the same values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agreement import agree
from compiled_models import KernelRunner
from makers import counted_makers
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.context import KNOWN
from mlf_sdk.compiler.tflite.load import BUILDERS, load_tflite
from mlf_sdk.errors import ArchiveError
from mlf_sdk.frontends.mlf.compiled import archive_of
from operator_cases import CASES, Case, model_of
from operator_graphs import check_host
from tflite_models import Maker

INSTANCES = [(name, dtype) for name, (dtypes, _) in CASES.items() for dtype in dtypes]


@pytest.mark.parametrize(("name", "dtype"), INSTANCES, ids=[f"{n}-{d}" for n, d in INSTANCES])
def test_an_operator(name: str, dtype: str, tmp_path: Path) -> None:
    agree(model_of(name, dtype, 1), tmp_path, 1, runs=1)


@pytest.mark.parametrize(
    ("kind", "first", "count"),
    [("operators", 0, 4), ("int8", 0, 5), ("float32", 0, 4), ("int16", 0, 3), ("rows", 7, 6)],
)
def test_random_networks(kind: str, first: int, count: int, tmp_path: Path) -> None:
    """160 operators side by side, and networks of each type; `make operators` has thousands, on emulated cores as well."""
    with counted_makers() as drawn:
        result = check_host(kind, range(first, first + count), drawn, tmp_path)
    assert result["faults"] == {} and result["refused"] == []
    assert kind != "rows" or result["streamed"] > count / 3
    assert result["networks"] == count and result["checks"] > result["operators"] / 2


def test_scales_of_16_bits_near_a_power_of_two(tmp_path: Path) -> None:
    """TFLM takes a scale for a power of two where its logarithm is within a thousandth of a whole number."""
    m = Maker(1)
    outputs = []
    for exponent in (-12, -11, -10):
        for factor in (1.0, 1.0006, 0.9994, 1.0008, 0.9992):
            scale = float(np.float32(2.0**exponent * factor))
            x = m.spec.tensor(f"x{exponent}_{factor}", "int16", (1, 99), scale=(scale,), zero_point=(0,))
            m.spec.inputs.append(x)
            for kind in ("LOGISTIC", "TANH"):
                y = m.spec.tensor(f"{kind}{x}", "int16", (1, 99), scale=(2.0**-15,), zero_point=(0,))
                outputs.append(m.spec.add(kind, (x,), y))
    agree(m.finish(*outputs), tmp_path, 1)


def test_scales_of_8_bits_that_leave_nothing_inside(tmp_path: Path) -> None:
    """Where the radius is 0, TFLM gives the least number for zero as well."""
    m, outputs = Maker(1), []
    for scale in (7.5, 8.0, 12.25, 300.0):
        x = m.spec.tensor(f"x{scale}", "int8", (1, 256), scale=(scale,), zero_point=(-17,))
        m.spec.inputs.append(x)
        for kind, size, zero in (("LOGISTIC", 2.0**-8, -128), ("TANH", 2.0**-7, 0)):
            y = m.spec.tensor(f"{kind}{x}", "int8", (1, 256), scale=(size,), zero_point=(zero,))
            outputs.append(m.spec.add(kind, (x,), y))
    agree(m.finish(*outputs), tmp_path, 4)


def _quotients(divisors: list[int], scale: float) -> tuple[bytes, np.ndarray, np.ndarray]:
    """A model that divides, and its divisors and a factor with which its quotients are stored."""
    m = Maker(3)
    x = m.spec.tensor("input", "int8", (255, 1), scale=(0.5,), zero_point=(0,))
    m.spec.inputs.append(x)
    data = np.array([divisors], np.int8)
    b = m.spec.tensor("b", "int8", data.shape, scale=(0.25,), zero_point=(0,), data=data)
    y = m.spec.tensor("y", "int8", (255, len(divisors)), scale=(scale,), zero_point=(4,))
    m.spec.add("DIV", (x, b), y, ("DivOptions", {"FusedActivationFunction": 0}))
    return m.finish(y), data.astype(np.float64), np.array(0.5 / 0.25 / scale)


def test_quotients_of_which_a_shift_leaves_nothing(tmp_path: Path) -> None:
    """Where TFLM shifts by more than 31 bits, which C does not define, results are the rounded quotients."""
    model, divisors, factor = _quotients([127, -127, 3, 1], 1.0)
    path = tmp_path / "m.tflite"
    path.write_bytes(model)
    graph = load_tflite(path)
    values = np.arange(-127, 128).astype(np.int8).reshape(255, 1)
    (found,) = Interpreter(graph).run([values])
    exact = np.clip(values / divisors * factor + 4, -128, 127)
    assert np.abs(found - exact).max() <= 0.5 + 1e-6
    (kernels,) = KernelRunner(archive_of(compile_graph(graph, Choice())), tmp_path).run([values])
    np.testing.assert_array_equal(kernels, found)


def test_division_by_zero_gives_the_limits(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(_quotients([0], 1.0)[0])
    graph = load_tflite(path)
    values = np.arange(-127, 128).astype(np.int8).reshape(255, 1)
    (found,) = KernelRunner(archive_of(compile_graph(graph, Choice())), tmp_path).run([values])
    assert (found.reshape(-1) == np.select([values < 0, values == 0], [-128, 4], 127).reshape(-1)).all()
    np.testing.assert_array_equal(found, Interpreter(graph).run([values])[0])


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("L2_NORMALIZATION", {"scale": (0.01,)}, "an output with scale 0.0099"),
        ("LOG_SOFTMAX", {"zero_point": (5,)}, "an output with scale 0.0625 and zero point 5"),
        ("CUMSUM", {"dtype": "int16"}, "from int8 to int16; int8 and float32 are supported"),
        ("BATCH_MATMUL", {"scale": (), "zero_point": ()}, "a tensor that has not one scale"),
    ],
)
def test_results_that_an_operator_cannot_have(
    name: str, change: dict[str, object], says: str, tmp_path: Path
) -> None:
    m = Maker(1)
    CASES[name][1](Case(m, "int8"))
    for field, value in change.items():
        setattr(m.spec.tensors[m.spec.outputs[0]], field, value)
    path = tmp_path / "m.tflite"
    path.write_bytes(m.finish(*m.spec.outputs))
    with pytest.raises(ArchiveError, match=rf"operator 0 {name} \(.*\): {says}"):
        load_tflite(path)


def test_versions_are_of_operators_that_exist() -> None:
    assert set(KNOWN) <= set(BUILDERS)


@pytest.mark.parametrize("kind", ["IF", "WHILE"])
def test_control_flow_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    m = Maker(1)
    x = m.input((1, 4))
    y = m.spec.add(kind, (x,), m.activation((1, 4)))
    path = tmp_path / "m.tflite"
    path.write_bytes(m.finish(y))
    says = rf"operator 0 {kind} \('t1'\): it runs another graph of the model.* without control flow"
    with pytest.raises(ArchiveError, match=says):
        load_tflite(path)


@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
def test_whole_numbers_with_a_fused_activation(kind: str, tmp_path: Path) -> None:
    """TFLM limits differences and products, and leaves sums as they are: these are refused."""
    m = Maker(1)
    a, b, y = (m.spec.tensor(name, "int32", (1, 9)) for name in "aby")
    m.spec.inputs += [a, b]
    m.spec.add(kind, (a, b), y, (f"{kind.title()}Options", {"FusedActivationFunction": 3}))
    model = m.finish(y)
    if kind == "ADD":
        (tmp_path / "m.tflite").write_bytes(model)
        with pytest.raises(
            ArchiveError, match=r"operator 0 ADD .*: a fused activation function of whole numbers"
        ):
            load_tflite(tmp_path / "m.tflite")
    else:
        agree(model, tmp_path, 1)


def test_operands_that_do_not_fit_each_other(tmp_path: Path) -> None:
    m = Maker(1)
    x, other = m.input((1, 3, 5, 4)), m.input((1, 2, 5, 4))
    y = m.spec.add("ADD", (x, other), m.activation((1, 3, 5, 4)))
    path = tmp_path / "m.tflite"
    path.write_bytes(m.finish(y))
    with pytest.raises(
        ArchiveError, match=r"operator 0 ADD .*: operands of shapes \(1, 3, 5, 4\), \(1, 2, 5, 4\)"
    ):
        load_tflite(path)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        *(("ADD", dtype) for dtype in ("int64", "uint32", "uint64")),
        ("MINIMUM", "uint32"),
        ("MINIMUM", "uint64"),
    ],
)
def test_whole_numbers_beyond_int32_are_refused(kind: str, dtype: str, tmp_path: Path) -> None:
    m = Maker(1)
    a, b, y = (m.spec.tensor(name, dtype, (1, 9)) for name in "aby")
    m.spec.inputs += [a, b]
    m.spec.add(kind, (a, b), y)
    path = tmp_path / "m.tflite"
    path.write_bytes(m.finish(y))
    with pytest.raises(
        ArchiveError, match=rf"operator 0 {kind} \('y'\): values of type {dtype}; int8, .* cast them"
    ):
        load_tflite(path)
