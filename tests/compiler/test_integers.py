# SPDX-License-Identifier: Apache-2.0
"""Operators that TFLM lacks and models have: reference and kernels give what numpy gives, for every goal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agreement
from core_images import MISSING, run_on_core
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import ArchiveError
from operator_cases import Case
from tflite_models import Maker

Array = np.ndarray[Any, np.dtype[Any]]
Built = tuple[bytes, Callable[..., Array]]


def _floor(kind: str) -> Built:
    c = Case(Maker(1), "int32")
    b = np.array([3, -7, 2, -5], np.int32)
    function = np.floor_divide if kind == "FLOOR_DIV" else np.mod
    return c.finish(kind, (c.input((2, 3, 4)), c.constant(b)), c.value((2, 3, 4))), lambda x: function(x, b)


def _sign() -> Built:
    c = Case(Maker(1), "float32")
    return c.finish("SIGN", (c.input((2, 9)),), c.value((2, 9))), np.sign


def _relu_0_to_1() -> Built:
    c = Case(Maker(1), "float32")
    return c.finish("RELU_0_TO_1", (c.input((2, 9)),), c.value((2, 9))), lambda x: np.clip(x, 0, 1)


def _gelu() -> Built:
    c = Case(Maker(1), "float32")
    model = c.finish(
        "GELU", (c.input((2, 9)),), c.value((2, 9)), options=("GeluOptions", {"Approximate": True})
    )

    def wanted(x: Array) -> Array:
        x = x.astype(np.float64)
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    return model, wanted


def _xor() -> Built:
    c = Case(Maker(1), "int32")
    return c.finish("BITWISE_XOR", (c.input((2, 9)), c.input((1, 9))), c.value((2, 9))), np.bitwise_xor


def _product() -> Built:
    c = Case(Maker(1), "float32")
    model = c.finish("REDUCE_PROD", (c.input((2, 3, 4)), c.constant([1])), c.value((2, 4)))
    return model, lambda x: x.prod(axis=1)


def _any() -> Built:
    c = Case(Maker(1), "bool")
    return c.finish("REDUCE_ANY", (c.input((2, 3)), c.constant([1])), c.value((2,))), lambda x: x.any(axis=1)


def _one_hot(axis: int, dtype: str) -> Built:
    c = Case(Maker(1), "int32")
    on, off = (c.constant(n, dtype) for n in (5, 2))
    x = c.input((2, 3))
    shape = (2, 3, 4) if axis < 0 else (2, 4, 3)
    y = c.maker.spec.tensor("y", dtype, shape)
    low = c.maker.spec.add("MAXIMUM", (x, c.constant([-1])), c.value((2, 3)))
    small = c.maker.spec.add("MINIMUM", (low, c.constant([4])), c.value((2, 3)))
    model = c.finish("ONE_HOT", (small, c.constant(4), on, off), y, options=("OneHotOptions", {"Axis": axis}))

    def wanted(x: Array) -> Array:
        hit = np.clip(x, -1, 4)[..., None] == np.arange(4)
        return np.where(hit if axis < 0 else np.moveaxis(hit, -1, axis), 5, 2)

    return model, wanted


def _scatter() -> Built:
    c = Case(Maker(1), "float32")
    places = [[2, 1], [0, 0], [2, 0]]
    model = c.finish(
        "SCATTER_ND", (c.constant(places), c.input((3, 4)), c.constant([3, 2, 4])), c.value((3, 2, 4))
    )

    def wanted(x: Array) -> Array:
        found = np.zeros((3, 2, 4), np.float32)
        for place, row in zip(places, x, strict=True):
            found[tuple(place)] = row
        return found

    return model, wanted


def _constants() -> Built:
    """RANK and RANGE, whose results are added to an input."""
    c = Case(Maker(1), "int32")
    x = c.input((2, 3))
    rank = c.maker.spec.add("RANK", (x,), c.value(()))
    places = c.maker.spec.add("RANGE", (c.constant(5), c.constant(-1), c.constant(-2)), c.value((3,)))
    options = ("AddOptions", {"FusedActivationFunction": 0})
    total = c.maker.spec.add("ADD", (x, rank), c.value((2, 3)), options)
    return c.finish("ADD", (total, places), c.value((2, 3)), options=options), lambda x: x + 2 + [5, 3, 1]


def _resize(aligned: bool, centred: bool) -> Built:
    c = Case(Maker(1), "uint8")
    x = c.input((1, 3, 4, 2))
    y = c.like(x, (1, 5, 8, 2))
    fields = {"AlignCorners": aligned, "HalfPixelCenters": centred}
    model = c.finish("RESIZE_BILINEAR", (x, c.constant([5, 8])), y, options=("ResizeBilinearOptions", fields))

    def place(size: int, wanted: int) -> list[tuple[int, int, float]]:
        scale = (size - 1) / (wanted - 1) if aligned else size / wanted
        found = []
        for i in range(wanted):
            at = (i + 0.5) * scale - 0.5 if centred else i * scale
            low = max(int(np.floor(at)), 0)
            found.append((low, min(int(np.ceil(at)), size - 1), at - low))
        return found

    def wanted(x: Array) -> Array:
        real, y = x.astype(np.float64), np.zeros((1, 5, 8, 2))
        for i, (up, down, v) in enumerate(place(3, 5)):
            for j, (left, right, u) in enumerate(place(4, 8)):
                top = real[:, up, left] * (1 - u) + real[:, up, right] * u
                bottom = real[:, down, left] * (1 - u) + real[:, down, right] * u
                y[:, i, j] = top * (1 - v) + bottom * v
        return y

    return model, wanted


CASES: dict[str, Callable[[], Built]] = {
    "FLOOR_DIV": lambda: _floor("FLOOR_DIV"),
    "FLOOR_MOD": lambda: _floor("FLOOR_MOD"),
    "SIGN": _sign,
    "RELU_0_TO_1": _relu_0_to_1,
    "GELU": _gelu,
    "BITWISE_XOR": _xor,
    "REDUCE_PROD": _product,
    "REDUCE_ANY": _any,
    "ONE_HOT": lambda: _one_hot(-1, "float32"),
    "ONE_HOT of an inner axis": lambda: _one_hot(1, "int32"),
    "SCATTER_ND": _scatter,
    "RANK and RANGE": _constants,
    "RESIZE_BILINEAR": lambda: _resize(False, False),
    "RESIZE_BILINEAR of corners": lambda: _resize(True, False),
    "RESIZE_BILINEAR of centres": lambda: _resize(False, True),
}


@pytest.mark.parametrize("goal", Goal, ids=[g.value for g in Goal])
@pytest.mark.parametrize("name", CASES)
def test_an_operator(name: str, goal: Goal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "runtime", None)
    model, wanted = CASES[name]()
    agreement.agree(model, tmp_path, 5, runs=1, choice=Choice(goal=goal, core=core_named("cortex-m0")))
    graph = load_tflite(tmp_path / "model.tflite")
    given = agreement.random_inputs(graph, np.random.default_rng(7))
    (found,) = Interpreter(graph).run(given)
    expected, apart = wanted(*given), 1e-6
    if name.startswith("RESIZE"):  # its weights are rounded to 8 bits
        expected, apart = np.floor(expected + 0.5), 1.0
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=1e-5, atol=apart)


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
@pytest.mark.parametrize(
    "name", ["FLOOR_DIV", "ONE_HOT of an inner axis", "BITWISE_XOR", "RESIZE_BILINEAR of corners"]
)
def test_an_operator_on_a_core(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(CASES[name]()[0])
    core = core_named("cortex-m4")
    run_on_core(compile_graph(load_tflite(path), Choice(core=core)), core, tmp_path, 3)


@pytest.mark.parametrize("divisor", [0, -1])
def test_divisors_that_stop_the_processor(divisor: int, tmp_path: Path) -> None:
    c = Case(Maker(1), "int32")
    path = tmp_path / "m.tflite"
    path.write_bytes(c.finish("FLOOR_DIV", (c.input((2,)), c.constant([3, divisor])), c.value((2,))))
    with pytest.raises(ArchiveError, match="a divisor of 0 or -1"):
        load_tflite(path)


def test_places_that_occur_twice(tmp_path: Path) -> None:
    c = Case(Maker(1), "float32")
    inputs = (c.constant([[1], [1]]), c.input((2,)), c.constant([3]))
    path = tmp_path / "m.tflite"
    path.write_bytes(c.finish("SCATTER_ND", inputs, c.value((3,))))
    with pytest.raises(ArchiveError, match=r"an index that is outside of .* or occurs twice"):
        load_tflite(path)


def test_results_whose_shape_is_known_at_run_time(tmp_path: Path) -> None:
    c = Case(Maker(1), "bool")
    path = tmp_path / "m.tflite"
    path.write_bytes(c.finish("WHERE", (c.input((2, 3)),), c.maker.spec.tensor("y", "int64", (0, 2))))
    with pytest.raises(
        ArchiveError, match=r"operator 0 WHERE .*depends on values of the run; end the model before it"
    ):
        load_tflite(path)
