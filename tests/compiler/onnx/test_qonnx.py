# SPDX-License-Identifier: Apache-2.0
"""Operators of QONNX (Brevitas, QKeras, FINN): reference and kernels against their definitions in numpy."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiled_models import KernelRunner
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.graph import INT8, Graph
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.operators import Conv2D
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.errors import MlfError
from mlf_sdk.frontends.mlf.compiled import archive_of
from onnx_models import OnnxMaker

Array = np.ndarray[Any, np.dtype[Any]]
DOMAIN = "qonnx.custom_op.general"
ROUNDED = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "DOWN": np.trunc,
    "HALF_UP": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - 0.5),
}


def quant(x: Array, scale: Any, zero: float, bits: int, signed: int, narrow: int, mode: str) -> Array:
    """Quant as QONNX defines it."""
    low = -(2 ** (bits - 1)) + narrow if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
    y = ROUNDED[mode](np.clip(x / np.float32(scale) + np.float32(zero), low, high))
    return np.asarray((y - np.float32(zero)) * np.float32(scale), np.float32)


def maker() -> OnnxMaker:
    m = OnnxMaker()
    m.domains |= {DOMAIN: 1, "onnx.brevitas": 1, "finn.custom_op.general": 1}
    return m


def add_quant(m: OnnxMaker, x: str, scale: Any, zero: float, bits: float, domain: str, **given: Any) -> str:
    parts = [m.constant(np.asarray(v, np.float32)) for v in (scale, zero, bits)]
    return m.add("Quant", x, *parts, domain=domain, **given)


def check(path: Path, x: Array, wanted: Array, *, kernels: bool = True) -> None:
    """Compare the reference and, unless it is said that others do, the kernels."""
    graph = load_onnx(path)
    results = [Interpreter(graph).run([x])]
    if kernels:
        results.append(kernels_of(graph, path.parent).run([x]))
    for (result,) in results:
        np.testing.assert_allclose(result.reshape(wanted.shape), wanted, rtol=1e-6, atol=1e-6)


def kernels_of(graph: Graph, folder: Path) -> KernelRunner:
    return KernelRunner(archive_of(compile_graph(graph, Choice())), folder, ("-O1",))


@pytest.mark.parametrize(
    ("mode", "domain"), [*zip(ROUNDED, itertools.cycle((DOMAIN, "onnx.brevitas", "")), strict=False)]
)
def test_activations_in_each_rounding_mode(tmp_path: Path, mode: str, domain: str) -> None:
    x = np.array([[-9, -2.5, -1.5, -0.75, -0.25, 0, 0.25, 0.75, 1.5, 2.5, 3.1, 9]], np.float32)
    cases = [
        (0.5, 0.0, 4, 1, 0),
        (0.5, 2.0, 3, 0, 0),
        (0.25, 0.0, 8, 1, 1),
        (0.5, 0.0, 2, 0, 1),
        (1.0, 0.0, 12, 1, 0),
    ]
    m = maker()
    given = m.input(*x.shape)
    results = [
        add_quant(m, given, scale, zero, bits, domain, signed=signed, narrow=narrow, rounding_mode=mode)
        for scale, zero, bits, signed, narrow in cases
    ]
    check(
        m.save(tmp_path / "model.onnx", m.add("Concat", *results, axis=0)),
        x,
        np.concatenate([quant(x, *case, mode) for case in cases]),
        kernels=mode == "HALF_UP",
    )


def test_a_layer_of_quantised_weights_and_activations(tmp_path: Path) -> None:
    """Eight bits or fewer become a layer of integers; more stay real numbers, rounded when the model is read."""
    random = np.random.default_rng(2)
    weights = random.standard_normal((4, 3, 3, 3)).astype(np.float32)
    scales = np.array([0.01, 0.02, 0.03, 0.04], np.float32).reshape(4, 1, 1, 1)
    bias = random.standard_normal(4).astype(np.float32)
    m = maker()
    x = add_quant(m, m.input(1, 3, 6, 6), 0.03, 0, 8, DOMAIN, signed=1, narrow=0, rounding_mode="ROUND")
    kernel = add_quant(m, m.constant(weights), scales, 0, 4, DOMAIN, signed=1, narrow=1)
    added = add_quant(m, m.constant(bias), 0.001, 0, 16, DOMAIN, signed=1, narrow=0)
    y = m.add("Relu", m.add("Conv", x, kernel, added, kernel_shape=[3, 3]))
    y = add_quant(m, y, 0.05, 0, 8, DOMAIN, signed=0, narrow=0)
    graph = load_onnx(m.save(tmp_path / "model.onnx", y))
    (layer,) = (o for o in graph.operators if isinstance(o, Conv2D))
    assert {graph.values[i].dtype for i in layer.inputs[:2]} == {INT8}
    given = random.standard_normal((1, 3, 6, 6)).astype(np.float32)
    stored = quant(weights, scales, 0, 4, 1, 1, "ROUND")
    windows = np.lib.stride_tricks.sliding_window_view(
        quant(given, 0.03, 0, 8, 1, 0, "ROUND"), (3, 3), axis=(2, 3)
    )
    sums = np.einsum("ncijhw,ochw->noij", windows, stored)
    sums += quant(bias, 0.001, 0, 16, 1, 0, "ROUND").reshape(4, 1, 1)
    wanted = quant(np.maximum(sums, 0), 0.05, 0, 8, 0, 0, "ROUND")
    for (result,) in (Interpreter(graph).run([given]), kernels_of(graph, tmp_path).run([given])):
        steps = np.round(np.abs(result - wanted) / 0.05)
        assert steps.max() <= 1 and (steps > 0).mean() < 0.02  # a sum at the border of two steps


def test_scales_of_channels(tmp_path: Path) -> None:
    """Of activations they stay real numbers; of constants they are a layer's only along one axis."""
    x = np.random.default_rng(5).standard_normal((2, 3)).astype(np.float32)
    m = maker()
    scales = np.array([[0.1, 0.2, 0.3]], np.float32)
    given = {"zero": 0, "bits": 4, "domain": DOMAIN, "signed": 1, "narrow": 0}
    each = np.abs(x) / 3 + np.float32(0.1)
    y = m.add("Add", add_quant(m, m.input(2, 3), scales, **given), add_quant(m, m.constant(x), each, **given))
    wanted = quant(x, scales, 0, 4, 1, 0, "ROUND") + quant(x, each, 0, 4, 1, 0, "ROUND")
    check(m.save(tmp_path / "model.onnx", y), x, wanted, kernels=False)


def test_signs_and_lost_bits(tmp_path: Path) -> None:
    x = np.array([[-2, -0.5, 0, 0.25, 5, 11]], np.float32)
    m = maker()
    given = m.input(*x.shape)

    def constants(*values: float) -> list[str]:
        return [m.constant(np.float32(v)) for v in values]

    results = [
        m.add("BipolarQuant", given, *constants(0.5), domain=DOMAIN),
        add_quant(m, given, 0.25, 0, 1, DOMAIN, signed=1, narrow=1),
        m.add("Trunc", given, *constants(0.25, 0, 8, 6), domain=DOMAIN, rounding_mode="FLOOR"),
        m.add("Trunc", given, *constants(0.25, 4, 8, 0.5, 4), domain=DOMAIN, signed=0, narrow=0),
    ]
    signs = np.where(x >= 0, 1, -1)
    wanted = [
        signs * 0.5,
        signs * 0.25,
        np.floor(np.round(x / 0.25) / 4) * 0.25,
        (np.floor(np.clip(np.round(x / 0.25 + 4) / 2, 0, 15)) - 2) * 0.5,
    ]
    check(m.save(tmp_path / "model.onnx", m.add("Concat", *results, axis=0)), x, np.concatenate(wanted))


@pytest.mark.parametrize(
    ("shape", "layout", "axis"),
    [((1, 3, 2, 4), "", 1), ((1, 2, 4, 3), "NHWC", 3), ((1, 5, 3), "", 2), ((2, 3), "NC", 1)],
)
def test_thresholds(tmp_path: Path, shape: tuple[int, ...], layout: str, axis: int) -> None:
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    thresholds = np.sort(np.random.default_rng(4).standard_normal((3, 7)).astype(np.float32), axis=1)
    m = maker()
    attributes = {"out_dtype": "INT4", "out_scale": 0.5, "out_bias": -1.0} | (
        {"data_layout": layout} if layout else {}
    )
    y = m.add(
        "MultiThreshold",
        m.input(*shape),
        m.constant(thresholds),
        domain="finn.custom_op.general",
        **attributes,
    )
    reached = np.moveaxis(x, axis, -1)[..., None] >= thresholds
    check(
        m.save(tmp_path / "model.onnx", y),
        x,
        np.moveaxis(reached.sum(-1), -1, axis) * 0.5 - 1,
        kernels=axis == 1,
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bits": 0.0}, r"the width \[0.0\] in bits"),
        ({"bits": 2.5}, r"the width \[2.5\] in bits"),
        ({"rounding_mode": "SOMEHOW"}, "rounding mode SOMEHOW is not known"),
    ],
)
def test_quantisers_that_are_none(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    m = maker()
    given = {"scale": 0.5, "zero": 0, "bits": 4, "domain": DOMAIN, "signed": 1} | change
    with pytest.raises(MlfError, match=said):
        load_onnx(m.save(tmp_path / "model.onnx", add_quant(m, m.input(1, 2), **given)))


@pytest.mark.parametrize(
    ("shape", "said"), [((2, 3), r"thresholds \(2, 3\) of an input"), ((3, 64), "64 thresholds; 1 to 31")]
)
def test_thresholds_that_are_none(tmp_path: Path, shape: tuple[int, ...], said: str) -> None:
    m = maker()
    thresholds = m.constant(np.zeros(shape, np.float32))
    y = m.add("MultiThreshold", m.input(1, 3), thresholds, domain=DOMAIN)
    with pytest.raises(MlfError, match=said):
        load_onnx(m.save(tmp_path / "model.onnx", y))


def test_a_truncation_of_other_inputs(tmp_path: Path) -> None:
    m = maker()
    y = m.add("Trunc", m.input(1, 3), m.constant(np.float32(1)), domain=DOMAIN)
    with pytest.raises(MlfError, match="2 inputs; five or six"):
        load_onnx(m.save(tmp_path / "model.onnx", y))
