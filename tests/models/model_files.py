# SPDX-License-Identifier: Apache-2.0
"""The models of the table as files: exports by PyTorch, quantised ones by ONNX Runtime, and those of packages."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch_models import MODELS

from mlf_sdk.frontends.torch.program import module_to_onnx

SEED = 0
CALIBRATED = 32  # inputs that ranges come from
CHECKED = 3  # inputs of the comparison, not among those

QDQ = (
    *("lenet", "resnet8", "ds_cnn", "mobilenet_v1", "anomaly", "mobilenet_v2", "mobilenet_v3", "squeezenet"),
    *("densenet", "conv_autoencoder", "unet", "conv_1d", "temporal", "encoder"),
)
UNSIGNED = ("resnet8", "vgg")
QOPERATOR = ("lenet", "resnet8", "ds_cnn", "mobilenet_v2")
# Package, path of the file in it, shapes of inputs that it leaves open.
SHIPPED: dict[str, tuple[str, str, dict[str, tuple[int, ...]]]] = {
    "squeezenet_1_0": ("onnx", "backend/test/data/light/light_squeezenet.onnx", {}),
    "silero_vad": ("silero_vad", "data/silero_vad_openvino_16k.onnx", {}),
    "basic_pitch": (
        "basic_pitch", "saved_models/icassp_2022/nmp.onnx", {"serving_default_input_2:0": (1, 43844, 1)}
    ),
}  # fmt: skip

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A model of the table.

    Attributes:
        origin: who made it.
        quantised: its layers compute with integers.
        shapes: of inputs that the file leaves open.
    """

    name: str
    origin: str
    path: Path
    quantised: bool = False
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def inputs(self, session: onnxruntime.InferenceSession) -> list[dict[str, Array]]:
        """Inputs of the comparison."""
        base = MODELS.get(
            self.name.removesuffix(" QDQ").removesuffix(" QDQ uint8").removesuffix(" QOperator")
        )
        given = session.get_inputs()
        if base is not None:
            made = base.examples(SEED + 1, CHECKED)
            return [{g.name: x.numpy() for g, x in zip(given, one, strict=True)} for one in made]
        random = np.random.default_rng(SEED + 1)
        shapes = {g.name: self.shapes.get(g.name, tuple(g.shape)) for g in given}
        return [
            {name: (0.1 * random.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
        ]


def session_of(path: Path) -> onnxruntime.InferenceSession:
    """ONNX Runtime without rewriting: the operators as the file has them."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class _Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Yields random inputs, as the quantiser asks for them."""

    def __init__(self, name: str, path: Path) -> None:
        names = [i.name for i in session_of(path).get_inputs()]
        made = MODELS[name].examples(SEED + 2, CALIBRATED)
        self.left = iter([{n: x.numpy() for n, x in zip(names, one, strict=True)} for one in made])

    def get_next(self) -> dict[str, Array] | None:
        return next(self.left, None)


def _quantised(name: str, real: Path, path: Path, *, qdq: bool, unsigned: bool = False) -> None:
    prepared = path.with_suffix(".prepared.onnx")
    logging.disable(logging.WARNING)
    quant_pre_process(str(real), str(prepared), skip_symbolic_shape=True)
    quantization.quantize_static(
        str(prepared),
        str(path),
        _Reader(name, prepared),
        quant_format=quantization.QuantFormat.QDQ if qdq else quantization.QuantFormat.QOperator,
        activation_type=quantization.QuantType.QUInt8 if unsigned else quantization.QuantType.QInt8,
        weight_type=quantization.QuantType.QInt8,
        per_channel=True,
    )
    logging.disable(logging.NOTSET)
    prepared.unlink()


def model_files(folder: Path, wanted: Callable[[str], bool] = lambda _: True) -> list[ModelFile]:
    """Write the models that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name, model in MODELS.items():
        path = folder / f"{name}.onnx"
        if not path.is_file():
            module_to_onnx(model.built(SEED), model.examples(SEED + 3)[0], path)
        found.append(ModelFile(name=name, origin="PyTorch", path=path))
    rows = [(n, "QDQ", True, False) for n in QDQ] + [(n, "QDQ uint8", True, True) for n in UNSIGNED]
    for name, kind, qdq, unsigned in rows + [(n, "QOperator", False, False) for n in QOPERATOR]:
        path = folder / f"{name}_{kind.lower().replace(' ', '_')}.onnx"
        if not path.is_file():
            _quantised(name, folder / f"{name}.onnx", path, qdq=qdq, unsigned=unsigned)
        found.append(
            ModelFile(name=f"{name} {kind}", origin="PyTorch, ONNX Runtime", path=path, quantised=True)
        )
    for name, (package, inside, shapes) in SHIPPED.items():
        path = folder / f"{name}.onnx"
        spec = importlib.util.find_spec(package)
        if not path.is_file() and spec is not None and spec.origin is not None:
            path.write_bytes((Path(spec.origin).parent / inside).read_bytes())
        if path.is_file():
            found.append(ModelFile(name=name, origin=f"package {package}", path=path, shapes=shapes))
    return [one for one in found if wanted(one.name)]
