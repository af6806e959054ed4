# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models, built in code: layers with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]


class OnnxMaker:
    """A model that grows node by node."""

    def __init__(self, seed: int = 0, opset: int = 17) -> None:
        self.random = np.random.default_rng(seed)
        self.opset = opset
        self.domains = {"com.microsoft": 1, "ai.onnx.ml": 3}
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.count = 0

    def input(self, *shape: int | str, dtype: int = TensorProto.FLOAT, name: str = "x") -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def constant(self, data: Any, name: str = "") -> str:
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(data), name))
        return name

    def weights(self, *shape: int, scale: float = 0.3) -> str:
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def add(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> str:
        self.count += 1
        names = [f"{kind.lower()}{self.count}" + (f"_{i}" if i else "") for i in range(outputs)]
        self.nodes.append(
            helper.make_node(kind, inputs, names, name=f"/{kind}_{self.count}", domain=domain, **attributes)
        )
        return names[0]

    def model(self, *outputs: str) -> Any:
        graph = helper.make_graph(
            self.nodes,
            "model",
            self.inputs,
            [helper.make_empty_tensor_value_info(o) for o in outputs],
            self.constants,
        )
        opsets = [helper.make_opsetid(*one) for one in {"": self.opset, **self.domains}.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def save(self, path: Path, *outputs: str) -> Path:
        path.write_bytes(self.model(*outputs).SerializeToString())
        return path


def convolutional(seed: int = 0) -> OnnxMaker:
    """Convolutions of every kind, normalisation, pooling, a sum and a layer behind: output ``softmax16``."""
    m = OnnxMaker(seed)
    x = m.input(1, 3, 9, 10)
    y = m.add("Conv", x, m.weights(8, 3, 3, 3), m.weights(8), pads=[1, 1, 1, 1])
    variance = m.constant(np.abs(m.random.standard_normal(8)).astype(np.float32) + 0.5)
    y = m.add("BatchNormalization", y, m.weights(8), m.weights(8), m.weights(8), variance)
    y = m.add("Relu", y)
    z = m.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = m.add("Conv", z, m.weights(8, 1, 3, 3), pads=[1, 1, 1, 1], group=8)
    y = m.add("Clip", y, m.constant(np.float32(0)), m.constant(np.float32(6)))
    y = m.add("Conv", y, m.weights(8, 4, 1, 1), group=2)
    y = m.add("Add", y, z)
    y = m.add("Conv", y, m.weights(6, 8, 3, 2), strides=[2, 1], dilations=[1, 2], pads=[1, 0, 1, 2])
    y = m.add("ConvTranspose", y, m.weights(6, 4, 3, 3), strides=[2, 2], pads=[1, 1, 0, 1])
    y = m.add("Concat", y, m.add("Sigmoid", y), axis=1)
    y = m.add("AveragePool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    y = m.add("Flatten", y)
    y = m.add("Gemm", y, m.weights(80, 10), m.weights(10))
    m.add("Softmax", y)
    return m
