# SPDX-License-Identifier: Apache-2.0
"""Facts about the layers of a model's file: attributes, quantisation, weights, values of one inference."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.layer import macs_of
from mlf_sdk.compiler.operators import Operator, Window
from mlf_sdk.judge.witnesses.reference import ReferenceSession
from mlf_sdk.judge.witnesses.witness import ModelFile
from mlf_sdk.tools.arrays import Array

BINS: Final = 32
"""Bars of a histogram."""
_LARGEST: Final = 50_000_000  # multiplications in one inference, above which the reference is not asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Numbers of elements in ``BINS`` ranges of one width, from ``low`` to ``high``, in real values.

    Attributes:
        zeros: share of the elements that stand for zero, 0 to 1.
        ends: share of the elements at the least and greatest stored value of an integer type, 0 to 1.
    """

    low: float
    high: float
    counts: tuple[int, ...]
    zeros: float
    ends: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTensor:
    """A tensor that a layer reads or writes.

    Attributes:
        role: ``constant``: its histogram is of its own data; else of one inference, by the reference.
        scales: number of scales; 0: it is not quantised.
        scale, zero_point: least and greatest.
        histogram: None: nothing is known of its values, or it is empty.
    """

    role: Literal["input", "constant", "output"]
    name: str
    dtype: str
    shape: tuple[int, ...]
    scales: int
    scale: tuple[float, float]
    zero_point: tuple[int, int]
    histogram: Histogram | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFacts:
    """An operator of the model's file, before any pass of the compiler.

    Attributes:
        number: position in the file.
        attributes: names and values.
        macs: multiplications with weights in one inference, padding included.
        covered: the reference computes it, and its result reaches an output.
    """

    number: int
    kind: str
    attributes: tuple[tuple[str, str], ...]
    tensors: tuple[LayerTensor, ...]
    macs: int
    covered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """Layers of a model's file.

    Attributes:
        no_activations: reason why no activations are known; empty: they are.
    """

    layers: tuple[LayerFacts, ...]
    no_activations: str = ""

    @property
    def macs(self) -> int:
        """Multiplications with weights in one inference, padding included."""
        return sum(layer.macs for layer in self.layers)

    def of(self, number: int) -> LayerFacts | None:
        """The layer with this position; None: there is none."""
        return next((layer for layer in self.layers if layer.number == number), None)


def file_facts(file: ModelFile, inputs: Sequence[Array]) -> FileFacts:
    """Facts about each layer of a file.

    Args:
        file: as it was read.
        inputs: of one inference of the device, on which the reference shows the activations.

    Raises:
        MlfError: the file can't be read.
    """
    graph = file.graph
    work = {o.number: macs_of(graph, o) for o in graph.operators}
    values: Mapping[int, Array] = {}
    why, uncovered = "", frozenset[str]()
    if sum(work.values()) > _LARGEST:
        why = f"the reference is not asked about models of more than {_LARGEST:,} multiplications"
    else:
        with file.supply() as supply:
            session = ReferenceSession(graph, supply)
            session.infer(file.inputs_for_file(inputs))
            values, uncovered = session.values, frozenset(session.uncovered)
    return FileFacts(
        layers=tuple(
            LayerFacts(
                number=o.number,
                kind=o.kind,
                attributes=tuple(_attributes(o)),
                tensors=tuple(_tensors(graph, o, values)),
                macs=work[o.number],
                covered=not why and f"{o.number} {o.kind}" not in uncovered,
            )
            for o in graph.operators
        ),
        no_activations=why,
    )


_SHARED: Final = {field.name for field in dataclasses.fields(Operator)}


def _attributes(operator: Operator) -> Iterable[tuple[str, str]]:
    """Names and values of an operator's own fields; arrays are left to its tensors."""
    for field in dataclasses.fields(operator):
        value = getattr(operator, field.name)
        if field.name in _SHARED or isinstance(value, np.ndarray):
            continue
        if isinstance(value, Window):
            yield "window", " × ".join(map(str, value.size))
            yield "stride", " × ".join(map(str, value.stride))
            if value.dilation != (1, 1):
                yield "dilation", " × ".join(map(str, value.dilation))
            yield "padding above and left", ", ".join(map(str, value.before))
        elif field.name == "clamp":
            yield "clamp, stored values", " to ".join(map(_text, value))
        else:
            yield field.name.replace("_", " "), _text(value)


def _text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, tuple) and value and all(isinstance(one, int | float) for one in value):
        return ", ".join(map(_text, value))
    if isinstance(value, float):
        return f"{value:g}"
    text = str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _tensors(graph: Graph, operator: Operator, values: Mapping[int, Array]) -> Iterable[LayerTensor]:
    for value in graph.read(operator):
        yield _tensor("input" if value.data is None else "constant", value, values)
    for value in graph.written(operator):
        yield _tensor("output", value, values)


def _tensor(
    role: Literal["input", "constant", "output"], value: Value, values: Mapping[int, Array]
) -> LayerTensor:
    q = value.quantisation
    data = value.data if value.data is not None else values.get(value.id)
    return LayerTensor(
        role=role,
        name=value.name,
        dtype=value.dtype.name,
        shape=value.shape,
        scales=len(q.scale) if q else 0,
        scale=(min(q.scale), max(q.scale)) if q else (0.0, 0.0),
        zero_point=(min(q.zero_point), max(q.zero_point)) if q else (0, 0),
        histogram=None if data is None else histogram(data, value),
    )


def histogram(data: Array, value: Value) -> Histogram | None:
    """Distribution of a tensor's elements in real values; None for one without finite numbers."""
    if data.dtype.kind not in "iufb" or not data.size:
        return None
    real = _real(data, value)
    finite = real[np.isfinite(real)]
    if not finite.size:
        return None
    low, high = float(finite.min()), float(finite.max())
    counts, _ = np.histogram(finite, BINS, (low, high) if high > low else (low - 0.5, low + 0.5))
    ends = 0.0
    if data.dtype.kind in "iu" and value.quantisation is not None:
        limits: Any = np.iinfo(data.dtype)
        ends = float(np.mean((data == limits.min) | (data == limits.max)))
    return Histogram(
        low=low, high=high, counts=tuple(map(int, counts)), zeros=float(np.mean(real == 0)), ends=ends
    )


def _real(data: Array, value: Value) -> Array:
    q = value.quantisation
    if q is None or data.dtype.kind == "f":
        return data.astype(np.float64)
    shape = [1] * data.ndim
    if q.axis is not None and len(q.scale) > 1 and q.axis < data.ndim:
        shape[q.axis] = len(q.scale)
    scale, zero = np.array(q.scale), np.array(q.zero_point)
    if scale.size > 1 and shape.count(1) == len(shape):
        return data.astype(np.float64)
    zero = zero.reshape(shape if zero.size > 1 else [1] * data.ndim)
    real: Array = (data.astype(np.float64) - zero) * scale.reshape(
        shape if scale.size > 1 else [1] * data.ndim
    )
    return real
