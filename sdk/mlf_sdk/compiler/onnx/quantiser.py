# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's static quantiser: a float model and samples of its inputs to a QDQ model in int8."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mlf_sdk.compiler.onnx.file import require_onnx
from mlf_sdk.compiler.operators import Array
from mlf_sdk.errors import InputError

Sample = Mapping[str, Array]
LEAST_OPSET: Final = 13  # the first with scales per channel
_AT_ONCE: Final = 32  # samples whose activations are held in memory
_INSTALL: Final = "Install what quantises ONNX models: pip install 'mlf-sdk[quantize]'."
_QUANTISED: Final = frozenset(("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisedFiles:
    """Files of a quantised model.

    Attributes:
        real: the float model as it was quantised: optimised, with its shapes.
        int8: the same with QuantizeLinear and DequantizeLinear around its layers.
    """

    real: Path
    int8: Path


def require_quantiser() -> Any:  # noqa: ANN401
    """The package ``onnxruntime.quantization``.

    Raises:
        InputError: it is not installed.
    """
    require_onnx()
    try:
        from onnxruntime import quantization
    except ImportError:
        raise InputError(
            "the package 'onnxruntime' is not installed", where="mlf-sdk quantize", hint=_INSTALL
        ) from None
    return quantization


def quantise_onnx(path: Path, samples: Sequence[Sample], folder: Path) -> QuantisedFiles:
    """Quantise a model: int8, weights per output channel, activations by the range that the samples show.

    Args:
        path: a float model that was read without faults.
        samples: inputs by name, as the model takes them.
        folder: for the files.

    Raises:
        InputError: it is quantised already, or the quantiser refuses it.
    """
    tool = require_quantiser()
    files = QuantisedFiles(real=folder / "real.onnx", int8=folder / f"{path.stem}.onnx")
    with _failures(path), _silent():
        from onnxruntime.quantization.shape_inference import quant_pre_process

        quant_pre_process(_recent(path), str(files.real), skip_symbolic_shape=True)
        tool.quantize_static(
            str(files.real),
            str(files.int8),
            _reader(tool, samples),
            quant_format=tool.QuantFormat.QDQ,
            activation_type=tool.QuantType.QInt8,
            weight_type=tool.QuantType.QInt8,
            per_channel=True,
        )
    return files


def collect(path: Path, samples: Sequence[Sample], folder: Path) -> Iterator[Mapping[str, list[Array]]]:
    """Run a model without any optimisation; yield its real tensors by name, a few samples at a time.

    Args:
        path: the model.
        samples: inputs by name.
        folder: for a file.
    """
    require_quantiser()
    from onnxruntime.quantization import qdq_loss_debug

    open_ = folder / f"open-{path.name}"
    with _failures(path), _silent():
        qdq_loss_debug.modify_model_output_intermediate_tensors(str(path), str(open_))
    for start in range(0, len(samples), _AT_ONCE):
        with _failures(path), _silent():
            activations = qdq_loss_debug.collect_activations(
                str(open_), list(samples[start : start + _AT_ONCE])
            )
        yield activations


def feed_types(path: Path) -> dict[str, Any]:
    """Types of a model's inputs by name, as numpy has them."""
    onnx = require_onnx()
    graph = onnx.load(path, load_external_data=False).graph
    constants = {one.name for one in graph.initializer}
    return {
        one.name: onnx.helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type)
        for one in graph.input
        if one.name not in constants
    }


def _recent(path: Path) -> Any:  # noqa: ANN401
    """The model, in an operator set that has scales per channel."""
    onnx = require_onnx()
    model = onnx.load(path)
    if any(node.op_type in _QUANTISED or node.op_type.startswith("QLinear") for node in model.graph.node):
        raise InputError("the model is quantised already", where=str(path), hint="Give the float model.")
    opset = max((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=1)
    return model if opset >= LEAST_OPSET else onnx.version_converter.convert_version(model, LEAST_OPSET)


def _reader(tool: Any, samples: Sequence[Sample]) -> Any:  # noqa: ANN401
    class Reader(tool.CalibrationDataReader):  # type: ignore[misc]
        """Yields the samples, as the quantiser asks for them."""

        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> Sample | None:
            """The next sample; None behind the last."""
            return next(self.left, None)

    return Reader()


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    """Turn whatever ONNX Runtime raises into one error."""
    try:
        yield
    except (InputError, OSError, MemoryError):
        raise
    except Exception as error:
        said = str(error).strip().partition("\n")[0][:300] or type(error).__name__
        raise InputError(
            f"ONNX Runtime can't quantise the model: {said}",
            where=str(path),
            hint="Simplify the model where the message points to, or quantise it elsewhere and compile that.",
        ) from error


@contextmanager
def _silent() -> Iterator[None]:
    """Keep the quantiser's advice out of the output."""
    former = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(former)
