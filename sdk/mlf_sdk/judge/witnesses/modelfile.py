# SPDX-License-Identifier: Apache-2.0
"""The file that a model was compiled from, as witnesses read it: before any pass, with its own edges."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Operator
from mlf_sdk.compiler.options import CompileOptions, Io, Kernels
from mlf_sdk.errors import ArchiveError
from mlf_sdk.frontends.compiled import CompilingFrontend
from mlf_sdk.tools.arrays import Array

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
