# SPDX-License-Identifier: Apache-2.0
"""Damaged, hostile and unsupported ONNX files: one error that names every fault."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.errors import InputError, MlfError
from mlf_sdk.frontends import load
from onnx_models import OnnxMaker, convolutional


def message(path: Path) -> str:
    with pytest.raises(MlfError) as caught:
        load_onnx(path)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_every_unsupported_node_is_named_at_once(tmp_path: Path) -> None:
    m = OnnxMaker()
    x = m.input(1, 4)
    a = m.add("ReverseSequence", x, m.constant(np.array([1], np.int64)), batch_axis=0, time_axis=1)
    b = m.add("Frobnicate", x, domain="com.example")
    c = m.add("NonZero", x)
    text = message(m.save(tmp_path / "m.onnx", a, b, c))
    for part in (
        "/ReverseSequence_1",
        "/Frobnicate_2",
        "/NonZero_3",
        "com.example.Frobnicate",
        "depends on the input",
    ):
        assert part in text


def test_second_outputs_that_are_read(tmp_path: Path) -> None:
    m = OnnxMaker()
    x = m.add("Dropout", m.input(2, 5), outputs=2)
    mask = f"{x}_1"
    assert "its mask is not supported" in message(m.save(tmp_path / "m.onnx", x, m.add("Not", mask)))
    assert "its mask is not supported" in message(m.save(tmp_path / "n.onnx", x, mask))


def test_structure(tmp_path: Path) -> None:
    m = OnnxMaker()
    x = m.input(1, 4)
    m.nodes.append(helper.make_node("Add", [x, "b"], ["a"], name="first"))
    m.nodes.append(helper.make_node("Relu", ["a"], ["b"], name="second"))
    assert "cycle" in message(m.save(tmp_path / "cycle.onnx", "b"))
    m.nodes[1] = helper.make_node("Relu", [x], ["a"], name="second")
    text = message(m.save(tmp_path / "missing.onnx", "a"))
    assert "reads 'b', which nothing writes" in text and "written already" in text
    m.nodes[:] = [helper.make_node("Relu", [x], ["y"])]
    assert "written by no node" in message(m.save(tmp_path / "output.onnx", "z"))


@pytest.mark.parametrize("opset", [0, -1, 999])
def test_versions_of_operators(opset: int, tmp_path: Path) -> None:
    m = OnnxMaker(opset=opset)
    path = m.save(tmp_path / "m.onnx", m.add("Relu", m.input(1, 4)))
    assert f"operators of version {opset}" in message(path)


@pytest.mark.parametrize(("opset", "kind"), [(6, "Add"), (5, "Softmax"), (1, "Reshape")])
def test_operators_that_changed_since(opset: int, kind: str, tmp_path: Path) -> None:
    m = OnnxMaker(opset=opset)
    x = m.input(1, 4)
    path = m.save(tmp_path / "m.onnx", m.add(kind, *([x, x] if kind == "Add" else [x])))
    if kind == "Softmax":
        load_onnx(path)
        return
    says = f"operators of version {opset}, of which {kind} changed until version 7"
    assert says in message(path)


def test_shapes_that_stay_open(tmp_path: Path) -> None:
    m = OnnxMaker()
    path = m.save(tmp_path / "m.onnx", m.add("Relu", m.input("n", "sequence", 4)))
    assert "--shape x=N,N,4" in message(path)
    with pytest.raises(MlfError, match="no such input"):
        load_onnx(path, shapes={"x": (1, 2, 4), "y": (1,)})
    with pytest.raises(MlfError, match="doesn't fit"):
        load_onnx(path, shapes={"x": (1, 2, 5)})
    assert load_onnx(path, shapes={"x": (2, 3, 4)}).values[0].shape == (2, 3, 4)


def external(tmp_path: Path, location: str, count: int = 4) -> Path:
    m = OnnxMaker()
    m.add("Add", m.input(1, 4), "w")
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[count])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    m.constants.append(tensor)
    return m.save(tmp_path / "m.onnx", "add1")


def test_external_data_stays_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(64))
    inside = tmp_path / "inside"
    inside.mkdir()
    for location in ("../secret", str(tmp_path / "secret"), ""):
        assert "outside of the model's folder" in message(external(inside, location))
    (inside / "link").symlink_to(tmp_path / "secret")
    assert "outside of the model's folder" in message(external(inside, "link"))
    assert "missing" in message(external(inside, "none"))
    (inside / "w").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    assert "shorter" in message(external(inside, "w", 5))
    assert "has the shape" in message(external(inside, "w", 1 << 40))
    assert load_onnx(external(inside, "w")).inputs == (0,)


def test_huge_results_are_not_computed(tmp_path: Path) -> None:
    m = OnnxMaker()
    x = m.input(1, 4)
    shape = m.constant(np.array([1 << 20, 1 << 20], np.int64))
    y = m.add("Add", x, m.add("ConstantOfShape", shape))
    assert "elements" in message(m.save(tmp_path / "a.onnx", y))
    m = OnnxMaker()
    y = m.add("Expand", m.input(1, 4), m.constant(np.array([1 << 40, 4], np.int64)))
    assert "too large" in message(m.save(tmp_path / "b.onnx", y))


def test_what_is_no_onnx_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for data in (b"", b"text that is no model", bytes(100)):
        path.write_bytes(data)
        assert "not an ONNX model" in message(path)
        with pytest.raises(InputError):
            load(path)


def test_damaged_files_are_one_error(tmp_path: Path) -> None:
    m = convolutional()
    whole = m.model(m.nodes[-1].output[0]).SerializeToString()
    for seed in range(150):
        random = np.random.default_rng(seed)
        data = bytearray(whole[: int(random.integers(8, len(whole)))] if seed % 2 else whole)
        for _ in range(int(random.integers(1, 6))):
            place = int(random.integers(0, min(len(data), 4000 if seed % 3 else len(data))))
            data[place] = int(random.integers(0, 256))
        path = tmp_path / "damaged.onnx"
        path.write_bytes(bytes(data))
        with contextlib.suppress(InputError):
            load_onnx(path)


def test_parts_of_the_format_that_are_not_supported(tmp_path: Path) -> None:
    m = OnnxMaker()
    m.inputs.append(helper.make_tensor_value_info("x", TensorProto.STRING, [1]))
    assert "which is not supported" in message(m.save(tmp_path / "m.onnx", m.add("Identity", "x")))
    m = OnnxMaker()
    y = m.add("LSTM", m.input(5, 1, 3), m.input(1, 8, 3, name="w"), m.weights(1, 8, 2), hidden_size=2)
    assert "computed at run time" in message(m.save(tmp_path / "n.onnx", y))
    assert onnx.checker is not None


def test_external_data_that_changed_is_compiled_again(tmp_path: Path) -> None:
    found = []
    for number in (1.0, 2.0):
        (tmp_path / "w").write_bytes(np.full(4, number, np.float32).tobytes())
        found.append(load(external(tmp_path, "w")))
    assert [t.data for t in found[0].tensors] != [t.data for t in found[1].tensors]


def test_a_quantised_operator_with_channels_last_is_refused(tmp_path: Path) -> None:
    def saved(channels_last: int) -> Path:
        m = OnnxMaker()
        scale, zero = m.constant(np.float32(0.1)), m.constant(np.int8(0))
        x = m.input(1, 4, 4, 4, dtype=TensorProto.INT8)
        numbers = {"kernel_shape": [2, 2], "channels_last": channels_last}
        y = m.add("QLinearAveragePool", x, scale, zero, scale, zero, domain="com.microsoft", **numbers)
        return m.save(tmp_path / f"m{channels_last}.onnx", y)

    graph = load_onnx(saved(0))
    assert graph.values[graph.outputs[0]].shape == (1, 4, 3, 3)
    assert "com.microsoft.QLinearAveragePool" in message(saved(1))


@pytest.mark.parametrize("kind", ["Softmax", "Cast", "Gemm"])
def test_absent_inputs_that_are_needed(kind: str, tmp_path: Path) -> None:
    m = OnnxMaker()
    m.input(1, 4)
    y = m.add(kind, "", **({"to": 1} if kind == "Cast" else {}))
    assert f"{kind} (" in message(m.save(tmp_path / "m.onnx", y))
