# SPDX-License-Identifier: Apache-2.0
"""A random ONNX network that grows node by node, each node computed at once by ONNX Runtime.

Every tensor has the values of one run, and a second time those of a run whose inputs and results are slightly
off: a node that would make much of such differences, or whose numbers overflow, is not taken. So the results of a
network are well defined within the tolerance of a comparison.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]
Shape = tuple[int, ...]
OPSETS = (7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24)
NOISE, SPREAD = 1e-6, 1.2e-5  # relative to the largest magnitude: what is put in, what may come out
MAX_ELEMENTS, MAX_MAGNITUDE = 1500, 3e3
MICROSOFT, CLASSICAL = "com.microsoft", "ai.onnx.ml"
# Operators whose results have no rounding of their own.
EXACT = frozenset(
    [
        "Abs",
        "And",
        "ArgMax",
        "ArgMin",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "Cast",
        "CastLike",
        "Ceil",
        "Clip",
        "Concat",
        "DepthToSpace",
        "DequantizeLinear",
        "Dropout",
        "Equal",
        "Expand",
        "Flatten",
        "Floor",
        "Gather",
        "GlobalMaxPool",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "IsNaN",
        "Less",
        "LessOrEqual",
        "Max",
        "MaxPool",
        "Min",
        "Neg",
        "Not",
        "Or",
        "Pad",
        "QuantizeLinear",
        "ReduceMax",
        "ReduceMin",
        "Relu",
        "Reshape",
        "Round",
        "Sign",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
        "Where",
        "Xor",
    ]
)


class Unfit(Exception):
    """A node that can't be part of this network: another one is drawn."""


@dataclass(eq=False, kw_only=True)
class Value:
    """A tensor of the network.

    Attributes:
        data: in the run that is compared.
        near: in a run that is slightly off.
        constant: stored in the model.
        scale, zero: of one that holds quantised numbers.
        origin: of a dequantised one: those numbers.
    """

    name: str
    data: Array = field(repr=False)
    near: Array = field(repr=False)
    constant: bool = False
    scale: Array | None = None
    zero: Array | None = None
    origin: Value | None = None

    @property
    def shape(self) -> Shape:
        return tuple(self.data.shape)

    @property
    def rank(self) -> int:
        return self.data.ndim

    @property
    def is_real(self) -> bool:
        return self.data.dtype == np.float32

    @property
    def is_exact(self) -> bool:
        return self.data is self.near or bool((self.data == self.near).all())


@dataclass(frozen=True, kw_only=True)
class Point:
    """Quantised numbers that nodes behind read as they are: the name of them and of the real ones in front."""

    name: str
    source: str
    scale: float
    zero: int
    dtype: np.dtype[Any]
    shape: Shape


class Network:
    """Nodes, constants and inputs so far; ``pool`` holds what further nodes may read.

    Attributes:
        style: ``float``, ``qdq`` or ``qoperator``.
        classical: version of ai.onnx.ml.
        meaning: the nodes, with those that quantised operators stand for in their places.
        points: quantised results, for comparisons that start anew at each of them.
    """

    def __init__(self, seed: int, style: str = "", opset: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.style = style or self.choice(("float", "float", "qdq", "qoperator"))
        least = {"float": 7, "qdq": 10, "qoperator": 10}[self.style]
        self.opset = opset or self.choice([v for v in OPSETS if v >= least])
        self.classical = 5 if seed % 4 == 3 else 3  # version of ai.onnx.ml
        self.branching = self.chance(0.5)
        self.nodes: list[Any] = []
        self.meaning: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.inputs: list[Value] = []
        self.pool: list[Value] = []
        self.read: set[str] = set()
        self.points: list[Point] = []
        self.drawn: list[tuple[str, tuple[str, ...]]] = []
        self.count = 0

    # Choices

    def choice(self, options: Sequence[Any]) -> Any:
        return options[int(self.random.integers(0, len(options)))]

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def integer(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both possible."""
        return int(self.random.integers(low, high + 1))

    def divisor(self, number: int) -> int:
        return int(self.choice([d for d in range(1, number + 1) if number % d == 0]))

    # Values

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem.lower()}{self.count}"

    def input(self, data: Array) -> Value:
        """A further input; real numbers off the multiples of 1/8 are slightly off in the other run."""
        if len(self.inputs) >= 5:
            raise Unfit("too many inputs")
        data = np.asarray(data)
        off = data.dtype == np.float32 and bool(np.isfinite(data).all()) and bool((data * 8 % 1).any())
        value = Value(name=self.name("x"), data=data, near=self._off(data) if off else data)
        self.inputs.append(value)
        self.pool.append(value)
        return value

    def fresh(self, shape: Shape, dtype: str = "float32") -> Value:
        """An input of random numbers."""
        if dtype == "float32":
            return self.input(self.random.uniform(-3, 3, shape).astype(np.float32))
        if dtype == "bool":
            return self.input(self.random.integers(0, 2, shape).astype(bool))
        whole = np.dtype(dtype)
        low, high = (np.iinfo(whole).min, np.iinfo(whole).max + 1) if whole.itemsize == 1 else (-9, 10)
        return self.input(self.random.integers(max(low, np.iinfo(whole).min), high, shape).astype(whole))

    def shape(self, rank: int) -> Shape:
        """A shape for ``rank`` axes: of a picture where there are three or four."""
        if rank >= 3:
            batch = 2 if self.chance(0.12) else 1
            channels = self.choice((1, 2, 3, 4, 5, 6, 8, 8, 12, 16, 17))
            most = 9 if rank < 5 else 4
            return (batch, channels, *(self.integer(3, most) for _ in range(rank - 2)))
        return tuple(
            self.integer(1, 12) if rank == 2 and a == 0 else self.integer(2, 24) for a in range(rank)
        )

    def constant(self, data: Any) -> Value:
        array = np.asarray(data)
        value = Value(name=self.name("c"), data=array, near=array, constant=True)
        self.constants[value.name] = array
        return value

    def normal(self, *shape: int, scale: float = 0.4) -> Value:
        """Constant real numbers."""
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def _off(self, data: Array) -> Array:
        largest = float(np.abs(data).max(initial=0))
        return (data + self.random.uniform(-NOISE, NOISE, data.shape) * largest).astype(np.float32)

    # Nodes

    def node(
        self, kind: str, *inputs: Value | None, outputs: int = 1, domain: str = "", wanted: Sequence[int] = (),
        meaning: Sequence[Any] | None = None, captured: Sequence[Value] = (), **attributes: Any,
    ) -> Any:  # fmt: skip
        """Add a node; its value, or all of them where there are more.

        Args:
            outputs: how many it has.
            wanted: positions of those that are named; by default all.
            meaning: nodes that compute the same; by default it.
            captured: what its graphs read besides, no constants.

        Raises:
            Unfit: ONNX Runtime doesn't run it, or its numbers are not fit for comparisons.
        """
        if not domain:
            try:
                onnx.defs.get_schema(kind, self.opset, "")
            except onnx.defs.SchemaError as error:
                raise Unfit(f"{kind} in version {self.opset}") from error
        taken = wanted or range(outputs)
        names = [self.name(kind) if i in taken else "" for i in range(outputs)]
        given = [v.name if v is not None else "" for v in inputs]
        made = helper.make_node(kind, given, names, name=self.name(f"/{kind}"), domain=domain, **attributes)
        given += [v.name for v in captured]
        reads = [v for v in (*inputs, *captured) if v is not None]
        found = self.computed([made], reads, [n for n in names if n])
        values = []
        for name, (data, near) in zip(filter(None, names), found, strict=True):
            if kind not in EXACT and data.dtype == np.float32:
                near = self._off(near)
            self._check(kind, data, near)
            values.append(Value(name=name, data=data, near=near))
        self.nodes.append(made)
        self.meaning += [made] if meaning is None else meaning
        self.read.update(filter(None, given))
        self.drawn.append((f"{domain}.{kind}" if domain else kind, tuple(sorted(attributes))))
        return values[0] if len(values) == 1 else values

    def computed(self, nodes: list[Any], inputs: list[Value], names: list[str]) -> list[tuple[Array, Array]]:
        """Results of nodes in both runs."""
        unique = {v.name: v for v in inputs}
        given = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.data.dtype), v.shape)
            for n, v in unique.items()
            if not v.constant
        ]
        held = [numpy_helper.from_array(v.data, n) for n, v in unique.items() if v.constant]
        made = [helper.make_empty_tensor_value_info(n) for n in names]
        graph = helper.make_graph(nodes, "node", given, made, held)
        try:
            session = session_of(self.wrapped(graph))
            runs = [
                session.run(names, {n: getattr(v, side) for n, v in unique.items() if not v.constant})
                for side in ("data", "near")
            ]
        except Exception as error:
            raise Unfit(str(error)[:300]) from error
        return list(zip(*(map(np.asarray, run) for run in runs), strict=True))

    def _check(self, kind: str, data: Array, near: Array) -> None:
        if not 0 < data.size <= MAX_ELEMENTS or data.ndim > 6:
            raise Unfit(f"{kind}: {data.size} elements")
        if data.dtype != np.float32:
            if data.dtype.kind not in "iub" or not (data == near).all():
                raise Unfit(f"{kind}: its result hangs on the last digit")
            return
        largest = float(np.abs(data).max())
        if not np.isfinite(data).all() or not 1e-3 < largest < MAX_MAGNITUDE:
            raise Unfit(f"{kind}: numbers up to {largest}")
        if data.size > 3 and (data == data.flat[0]).all():
            raise Unfit(f"{kind}: one number throughout")
        if np.abs(data - near).max() > SPREAD * largest:
            raise Unfit(f"{kind}: not well conditioned")

    def wrapped(self, graph: Any) -> Any:
        domains = {"": self.opset, MICROSOFT: 1, CLASSICAL: self.classical}
        opsets = [helper.make_opsetid(*one) for one in domains.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10 if self.opset > 20 else 8)

    # Growth

    def state(self) -> tuple[Any, ...]:
        """All that a draw changes, for `restore`."""
        lists = (self.nodes, self.meaning, self.inputs, self.pool, self.points, self.drawn)
        return tuple(len(one) for one in lists), copy.copy(self.constants), copy.copy(self.read)

    def restore(self, state: tuple[Any, ...]) -> None:
        """Take back what was added since."""
        lengths, self.constants, self.read = state
        lists = (self.nodes, self.meaning, self.inputs, self.pool, self.points, self.drawn)
        for one, length in zip(lists, lengths, strict=True):
            del one[length:]

    def pick(self, fits: Callable[[Value], bool]) -> Value | None:
        """A value of the pool; mostly the latest where the network is no branching one."""
        found = [v for v in self.pool if fits(v)]
        if not found:
            return None
        unread = [v for v in found if v.name not in self.read]
        if not self.branching and self.chance(0.9):
            return found[-1]
        return self.choice(unread) if unread and self.chance(0.7) else self.choice(found)

    # Models

    @property
    def results(self) -> list[Value]:
        """Values that no node reads."""
        return [v for v in self.pool if v.name not in self.read and v not in self.inputs]

    def model(self, *, points: bool = False) -> Any:
        """The model.

        Args:
            points: quantised results are outputs, too, behind the others.
        """
        names = [v.name for v in self.results]
        if points:
            names += [p.name for p in self.points if p.name not in names]
        used = {n for node in self.nodes for n in node.input}
        held = [numpy_helper.from_array(a, n) for n, a in self.constants.items() if n in used]
        return self.wrapped(
            helper.make_graph(
                self.nodes, "model", [_info(v.name, v.data) for v in self.inputs],
                [helper.make_empty_tensor_value_info(n) for n in names], held,
            )
        )  # fmt: skip

    def anew(self) -> Any:
        """The meaning as a model whose quantised results are inputs wherever they are read.

        Outputs are the real numbers in front of each `Point`, and the network's results but points.
        """
        made = {p.name for p in self.points}
        nodes = [n for n in self.meaning if not made.intersection(n.output)]
        names = list(dict.fromkeys([p.source for p in self.points] + self.plain_results))
        used = {n for node in nodes for n in node.input}
        held = [numpy_helper.from_array(a, n) for n, a in self.constants.items() if n in used]
        given = [_info(v.name, v.data) for v in self.inputs]
        given += [
            helper.make_tensor_value_info(p.name, helper.np_dtype_to_tensor_dtype(p.dtype), None)
            for p in self.points
            if p.name in used
        ]
        made_of = {o for node in nodes for o in node.output}
        nodes += [helper.make_node("Identity", [n], [n + ".same"]) for n in names if n not in made_of]
        out = [n if n in made_of else n + ".same" for n in names]
        return self.wrapped(
            helper.make_graph(
                nodes, "anew", given, [helper.make_empty_tensor_value_info(n) for n in out], held
            )
        )

    @property
    def plain_results(self) -> list[str]:
        """Names of the results that are no points."""
        made = {p.name for p in self.points}
        return [v.name for v in self.results if v.name not in made]


def _info(name: str, data: Array) -> Any:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(data.dtype), data.shape)


def session_of(model: Any) -> Any:
    """A session of ONNX Runtime that computes each node as it stands."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
