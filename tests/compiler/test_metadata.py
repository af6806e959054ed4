# SPDX-License-Identifier: Apache-2.0
"""What a .tflite file says that TFLM does not read refuses nothing: it is a finding, and the answers are TFLM's."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from agreement import agree
from cli_helpers import Caller
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.compiler.tflite.survey import survey_tflite
from mlf_sdk.errors import ArchiveError
from operator_cases import Case
from tflite_models import Maker, ModelSpec, TensorSpec


def convolution() -> tuple[Maker, int, int]:
    m = Maker(4)
    x = m.input((1, 6, 6, 4))
    return m, x, m.conv(x, 8, (3, 3), 1, same=True)


def named(spec: ModelSpec, letter: str) -> TensorSpec:
    return next(t for t in spec.tensors if t.name.startswith(letter))


def _bias_axis() -> bytes:
    m, _, y = convolution()
    bias = named(m.spec, "b")
    bias.scale, bias.zero_point, bias.axis = (0.5,) * 8, (0,) * 8, 3
    return m.finish(m.logistic(y))


def _bias_scale() -> bytes:
    m, _, y = convolution()
    bias = named(m.spec, "b")
    bias.scale, bias.zero_point = (float("nan"),), (0,)
    return m.finish(y)


def _long_data() -> bytes:
    m, _, y = convolution()
    bias = named(m.spec, "b")
    assert bias.data is not None
    bias.data = np.concatenate([bias.data, bias.data])
    return m.finish(y)


def _zeros_without_scale() -> bytes:
    c = Case(Maker(1), "int16")
    x = c.input((1, 8), scale=0.001)
    zeros = c.maker.spec.tensor(
        "zeros", "int16", (1, 8), scale=(0.0,), zero_point=(0,), data=np.zeros((1, 8), np.int16)
    )
    tiny = c.value((1, 8), scale=3.59e-43)
    c.maker.spec.add("MUL", (x, zeros), tiny, ("MulOptions", {"FusedActivationFunction": 0}))
    y = c.value((1, 8), scale=0.001)
    return c.finish("ADD", (tiny, x), y, options=("AddOptions", {"FusedActivationFunction": 0}))


def _float_with_scale() -> bytes:
    c = Case(Maker(1), "float32")
    a, b = c.input((2, 3)), c.input((2, 3))
    y = c.value((2, 3))
    for number in (a, y):
        c.maker.spec.tensors[number].scale, c.maker.spec.tensors[number].zero_point = (0.5,), (3,)
    return c.finish("ADD", (a, b), y, options=("AddOptions", {"FusedActivationFunction": 1}))


def _transposed() -> bytes:
    m = Maker(2)
    x = m.input((2, 3))
    order = m.spec.tensor("order", "int32", (2,), data=np.array([1, 0], np.int32))
    return m.finish(m.spec.add("TRANSPOSE", (x, order), m.activation((3, 2))))


def _largest() -> bytes:
    m = Maker(2)
    return m.finish(m.spec.add("MAXIMUM", (m.input((2, 3)), m.input((2, 3))), m.activation((2, 3))))


def _padded() -> bytes:
    m = Maker(2)
    x = m.input((2, 3))
    amounts = m.spec.tensor("amounts", "int32", (2, 2), data=np.array([[1, 0], [0, 2]], np.int32))
    return m.finish(m.spec.add("PAD", (x, amounts), m.activation((3, 5))))


def _version() -> bytes:
    m, x, _ = convolution()
    y = m.binary("ADD", x, x)
    m.spec.operators[-1].version = 99
    return m.finish(y)


def _unused() -> bytes:
    m, _, y = convolution()
    m.spec.tensor("odd", "complex64", (3,))
    m.spec.tensor("short", "int32", (9,), data=np.zeros(2, np.int32))
    m.spec.tensor("long", "int8", (1 << 15, 1 << 15, 1 << 15))
    return m.finish(y)


def _open() -> bytes:
    m, x, y = convolution()
    m.spec.tensors[x].signature = (1, -1, 6, 4)
    return m.finish(y)


CASES: dict[str, tuple[Callable[[], bytes], str]] = {
    "bias-axis": (_bias_axis, r"tensors: 'b3' of shape \(8,\) has 8 scales along dimension 3"),
    "bias-scale": (_bias_scale, "tensors: 'b3' has the scale nan"),
    "long-data": (_long_data, "tensors: 'b3' has 64 bytes of data; the first 32 are read"),
    "zeros": (_zeros_without_scale, "tensors: 'zeros' has the scale 0.0; all that it holds"),
    "float": (_float_with_scale, "tensors: 't0' is of float32 and has a scale.*; and 1 more such"),
    "transpose": (_transposed, "operator 0 TRANSPOSE: its tensors differ in their quantisation"),
    "maximum": (_largest, "operator 0 MAXIMUM: its tensors differ in their quantisation"),
    "pad": (_padded, "operator 0 PAD: its tensors differ in their quantisation"),
    "version": (_version, "operator ADD: its version is 99; versions 1 to 5 are known"),
    "open": (_open, "input 'input': leaves dimension 1 open"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_model_that_tflm_runs(name: str, tmp_path: Path) -> None:
    build, finding = CASES[name]
    agree(build(), tmp_path, 3)
    found = survey_tflite(tmp_path / "model.tflite")
    assert not found.faults
    assert [f for f in found.findings if re.search(finding, f"{f.where}: {f.what}")]


def test_what_no_operator_uses(tmp_path: Path) -> None:
    """TFLM wants memory for such tensors; they mean nothing, all the same."""
    path = tmp_path / "m.tflite"
    path.write_bytes(_unused())
    whats = [f.what for f in survey_tflite(path).findings]
    assert whats == [
        "'odd' has element type 8, which is not supported",
        "'short' has 8 bytes of data; its shape needs 36",
        "'long' has 35184372088832 bytes; at most 1073741824 are read",
    ]
    m, _, y = convolution()
    path.write_bytes(m.finish(y))
    plain = Interpreter(load_tflite(path))
    data = np.arange(144, dtype=np.int8).reshape(1, 6, 6, 4)
    (tmp_path / "odd.tflite").write_bytes(_unused())
    np.testing.assert_array_equal(
        Interpreter(load_tflite(tmp_path / "odd.tflite")).run([data])[0], plain.run([data])[0]
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: setattr(t, "scale", (0.0,)), "'t2' has the scale 0.0; it must be finite and > 0"),
        (lambda t: setattr(t, "zero_point", (200,)), "'t2' has the zero point 200; int8 can't hold it"),
    ],
)
def test_an_operator_that_needs_a_scale(
    change: Callable[[TensorSpec], None], said: str, tmp_path: Path
) -> None:
    """A rearrangement hands the same values on, whatever they stand for."""
    for needed in (True, False):
        m = Maker(2)
        x = m.input((2, 3))
        order = m.spec.tensor("order", "int32", (2,), data=np.array([1, 0], np.int32))
        y = m.spec.add("TRANSPOSE", (x, order), m.activation((3, 2)))
        change(m.spec.tensors[y])
        path = tmp_path / "m.tflite"
        path.write_bytes(m.finish(m.logistic(y) if needed else y))
        if needed:
            with pytest.raises(ArchiveError, match=f"operator 1 LOGISTIC .*: {said}"):
                load_tflite(path)
        else:
            np.testing.assert_array_equal(
                Interpreter(load_tflite(path)).run([np.arange(6, dtype=np.int8).reshape(2, 3)])[0],
                np.arange(6).reshape(2, 3).T,
            )


def test_findings_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(_bias_axis())
    for command in ("inspect", "doctor"):
        result = Caller(capsys)(command, path)
        assert result.code == 0 and "has 8 scales along dimension 3" in " ".join(result.out.split())
    assert mlf_sdk.load(path).inputs


# ---- weights of four bits ----


@pytest.mark.parametrize("kind", ["conv", "depthwise", "dense"])
def test_weights_of_four_bits(kind: str, tmp_path: Path) -> None:
    m = Maker(5)
    x = m.input((1, 5, 5, 3))
    if kind == "dense":
        y = m.dense(x, 6, largest=7)
    else:
        y = m.conv(x, 5 if kind == "conv" else 3, (3, 3), 1, same=True, depthwise=kind == "depthwise")
    weights, bias = named(m.spec, "w"), named(m.spec, "b")
    bias.scale, bias.zero_point = (weights.scale[0] * m.spec.tensors[x].scale[0],), (0,)
    values = m.random.integers(-8, 8, weights.shape).reshape(-1)
    odd = np.zeros(values.size % 2, values.dtype)
    pairs = np.concatenate([values, odd]).reshape(-1, 2) & 15
    weights.dtype, weights.data = "int4", (pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8)
    agree(m.finish(y), tmp_path, 1)
    held = [v for v in load_tflite(tmp_path / "model.tflite").values if v.name == weights.name]
    np.testing.assert_array_equal(held[0].constant.reshape(-1), values)


# ---- uint8 of several scales ----


def test_uint8_inputs_of_concatenation_are_rescaled(tmp_path: Path) -> None:
    """TFLM has no uint8; TensorFlow Lite computes in single precision and rounds halves away from zero."""
    spec = ModelSpec()
    scales = ((0.5, 3), (0.25, 128), (0.1, 0))
    inputs = [
        spec.tensor(f"x{i}", "uint8", (1, 256), scale=(s,), zero_point=(z,))
        for i, (s, z) in enumerate(scales)
    ]
    y = spec.tensor("y", "uint8", (1, 768), scale=(0.25,), zero_point=(128,))
    m = Maker(1)
    m.spec = spec
    spec.inputs = inputs
    spec.add(
        "CONCATENATION", tuple(inputs), y, ("ConcatenationOptions", {"Axis": 1, "FusedActivationFunction": 0})
    )
    agree_host(m.finish(y), tmp_path)
    graph = load_tflite(tmp_path / "model.tflite")
    every = np.arange(256, dtype=np.uint8)[None]
    (found,) = Interpreter(graph).run([every] * 3)
    for part, (scale, zero) in enumerate(scales):
        real = (every.astype(np.float64) - zero) * float(np.float32(scale))
        nearest = np.clip(np.sign(real) * np.floor(np.abs(real) / 0.25 + 0.5) + 128, 0, 255)
        np.testing.assert_array_equal(found[:, 256 * part : 256 * (part + 1)], nearest)


def agree_host(model: bytes, folder: Path) -> None:
    """Kernels and reference give the same values; TFLM is left out."""
    from compiled_models import KernelRunner
    from mlf_sdk.compiler.build import compile_graph
    from mlf_sdk.compiler.schedule import Choice
    from mlf_sdk.frontends.mlf.compiled import archive_of

    (folder / "model.tflite").write_bytes(model)
    graph = load_tflite(folder / "model.tflite")
    runner = KernelRunner(archive_of(compile_graph(graph, Choice())), folder, exact=True)
    data = [np.arange(256, dtype=np.uint8)[None, ::-1].copy()] * 3
    np.testing.assert_array_equal(
        runner.run(data)[0].reshape(-1), Interpreter(graph).run(data)[0].reshape(-1)
    )
