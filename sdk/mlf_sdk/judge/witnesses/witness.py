# SPDX-License-Identifier: Apache-2.0
"""The file that a model was compiled from, as witnesses read it: before any pass; and their protocol.

Each has a module, and an entry of `WITNESSES` in `mlf_sdk.judge.witnesses.panel`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Convert, Map, Move, Operator, Reshape
from mlf_sdk.compiler.options import CompileOptions, Io, Kernels
from mlf_sdk.errors import ArchiveError, MlfError
from mlf_sdk.frontends.compiled import CompilingFrontend
from mlf_sdk.judge.compare import Tolerance
from mlf_sdk.tools.arrays import Array

_QUANTISED: float = 0.05  # of the largest value: layers may round one step differently
_INTEGER_STEPS: float = 6.0  # the same of an int8 output, whose values go to 127
_WITHOUT_SUMS = (Convert, Map, Move, Reshape)

Supply = Callable[[Operator, list[Array | None]], "list[Array] | None"]
"""Outputs of an operator that only its code defines, for these inputs; None: not known."""


class ModelFile:
    """A model file, and the options that it was compiled with.

    Args:
        path: of the file.
        frontend: of its format.
        options: of the compiler; those that say what its inputs and outputs are count here.
        supplier: opens, for a graph, what runs the code of custom operators; None: nothing does.
    """

    def __init__(
        self,
        path: Path,
        frontend: CompilingFrontend,
        options: CompileOptions,
        supplier: Callable[[Graph], AbstractContextManager[Supply]] | None = None,
    ) -> None:
        self.path = path
        self.frontend = frontend
        self.options = options
        self._supplier = supplier

    def supply(self) -> AbstractContextManager[Supply | None]:
        """Open what runs the code of custom operators; None: nothing does."""
        if self._supplier is None or all(operator.has_meaning for operator in self.graph.operators):
            return nullcontext()
        return self._supplier(self.graph)

    @property
    def format(self) -> str:
        """Name of the format: ``tflite``, ``onnx``, ``torch``."""
        return self.frontend.name

    @cached_property
    def graph(self) -> Graph:
        """The graph as it was read; with kernels of another generator only where no operator of ours fits.

        Raises:
            MlfError: the file can't be read with these options.
        """
        own = dataclasses.replace(self.options, kernels=Kernels.OWN.value)
        try:
            return self.frontend.graph(self.path, "", own)
        except ArchiveError:
            if self.options.kernels == Kernels.OWN.value or self.format == "tflite":
                raise
            return self.frontend.graph(self.path, "", self.options)

    @cached_property
    def device(self) -> Graph:
        """The graph with the inputs and outputs that the device has."""
        if self.options.io != Io.INT8.value:
            return self.graph
        from mlf_sdk.compiler.passes.edges import strip_conversions

        return strip_conversions(self.graph)

    @property
    def is_quantised(self) -> bool:
        """True where the model computes with integers that stand for reals."""
        return any(value.quantisation is not None for value in self.graph.computed())

    @cached_property
    def quantises_sums(self) -> bool:
        """True where real numbers that depend on the order of sums are quantised.

        Two that are right to the last bit but one may then differ by a whole step.
        """
        graph, sums = self.graph, set[int]()
        for operator in graph.operators:
            real = [graph.values[number] for number in operator.inputs]
            real = [value for value in real if value.dtype.kind == "f" and value.data is None]
            without = isinstance(operator, _WITHOUT_SUMS)
            if not real or (without and not any(value.id in sums for value in real)):
                continue
            if isinstance(operator, Map) and operator.expression.function == "quantise":
                return True
            for value in (graph.values[number] for number in operator.outputs):
                if isinstance(operator, Convert) and value.quantisation is not None:
                    return True
                if value.dtype.kind == "f":
                    sums.add(value.id)
        return False

    def inputs_for_file(self, arrays: Sequence[Array]) -> list[Array]:
        """Inputs of the device as the file's own: stored integers become the reals that they stand for."""
        graph, device = self.graph, self.device
        pairs = zip(graph.inputs, device.inputs, arrays, strict=True)
        return [_real(array, device.values[d], graph.values[own]) for own, d, array in pairs]

    def outputs_for_device(self, arrays: Sequence[Array | None]) -> list[Array | None]:
        """Outputs of the file in the type and shape of the device's; None stays None."""
        graph, device = self.graph, self.device
        labels = graph.labels or ((),) * len(graph.outputs)
        pairs = zip(graph.outputs, device.outputs, labels, arrays, strict=True)
        return [
            None if array is None else _stored(_numbered(array, known), graph.values[own], device.values[d])
            for own, d, known, array in pairs
        ]


def _real(array: Array, device: Value, own: Value) -> Array:
    if own.dtype.kind != "f" or device.dtype.kind == "f" or device.quantisation is None:
        return array
    q = device.quantisation
    return ((array.astype(np.float64) - q.zero_point[0]) * q.scale[0]).astype(own.dtype)


def _numbered(array: Array, labels: tuple[str, ...]) -> Array:
    """Numbers of strings; one that is not known has -1, which no output has."""
    if array.dtype.kind != "U":
        return array
    number = {label: place for place, label in reversed([*enumerate(labels)])}
    return np.array([number.get(one, -1) for one in array.reshape(-1).tolist()], np.int64).reshape(
        array.shape
    )


def _stored(array: Array, own: Value, device: Value) -> Array:
    if own.dtype.kind == "f" and device.dtype.kind != "f" and device.quantisation is not None:
        q, limits = device.quantisation, np.iinfo(device.dtype)
        steps = np.rint(array.astype(np.float64) / q.scale[0]) + q.zero_point[0]
        array = np.clip(steps, limits.min, limits.max).astype(device.dtype)
    return array.reshape(device.shape) if array.size == device.elements else array


class WitnessUnableError(MlfError):
    """A witness can't run a model; the text says why."""


class WitnessSession(Protocol):
    """A model on a witness; what it keeps from one inference to the next it keeps as the device does."""

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Steps of the model that it does not compute, for people; empty: it computes all."""

    def infer(self, inputs: Sequence[Array]) -> list[Array | None]:
        """Outputs of the next inference, in the order and types of the file; None: not known.

        Args:
            inputs: in the order, types and shapes of the file's.

        Raises:
            WitnessUnableError: it failed, or was late.
        """


class Witness(ABC):
    """Something that computes what a model file means, and shares no kernel with the compiler.

    Attributes:
        name: for options: ``tflm``.
        formats: names of the formats that it reads.
        rtol: least tolerance for floats, relative to the largest magnitude of an output.
    """

    name: ClassVar[str]
    formats: ClassVar[frozenset[str]]
    rtol: ClassVar[float] = 0.0

    @abstractmethod
    def title(self) -> str | None:
        """Name with its version, for people: ``TFLM 2026-10``; None: it is not installed."""

    @abstractmethod
    def open(self, model: ModelFile, timeout_s: float) -> AbstractContextManager[WitnessSession]:
        """Open a model at its first inference.

        Args:
            timeout_s: seconds for loading it, and for each inference.

        Raises:
            WitnessUnableError: it can't run this model.
        """

    def tolerance(self, model: ModelFile, stated: Tolerance, *, integers: bool) -> Tolerance:
        """Permitted difference of an output from this witness.

        Args:
            stated: by the user.
            integers: the output's elements are integers.
        """
        if not self.rounds_otherwise(model):
            return Tolerance(rtol=max(stated.rtol, self.rtol), atol=stated.atol)
        if integers:
            return Tolerance(rtol=stated.rtol, atol=max(stated.atol, _INTEGER_STEPS))
        return Tolerance(rtol=max(stated.rtol, _QUANTISED), atol=stated.atol)

    def rounds_otherwise(self, model: ModelFile) -> bool:
        """Return whether results of it may be rounded to other integers, and are compared with a share."""
        return model.quantises_sums

    def remark(self, model: ModelFile) -> str:
        """Addition to its title in the evidence line; empty: nothing."""
        return f"within {_QUANTISED:.0%}" if self.rounds_otherwise(model) else ""
