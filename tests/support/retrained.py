# SPDX-License-Identifier: Apache-2.0
"""A .tflite model as it is after more training: other values of weights, or other ranges, all else as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tflite

WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def _layers(data: bytearray) -> Iterator[tuple[Any, Any, Any]]:
    """Model, graph and operator of each layer with int8 weights, in order."""
    model = tflite.Model.GetRootAs(data, 0)
    graph = model.Subgraphs(0)
    wanted = {getattr(tflite.BuiltinOperator, name) for name in WEIGHTED}
    for index in range(graph.OperatorsLength()):
        operator = graph.Operators(index)
        code = model.OperatorCodes(operator.OpcodeIndex())
        tensor = graph.Tensors(operator.Inputs(1)) if operator.InputsLength() > 1 else None
        kind = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        if kind in wanted and tensor is not None and tensor.Type() == tflite.TensorType.INT8:
            yield model, graph, operator


def retrain(source: Path, target: Path, *, layers: int | None = None, most: int = 40, seed: int = 1) -> Path:
    """Write a model whose weights differ by 1 to ``most`` steps in the last ``layers`` layers; None: in all."""
    data = bytearray(source.read_bytes())
    rng = np.random.default_rng(seed)
    found = list(_layers(data))
    assert found
    for model, graph, operator in found if layers is None else found[-layers:]:
        view = model.Buffers(graph.Tensors(operator.Inputs(1)).Buffer()).DataAsNumpy().view(np.int8)
        steps = rng.integers(1, most + 1, view.size) * rng.choice([-1, 1], view.size)
        view[:] = np.clip(view.astype(int) + steps, -127, 127)  # in the file: a view of its bytes
    target.write_bytes(data)
    return target


def rescale(source: Path, target: Path, *, layer: int, input_number: int | None, factor: float) -> Path:
    """Write a model with another scale of a layer's input of this number; None: of its output."""
    data = bytearray(source.read_bytes())
    _, graph, operator = list(_layers(data))[layer]
    number = operator.Outputs(0) if input_number is None else operator.Inputs(input_number)
    graph.Tensors(number).Quantization().ScaleAsNumpy()[:] *= np.float32(factor)
    target.write_bytes(data)
    return target
