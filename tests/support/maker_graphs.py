# SPDX-License-Identifier: Apache-2.0
"""Models whose operators every maker of kernels in the schedule has kernels for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from flatbuffers import flexbuffers

from drawn_models import drawn_model
from mlf_sdk.compiler.graph import Graph, State, Value
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.operators import Custom, ReadState, WriteState
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.rows.frames import by_frames
from mlf_sdk.compiler.tflite.load import load_tflite
from onnx_drawing import network
from onnx_machines import machine
from onnx_models import OnnxMaker
from operator_cases import CASES, model_of
from random_networks import random_network
from signal_models import preprocessor
from tflite_models import Maker, ModelSpec, OperatorSpec, write_model
from time_series import EXACT

# Operators of ONNX whose kernels no .tflite model draws.
ONNX = (
    "GatherElements", "GatherND", "ScatterElements", "ScatterND", "LRN", "TopK", "DynamicQuantizeLinear", "MaxPool",
    "Conv", "ConvInteger",
)  # fmt: skip


def _value(number: int, shape: tuple[int, ...] = (5,)) -> Value:
    return Value(id=number, name=f"v{number}", dtype=np.dtype(np.int16), shape=shape)


def state() -> Graph:
    """A state that gives its value before it takes the input."""
    initial = np.arange(5, dtype=np.int16)
    return Graph(
        name="state",
        values=(_value(0), _value(1)),
        operators=(
            ReadState(number=0, kind="READ_VARIABLE", inputs=(), outputs=(1,), state=0),
            WriteState(number=1, kind="ASSIGN_VARIABLE", inputs=(0,), outputs=(), state=0),
        ),
        inputs=(0,),
        outputs=(1,),
        states=(State(name="s", dtype=initial.dtype, shape=(5,), initial=initial),),
    )


def custom() -> Graph:
    """An operator of the user's."""
    own = Custom(
        number=0, kind="CUSTOM", inputs=(0,), outputs=(1,), symbol="own", declaration="void own()", options=b"", source=b""
    )  # fmt: skip
    return Graph(name="own", values=(_value(0), _value(1)), operators=(own,), inputs=(0,), outputs=(1,))


def detection() -> bytes:
    """Post-processing of four boxes with two classes."""
    spec, options = ModelSpec(), {"max_detections": 3, "max_classes_per_detection": 1, "num_classes": 2}
    scales = {f"{name}_scale": 5.0 for name in "xyhw"}
    anchors = np.array([[0.5, 0.5, 1, 1], [0.5, 0.55, 1, 1], [0.5, 0.5, 0.2, 0.2], [3, 3, 1, 2]], np.float32)
    inputs = tuple(spec.tensor(n, "float32", (1, 4, e)) for n, e in (("boxes", 4), ("scores", 3)))
    table = spec.tensor("anchors", "float32", (4, 4), data=anchors)
    outputs = tuple(spec.tensor(name, "float32", ()) for name in ("corners", "classes", "best", "count"))
    packed = bytes(
        flexbuffers.Dumps(options | scales | {"nms_score_threshold": 0.25, "nms_iou_threshold": 0.5})
    )
    kind = "CUSTOM:TFLite_Detection_PostProcess"
    spec.operators.append(OperatorSpec(kind, (*inputs, table), outputs, custom=packed))
    spec.inputs, spec.outputs = list(inputs), list(outputs)
    return write_model(spec)


def onnx() -> OnnxMaker:
    """What ONNX alone has: normalisation, quantisers of real numbers and of stored ones, an LSTM; output ``lstm6``."""
    m = OnnxMaker(2)
    x = m.input(3, 1, 6)
    y = m.add("LayerNormalization", x, m.weights(6), m.weights(6), axis=-1)
    scale, point = m.constant(np.float32(0.02)), m.constant(np.int8(-3))
    for one in (scale, m.constant(np.float32(0.03))):
        y = m.add("DequantizeLinear", m.add("QuantizeLinear", y, one, point), one, point)
    m.add("LSTM", y, m.weights(1, 16, 6), m.weights(1, 16, 4), m.weights(1, 32), hidden_size=4)
    return m


def places_of_maxima() -> OnnxMaker:
    """A pooling that also gives the places of its maxima: outputs ``maxpool1`` and ``maxpool1_1``."""
    m = OnnxMaker(1)
    m.add("MaxPool", m.input(1, 2, 6, 6), outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    return m


def tree() -> OnnxMaker:
    """A decision tree of three nodes: output ``treeensembleregressor1``."""
    m = OnnxMaker(1)
    m.add(
        "TreeEnsembleRegressor", m.input(4, 2), domain="ai.onnx.ml", n_targets=1,
        nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0], nodes_values=[0.0] * 3,
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.5, -2.0],
    )  # fmt: skip
    return m


def machines() -> OnnxMaker:
    """A support vector machine with probabilities: outputs ``svmclassifier1`` and ``svmclassifier1_1``."""
    m = OnnxMaker(1)
    given = machine(m.random, 3, "RBF", calibrated=True)
    m.add("SVMClassifier", m.input(4, 3), outputs=2, domain="ai.onnx.ml", **given)
    return m


def layers() -> bytes:
    """Layers in the shapes that kernels of single cores and of one goal are for."""
    m = Maker(5)
    x = m.input((1, 9, 14, 4))
    x = m.conv(x, 16, (3, 3), 1, same=True, activation=1)
    x = m.conv(x, 16, (3, 3), 1, same=True, depthwise=True)
    x = m.conv(x, 13, (3, 3), 1, same=True)
    small = m.dense(
        m.dense(m.input((1, 40)), 33), 12, largest=7
    )  # weights of which long chunks fit a half of a word
    rows = m.dense(small, 1, largest=60)
    return m.finish(m.dense(x, 9), rows)


def graphs(folder: Path) -> Iterator[Graph]:
    """Models whose operators every maker has kernels for."""

    def read(model: bytes) -> Graph:
        (folder / "m.tflite").write_bytes(model)
        return load_tflite(folder / "m.tflite")

    yield state()
    yield custom()
    yield load_onnx(onnx().save(folder / "m.onnx", "lstm6"))
    yield load_onnx(tree().save(folder / "m.onnx", "treeensembleregressor1"))
    yield load_onnx(places_of_maxima().save(folder / "m.onnx", "maxpool1", "maxpool1_1"))
    yield load_onnx(machines().save(folder / "m.onnx", "svmclassifier1", "svmclassifier1_1"))
    encoder = OnnxMaker()
    name = encoder.add(
        "LabelEncoder", encoder.input(5), domain="ai.onnx.ml", keys_floats=[1.5, 2.0], values_int64s=[-3, 7]
    )
    yield load_onnx(encoder.save(folder / "m.onnx", name))
    yield read(detection())
    yield read(layers())
    yield read(preprocessor())
    frames = Maker(7)
    yield by_frames(improve(read(frames.finish(EXACT[0](frames)))))
    for seed in range(10):
        yield read(drawn_model(seed))
    for name, (dtypes, _) in CASES.items():
        for dtype in dtypes:
            yield read(model_of(name, dtype, 1))
    for seed in range(10):
        yield read(random_network(seed, "int8").file())
    for kind in ONNX:
        for seed in range(4):
            (folder / "m.onnx").write_bytes(network(seed, kind=kind).model().SerializeToString())
            yield load_onnx(folder / "m.onnx")
