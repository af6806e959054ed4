# SPDX-License-Identifier: Apache-2.0
"""Loss by quantisation: each layer's output and the model's, against the float model on the same samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlf_sdk.compiler.onnx.file import require_onnx
from mlf_sdk.compiler.onnx.quantiser import QuantisedFiles, Sample, collect
from mlf_sdk.compiler.operators import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorLoss:
    """Difference of a tensor from that of the float model, over all samples.

    Attributes:
        tensor: its name.
        node: kind and name of the node that writes it; ``input`` for an input.
        snr_db: signal to noise in decibel, with the errors of the layers in front; None: no difference.
        max_error: largest absolute difference.
        max_value: largest magnitude in the float model.
    """

    tensor: str
    node: str
    snr_db: float | None
    max_error: float
    max_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Loss of a quantised model.

    Attributes:
        layers: quantised tensors in the order of the model.
        outputs: the model's outputs that are real numbers.
        classes: top class of each sample in the float model and in the quantised one; empty where the model
            has no single output with classes.
    """

    layers: tuple[TensorLoss, ...]
    outputs: tuple[TensorLoss, ...]
    classes: tuple[tuple[int, int], ...]


def measure_loss(
    files: QuantisedFiles, samples: Sequence[Sample], folder: Path, *, class_output: str
) -> Loss:
    """Run both models on the samples, and compare.

    Args:
        files: both models.
        samples: inputs by name.
        folder: for files.
        class_output: name of the one output with classes; empty: there is none.

    Raises:
        InputError: ONNX Runtime can't run one of them.
    """
    graph = require_onnx().load(files.real, load_external_data=False).graph
    writers = {name: f"{node.op_type} {node.name}".strip() for node in graph.node for name in node.output}
    layers: dict[str, _Sums] = {}
    outputs: dict[str, _Sums] = {}
    classes: list[tuple[int, int]] = []
    both = zip(collect(files.real, samples, folder), collect(files.int8, samples, folder), strict=True)
    for real, int8 in both:
        _add_layers(layers, real, int8)
        for output in graph.output:
            if output.name in real and output.name in int8:
                sums = outputs.setdefault(output.name, _Sums())
                sums.add(real[output.name], int8[output.name])
        if class_output in real and class_output in int8:
            pairs = zip(real[class_output], int8[class_output], strict=True)
            classes += [(int(np.argmax(a)), int(np.argmax(b))) for a, b in pairs]
    order = {name: at for at, name in enumerate(writers)}
    ordered = sorted(layers, key=lambda name: order.get(name, -1))
    return Loss(
        layers=tuple(layers[name].loss(name, writers.get(name, "input")) for name in ordered),
        outputs=tuple(one.loss(name, writers.get(name, "input")) for name, one in outputs.items()),
        classes=tuple(classes),
    )


def _add_layers(
    layers: dict[str, _Sums], real: Mapping[str, list[Array]], int8: Mapping[str, list[Array]]
) -> None:
    from onnxruntime.quantization.qdq_loss_debug import create_activation_matching

    for name, result in create_activation_matching(dict(int8), dict(real)).items():
        if "float" in result:
            layers.setdefault(name, _Sums()).add(result["float"], result["post_qdq"])


@dataclass(slots=True)
class _Sums:
    """Sums over samples, in double precision."""

    signal: float = 0.0
    noise: float = 0.0
    max_error: float = 0.0
    max_value: float = 0.0

    def add(self, real: Sequence[Array], int8: Sequence[Array]) -> None:
        for a, b in zip(real, int8, strict=True):
            if a.size:
                x, d = np.float64(a), np.float64(a) - np.float64(b)
                self.signal += float((x**2).sum())
                self.noise += float((d**2).sum())
                self.max_error = max(self.max_error, float(np.abs(d).max()))
                self.max_value = max(self.max_value, float(np.abs(x).max()))

    def loss(self, tensor: str, node: str) -> TensorLoss:
        return TensorLoss(
            tensor=tensor,
            node=node,
            snr_db=_decibel(self.signal, self.noise),
            max_error=self.max_error,
            max_value=self.max_value,
        )


def _decibel(signal: float, noise: float) -> float | None:
    """Ratio in decibel; None without noise, and a very low one for noise alone."""
    return 10 * math.log10(max(signal, 1e-30) / noise) if noise > 0 else None
