# SPDX-License-Identifier: Apache-2.0
"""The application ``mlperf``: how a benchmark of MLPerf Tiny sends its inputs, and how a model takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.errors import InputError
from mlf_sdk.ir.dtype import FLOAT
from mlf_sdk.ir.model import Model
from mlf_sdk.ir.step import WINDOW
from mlf_sdk.ir.tensor import Tensor
from mlf_sdk.tools.ctext import c_string

VENDOR: Final = "mlf-sdk"


class Benchmark(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs and results of a benchmark, by its reference implementation.

    Attributes:
        sent: element type on the line: ``uint8``, ``int8`` or ``float32``.
        elements: of an input.
        results: numbers in a result.
        scale, zero_point: of the bytes that are sent, as real values.
        gives_error: the result is the mean squared error of the output against the input.
    """

    sent: str
    elements: int
    results: int
    scale: float = 1.0
    zero_point: int = 0
    gives_error: bool = False

    @property
    def input_bytes(self) -> int:
        """Bytes of one input on the line."""
        return self.elements * (4 if self.sent == "float32" else 1)


BENCHMARKS: Final = {
    "ic01": Benchmark(sent="uint8", elements=32 * 32 * 3, results=10),
    "vww01": Benchmark(sent="uint8", elements=96 * 96 * 3, results=2, scale=1 / 255),
    "kws01": Benchmark(sent="int8", elements=490, results=12, scale=0.5847029, zero_point=83),
    "ad01": Benchmark(sent="float32", elements=640, results=1, gives_error=True),
}
# TensorFlow Lite fixes the quantisation of 8-bit probabilities.
_PROBABILITIES: Final = {"int8": (1 / 256, -128), "uint8": (1 / 256, 0)}
_RESULT_TYPES: Final = ("int8", "uint8", "int16", "uint16", "int32", "float32")


def input_bytes_of(models: Sequence[Model], options: ProjectOptions) -> int:
    """Bytes of one input as the host sends it: those of the benchmark, or of all inputs for an own id.

    Raises:
        InputError: the model does not fit the benchmark, or a quantisation is not known.
    """
    if len(models) != 1:
        raise InputError("the mlperf application holds one model", where="--app mlperf", hint="Give one.")
    return _View(models[0], options).input_bytes


def mlperf_values(model: Model, options: ProjectOptions) -> dict[str, Any]:
    """Values for ``main_mlperf.c.j2``."""
    view = _View(model, options)
    return {
        "vendor": c_string(VENDOR),
        "id": c_string(options.mlperf_id),
        "profile": c_string(f"MLPerf Tiny device interface by {VENDOR}"),
        "input_bytes": view.input_bytes,
        "load": view.loader(),
        "results": view.writer(),
        "sent": _scale_text(*view.sent),
        "input": _scale_text(*view.input_scale()),
        "outputs": [_scale_text(*view.output_scale(i)) for i in range(len(model.outputs))],
    }


def _scale_text(scale: float, zero_point: int) -> str:
    return f"{{{scale:.9e}f, {zero_point}}}"


class _View:
    """A model in the terms of a benchmark; raises InputError where it does not fit."""

    def __init__(self, model: Model, options: ProjectOptions) -> None:
        self.model = model
        self.id = options.mlperf_id
        self.softmax = options.softmax
        self.benchmark = BENCHMARKS.get(self.id)
        self.inputs = [model.tensors[i] for i in model.inputs]
        self.outputs = [model.tensors[i] for i in model.outputs]
        self._check()

    def _refuse(self, what: str, hint: str) -> InputError:
        return InputError(what, where=f"model {self.model.name}, --id {self.id}", hint=hint)

    def _check(self) -> None:
        if self.model.stream is not None:
            raise self._refuse(
                "the input comes row by row, and the benchmark sends it as a whole", "Leave out --stream."
            )
        if WINDOW in self.model.provenance.options:
            raise self._refuse(
                "the input comes in frames, and the benchmark sends windows", "Leave out --frames."
            )
        self._check_types()
        benchmark = self.benchmark
        if benchmark is None:
            if not self.input_bytes:
                raise self._refuse("the model has no input", "Give a model with one.")
        elif self.softmax:
            raise self._refuse("the benchmark decides its results", "Leave out --softmax.")
        else:
            self._check_sizes(benchmark)
        self.loader()
        for index in range(len(self.outputs)):
            self.output_scale(index)

    def _check_types(self) -> None:
        for tensor in self.outputs:
            if tensor.dtype.name not in _RESULT_TYPES:
                raise self._refuse(
                    f"output '{tensor.name}' is {tensor.dtype.name}",
                    f"Results are made of {', '.join(_RESULT_TYPES)}.",
                )
        if not self.outputs:
            raise self._refuse("the model has no output", "Give a model with one.")

    def _check_sizes(self, benchmark: Benchmark) -> None:
        if len(self.inputs) != 1 or len(self.outputs) != 1:
            raise self._refuse("the benchmark has one input and one output", "Give a model made for it.")
        wanted = benchmark.elements if benchmark.gives_error else benchmark.results
        for what, tensor, elements in (
            ("input", self.inputs[0], benchmark.elements),
            ("output", self.outputs[0], wanted),
        ):
            if tensor.elements != elements:
                raise self._refuse(
                    f"{what} '{tensor.name}' has {tensor.elements:,} elements, the benchmark's {elements:,}",
                    "Give a model made for it, or an id of your own.",
                )

    @property
    def input_bytes(self) -> int:
        """Bytes of one input on the line."""
        if self.benchmark is not None:
            return self.benchmark.input_bytes
        return sum(tensor.size_bytes for tensor in self.inputs)

    @property
    def sent(self) -> tuple[float, int]:
        """Scale and zero point of what is sent."""
        benchmark = self.benchmark
        return (1.0, 0) if benchmark is None else (benchmark.scale, benchmark.zero_point)

    def loader(self) -> str:
        """The function that takes an input from the buffer."""
        if self.benchmark is None:
            return "copy"
        sent, taken = self.benchmark.sent, self.inputs[0].dtype.name
        if sent == taken:
            return "copy"
        if (sent, taken) == ("uint8", "int8"):
            return "minus_128"
        if taken == "float32":
            return "float"
        if sent == "float32" and taken in ("int8", "uint8"):
            self.input_scale()
            return "quantised"
        raise self._refuse(
            f"input '{self.inputs[0].name}' is {taken}, and the benchmark sends {sent}",
            "Give a model that takes int8 or float32.",
        )

    def input_scale(self) -> tuple[float, int]:
        """Scale and zero point of the input; not used where nothing is quantised."""
        needed = self.benchmark is not None and self.benchmark.sent == "float32"
        if not needed or self.inputs[0].dtype.code == FLOAT:
            return 1.0, 0
        return self._stated(self.inputs[0], self.inputs[0].name)

    def output_scale(self, index: int) -> tuple[float, int]:
        """Scale and zero point of an output."""
        tensor, name = self.outputs[index], self.model.output_names[index]
        if tensor.dtype.code == FLOAT:
            return 1.0, 0
        gives_error = self.benchmark is not None and self.benchmark.gives_error
        if tensor.quantisation is None and not gives_error and not self.softmax:
            known = _PROBABILITIES.get(tensor.dtype.name)
            if known is not None:
                return known
        return self._stated(tensor, name)

    def _stated(self, tensor: Tensor, name: str) -> tuple[float, int]:
        quantisation = tensor.quantisation
        if quantisation is None:
            raise self._refuse(
                f"the file does not state the quantisation of '{name}'",
                f"State it: --quantisation {name}=SCALE,ZERO_POINT",
            )
        if len(quantisation.scale) != 1:
            raise self._refuse(f"'{name}' is quantised per axis", "Quantise the whole tensor.")
        return quantisation.scale[0], quantisation.zero_point[0]

    def writer(self) -> str:
        """The function that writes results."""
        if self.benchmark is not None and self.benchmark.gives_error:
            return "error"
        return "softmax" if self.softmax else "values"
