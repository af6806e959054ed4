# SPDX-License-Identifier: Apache-2.0
"""Models that are damaged or can't be compiled exactly: one error, each fault with its place and a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from cli_helpers import Caller
from mlf_sdk.compiler.graph import State
from mlf_sdk.compiler.passes.edges import strip_conversions
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.tflite.context import Context
from mlf_sdk.compiler.tflite.file import RawOperator, RawSubgraph, RawTensor
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.compiler.tflite.variables import read as read_variable
from mlf_sdk.errors import ArchiveError, InputError
from operator_cases import Case
from small_models import floats_at_the_edges
from tflite_models import Maker, TensorSpec, write_model
from tflite_mutants import bases, mutant, survives


def model() -> tuple[Maker, int, int]:
    """A convolution behind an input: the maker, and the numbers of both tensors."""
    m = Maker(4)
    x = m.input((1, 6, 6, 4))
    return m, x, m.conv(x, 4, (3, 3), 1, same=True)


def faults_of(data: bytes, folder: Path, hint: str = "Convert the model again") -> str:
    path = folder / "m.tflite"
    path.write_bytes(data)
    with pytest.raises(ArchiveError) as caught:
        load_tflite(path)
    assert caught.value.hint.startswith(hint)
    assert caught.value.what.startswith("the model has ")
    return caught.value.what


def weights(m: Maker) -> TensorSpec:
    return next(t for t in m.spec.tensors if t.name.startswith("w"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m, y: setattr(y, "scale", (0.0,)), "has the scale 0.0; it must be finite and > 0"),
        (lambda m, y: setattr(y, "scale", (float("nan"),)), "has the scale nan"),
        (lambda m, y: setattr(y, "scale", (float("inf"),)), "has the scale inf"),
        (lambda m, y: setattr(y, "scale", (-0.5,)), "has the scale -0.5"),
        (lambda m, y: setattr(y, "scale", ()), "operator 0 CONV_2D .*: a tensor has no quantisation$"),
        (lambda m, y: setattr(y, "zero_point", (128,)), "has the zero point 128; int8 can't hold it"),
        (lambda m, y: setattr(y, "shape", (1, 5, 6, 4)), r"\(1, 6, 6, 4\) follows from the operator"),
        (lambda m, y: setattr(y, "shape", (1 << 15, 1 << 15, 1 << 15, 4)), "at most 1073741824 are read"),
        (lambda m, y: setattr(weights(m), "axis", 2), "scales along dimension 2"),
        (lambda m, y: setattr(weights(m), "data", None), "nothing has written before"),
        (lambda m, y: m.spec.outputs.append(999), "names tensor 999"),
        (lambda m, y: m.spec.operators.append(m.spec.operators[0]), "is written already"),
    ],
)  # fmt: skip
def test_faults(change: Callable[[Maker, TensorSpec], None], says: str, tmp_path: Path) -> None:
    m, _, y = model()
    m.spec.outputs = [y]
    change(m, m.spec.tensors[y])

    assert re.search(says, faults_of(write_model(m.spec), tmp_path))


def test_an_operator_that_reads_what_comes_later(tmp_path: Path) -> None:
    m = model()[0]
    early, late = m.activation((1, 6, 6, 4)), m.activation((1, 6, 6, 4))
    m.spec.add("LOGISTIC", (late,), early)
    m.spec.add("LOGISTIC", (early,), late)
    assert "nothing has written before" in faults_of(m.finish(late), tmp_path)


def test_bytes_without_a_scale_are_not_quantised_again(tmp_path: Path) -> None:
    """TFLM takes their scale for 0, and gives the zero point everywhere; the reference read them as real numbers."""
    m = Maker(1)
    x = m.spec.tensor("x", "int8", (1, 8))
    m.spec.inputs.append(x)
    y = m.activation((1, 8))
    m.spec.add("QUANTIZE", (x,), y)
    assert "its input has no quantisation" in faults_of(m.finish(y), tmp_path)


def test_all_faults_with_a_place_and_a_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    m, _, y = model()
    first = m.spec.add("TOPK_V2", (y,), m.activation((1, 6, 6, 4), "wave"))
    second = m.spec.add("MATRIX_DIAG", (y,), m.activation((1, 6, 6, 4), "other"))
    text = faults_of(m.finish(first, second), tmp_path)
    for place in ("operator 1 TOPK_V2 ('wave')", "operator 2 MATRIX_DIAG ('other')"):
        assert f"{place}: this operator is not supported; replace it in the model" in text
    result = Caller(capsys)("run", tmp_path / "m.tflite", "--board", "mps2-an386")
    assert result.code == 2 and "operator 2 MATRIX_DIAG" in result.block()["what"]


def test_open_dimensions(tmp_path: Path) -> None:
    """An open batch is that of --batch; any other open dimension has the extent that is stored."""
    m, x, y = model()
    for number in (x, y):
        m.spec.tensors[number].signature = (-1, 6, 6, 4)
    path = tmp_path / "m.tflite"
    path.write_bytes(m.finish(y))
    assert mlf_sdk.load(path).tensors[0].shape == (1, 6, 6, 4)
    wide = mlf_sdk.load(path, batch=3)
    assert wide.tensors[wide.inputs[0]].shape == wide.tensors[wide.outputs[0]].shape == (3, 6, 6, 4)
    one, three = load_tflite(path), load_tflite(path, batch=3)
    data = np.random.default_rng(0).integers(-128, 128, (3, 6, 6, 4)).astype(np.int8)
    apart = [Interpreter(one).run([data[i : i + 1]])[0] for i in range(3)]
    np.testing.assert_array_equal(Interpreter(three).run([data])[0], np.concatenate(apart))


def test_open_height_and_width(tmp_path: Path) -> None:
    """Shapes behind an input of open size follow from its stored extents; a stated extent stays."""
    whole = Maker(3)
    x = whole.input((1, 6, 6, 4))
    y = whole.conv(x, 8, (2, 3), 1, same=False)
    y = whole.binary("ADD", y, y)
    z = whole.pool(y, 2, largest=True)
    y = whole.same_scale(z, (1, 6, 2, 8))
    whole.spec.add("CONCATENATION", (z, z), y, ("ConcatenationOptions", {"Axis": 1}))
    flat = whole.same_scale(y, (1, 96))
    target = whole.spec.tensor("target", "int32", (2,), data=np.array([1, -1], np.int32))
    whole.spec.add("RESHAPE", (y, target), flat)
    plain, opened, wrong = (tmp_path / f"{name}.tflite" for name in ("plain", "open", "wrong"))
    plain.write_bytes(whole.finish(flat))
    for tensor in whole.spec.tensors:
        if tensor.data is None:
            channels = tensor.shape[-1]
            tensor.signature = (*[-1] * (len(tensor.shape) - 1), channels if len(tensor.shape) == 4 else -1)
            tensor.shape = (
                tensor.shape if tensor.name == "input" else tuple(max(1, e) for e in tensor.signature)
            )
    opened.write_bytes(whole.finish(flat))
    data = np.random.default_rng(0).integers(-128, 128, (1, 6, 6, 4)).astype(np.int8)
    one, other = (Interpreter(load_tflite(path)).run([data]) for path in (plain, opened))
    np.testing.assert_array_equal(one[0], other[0])
    assert [v.shape for v in load_tflite(opened).values if v.data is None][-1] == (1, 96)
    whole.spec.tensors[z].signature = (1, 3, 1, 8)
    wrong.write_bytes(whole.finish(flat))
    with pytest.raises(ArchiveError, match=r"stated with shape \(1, 1, 1, 8\); \(1, 3, 2, 8\) follows"):
        load_tflite(wrong)


def test_int8_at_the_edges(tmp_path: Path) -> None:
    """Without QUANTIZE and DEQUANTIZE the model computes the same, under the same names."""
    (tmp_path / "edges.tflite").write_bytes(floats_at_the_edges())
    graph = load_tflite(tmp_path / "edges.tflite")
    stripped = strip_conversions(graph)
    assert [o.kind for o in stripped.operators] == ["CONV_2D"]
    assert [stripped.values[i].name for i in (*stripped.inputs, *stripped.outputs)] == ["x", "y"]
    real = np.random.default_rng(1).uniform(-2, 2, (1, 6, 6, 4)).astype(np.float32)
    x, y = stripped.values[stripped.inputs[0]], stripped.values[stripped.outputs[0]]
    stored = np.clip(np.round(real / np.float32(x.scale)) + x.zero_point, -128, 127).astype(np.int8)
    (whole,), (inner,) = Interpreter(graph).run([real]), Interpreter(stripped).run([stored])
    np.testing.assert_array_equal(whole, (inner.astype(np.float32) - y.zero_point) * np.float32(y.scale))
    model = mlf_sdk.load(tmp_path / "edges.tflite", io="int8")
    assert model.tensors[model.inputs[0]].dtype.name == "int8" and model.output_names == ("y",)
    assert model.tensors[model.inputs[0]].quantisation is not None
    assert model.provenance.options["io"] == "int8"


def test_edges_that_stay_floats(tmp_path: Path) -> None:
    m = Maker(1)
    x = m.spec.tensor("x", "float32", (1, 8))
    m.spec.inputs.append(x)
    y = m.spec.add("ABS", (x,), m.spec.tensor("y", "float32", (1, 8)))
    path = tmp_path / "m.tflite"
    path.write_bytes(m.finish(y))
    with pytest.raises(InputError, match="does not convert the floats 'x', 'y' to int8"):
        strip_conversions(load_tflite(path))


def test_options_that_point_outside_of_the_file(tmp_path: Path) -> None:
    assert not survives(mutant(bases()[750 % 8 // 4], 750), tmp_path)


@pytest.mark.parametrize("kept", [9, 300, -20])
def test_a_file_that_is_cut_off(kept: int, tmp_path: Path) -> None:
    m, _, y = model()
    data = m.finish(y)[:kept]
    assert f"cut off or damaged: it refers to bytes past the file's {len(data)}" in faults_of(
        data, tmp_path, "Compare the file's size"
    )


def test_softmax_of_values_too_small_to_scale(tmp_path: Path) -> None:
    m = Maker(1)
    x = m.input((1, 8))
    m.spec.tensors[x].scale = (1e-12,)
    assert "beta 1.0 with an input of scale" in faults_of(m.finish(m.softmax(x)), tmp_path)


def test_a_bias_of_another_type(tmp_path: Path) -> None:
    m, _, y = model()
    bias = next(t for t in m.spec.tensors if t.name.startswith("b"))
    bias.dtype, bias.data = "float32", np.full(4, np.nan, np.float32)
    says = faults_of(m.finish(y), tmp_path)
    assert says.endswith("a bias of type float32 beside activations of type int8; int32 is needed")


def test_a_sum_of_scales_far_apart(tmp_path: Path) -> None:
    """No factors of 32 bits: the general kernel, and the reference's values."""
    m = Maker(2)
    x = m.input((1, 8))
    y = m.binary("ADD", x, m.same_scale(x, (1, 8)))
    m.spec.inputs.append(m.spec.operators[0].inputs[1])
    m.spec.tensors[y].scale = (float(np.float32(1e-20)),)
    assert survives(m.finish(y), tmp_path)


@pytest.mark.parametrize("part", range(3))
def test_mutants(part: int, tmp_path: Path) -> None:
    """300 damaged files; `make fuzz-models` has 10,000."""
    models = bases()
    outcomes = {survives(mutant(models[seed % 8 // 4], seed), tmp_path) for seed in range(part, 300, 3)}
    assert outcomes == {True, False}


def test_a_variable_has_one_type() -> None:
    plain = {"shape": (4,), "open": (), "quantisation": None, "data": None, "variable": False}
    tensors = (
        RawTensor(name="handle", dtype=None, **plain),
        RawTensor(name="y", dtype=np.dtype(np.float32), **plain),
    )
    raw = RawSubgraph(name="", tensors=tensors, operators=(), inputs=(), outputs=())
    state = State(name="v", dtype=np.dtype(np.int8), shape=(4,), initial=np.zeros(4, np.int8))
    context = Context(raw, {}, [state])
    context.handles[0] = 0
    read = RawOperator(
        number=0, kind="READ_VARIABLE", version=1, inputs=(0,), outputs=(1,), intermediates=(),
        options=lambda _: None, custom=b"",
    )  # fmt: skip
    with pytest.raises(InputError, match="'y' is of float32; the variable 'v' holds int8"):
        read_variable(context, read)


def test_real_numbers_are_stated_as_such(tmp_path: Path) -> None:
    """Interpreters write real numbers, whatever the type of DEQUANTIZE's output is stated as."""
    m = Maker(1)
    y = m.spec.add("DEQUANTIZE", (m.input((1, 4)),), m.spec.tensor("y", "int32", (1, 4)))
    assert "its output has the type int32; it is of real numbers" in faults_of(m.finish(y), tmp_path)


def test_a_scale_whose_ratio_overflows(tmp_path: Path) -> None:
    """TFLM's ratio of scales is single precision, and interpreters differ in what an infinite one is."""
    m = Maker(1)
    y = m.spec.add("RELU", (m.input((1, 4)),), m.activation((1, 4)))
    m.spec.tensors[y].scale = (1e-40,)
    assert "operator 0 RELU ('t1'): the scale 9.99" in faults_of(m.finish(y), tmp_path)


def test_one_scale_a_channel_of_another_tensor_of_whole_numbers(tmp_path: Path) -> None:
    m = Maker(1)
    y = m.spec.add("QUANTIZE", (m.input((2, 3)),), m.activation((2, 3)))
    m.spec.tensors[y].scale, m.spec.tensors[y].zero_point, m.spec.tensors[y].axis = (
        (0.1, 0.2, 0.3),
        (0,) * 3,
        1,
    )
    assert "operator 0 QUANTIZE ('t1'): from whole numbers to whole" in faults_of(m.finish(y), tmp_path)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_bias_of_another_number_of_channels(count: int, tmp_path: Path) -> None:
    """One number would be added to every channel, without a word."""
    c = Case(Maker(1), "float32")
    x, weights = c.input((1, 5, 5, 2)), c.weights((4, 3, 3, 2))
    fields = {"Padding": 0, "StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
    options = ("Conv2DOptions", fields)
    y = c.maker.spec.add("CONV_2D", (x, weights, c.bias(count)), c.value((1, 5, 5, 4)), options)
    says = f"has {count} elements; 4 follow from the operator"
    assert says in faults_of(c.maker.finish(y), tmp_path)
