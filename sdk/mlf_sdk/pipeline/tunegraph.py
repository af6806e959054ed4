# SPDX-License-Identifier: Apache-2.0
"""A model whose steps are the kernels that could compute each of some layers, for measuring them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlf_sdk.compiler.build import with_kernels
from mlf_sdk.compiler.graph import INT8, UINT8, Graph, Value
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments
from mlf_sdk.compiler.operators import Array, Operator
from mlf_sdk.compiler.reference import evaluate
from mlf_sdk.compiler.schedule import Counted, TuningTask
from mlf_sdk.frontends.mlf.compiled import archive_of
from mlf_sdk.frontends.mlf.writer import tar_of

_SEED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compare(Operator):
    """Comparison: 1 where the bytes of two values are equal, else 0.

    The first is spoilt if it is not the second: what a kernel leaves as it was is not right by accident.
    """


class Trial:
    """Kernels of layers as the steps of a model, and behind each a comparison of what it wrote.

    What a layer reads is constant: repeatable numbers over the whole range of its type. What its kernels
    must write is the reference's answer; of floats, whose sums depend on their order, what the first kernel
    writes.
    The kernels' steps have 0, 1, ... as their layers' numbers, in the order of the tasks and of their
    kernels. The model has one output for each value that a kernel writes: 1 where it is right.

    Args:
        graph: that of the layers.
        tasks: layers and their kernels.
    """

    def __init__(self, graph: Graph, tasks: Sequence[TuningTask]) -> None:
        self._values = [Value(id=0, name="go", dtype=INT8, shape=(1,))]
        self._operators: list[Operator] = []
        self._kernels: list[Kernel] = []
        self._flags: list[int] = []
        self._owners: list[int] = []  # of each flag, the number of its step
        self._random = np.random.default_rng(_SEED)
        self._steps = sum(len(kernels) for _, kernels in tasks)
        self._compare(0, 0)  # the input of the model has to be read
        at = 0
        for operator, kernels in tasks:
            at = self._add_layer(graph, operator, kernels, at)
        self._graph = Graph(
            name="kernels",
            values=tuple(self._values),
            operators=tuple(self._operators),
            inputs=(0,),
            outputs=tuple(self._flags),
        )

    def _add_layer(self, graph: Graph, operator: Operator, kernels: Sequence[Kernel], at: int) -> int:
        """Add the kernels of a layer from the step ``at`` on; returns the number of the next step."""
        read = {}
        for number in dict.fromkeys(operator.inputs):
            value = graph.values[number]
            data = self._numbers(value) if value.data is None else value.data
            read[number] = self._add(value, data)
        reads = tuple(read[i] for i in operator.inputs)
        writes = graph.written(operator)
        wanted: list[int] = []
        if not any(v.dtype.kind == "f" for v in writes):
            result = evaluate(graph, operator, [self._values[i].constant for i in reads], [])
            wanted = [
                self._add(v, a.astype(v.dtype).reshape(v.shape)) for v, a in zip(writes, result, strict=True)
            ]
        for kernel in kernels:
            written = [self._add(v) for v in writes]
            made = dataclasses.replace(operator, number=at, inputs=reads, outputs=tuple(written))
            self._operators.append(made)
            self._kernels.append(kernel)
            wanted = wanted or written
            for one, other in zip(written, wanted, strict=True):
                self._compare(one, other, at)
            at += 1
        return at

    def _add(self, value: Value, data: Array | None = None) -> int:
        number = len(self._values)
        self._values.append(dataclasses.replace(value, id=number, name=f"v{number}", data=data))
        return number

    def _compare(self, one: int, other: int, owner: int = -1) -> None:
        """Add a comparison of two values; ``owner``: the step that one of them is of."""
        flag = self._add(Value(id=0, name="", dtype=UINT8, shape=(1,)))
        operator = _Compare(
            number=self._steps + len(self._flags), kind="COMPARE", inputs=(one, other), outputs=(flag,)
        )
        graph = Graph(name="", values=tuple(self._values), operators=(), inputs=(), outputs=())
        self._operators.append(operator)
        self._flags.append(flag)
        self._owners.append(owner)
        self._kernels.append(
            Kernel(
                family="equal",
                parameters=arguments(graph, operator),
                body=f"""    uint8_t *found = (uint8_t *)(uintptr_t)x0;
    const uint8_t *wanted = (const uint8_t *)x1;
    y0[0] = memcmp(x0, x1, {self._values[one].size_bytes}) == 0;
    for (int32_t i = 0; found != wanted && i < {self._values[one].size_bytes}; ++i) {{
        found[i] = (uint8_t)~wanted[i];
    }}
""",
            )
        )

    def _numbers(self, value: Value) -> Array:
        if value.dtype.kind in "iu":
            limits = np.iinfo(value.dtype)
            return self._random.integers(limits.min, limits.max, value.shape, value.dtype, endpoint=True)
        if value.dtype.kind == "b":
            return self._random.integers(0, 2, value.shape).astype(value.dtype)
        return self._random.normal(size=value.shape).astype(value.dtype)

    def archive(self) -> bytes:
        """The model as an archive."""
        chosen = [(Counted(kernel=kernel),) for kernel in self._kernels]
        return tar_of(archive_of(with_kernels(self._graph, chosen)))

    def right(self, outputs: Sequence[Array]) -> list[bool]:
        """Return for each step whether all that it wrote is right, from the outputs of the model."""
        result = [True] * self._steps
        for owner, output in zip(self._owners, outputs, strict=True):
            if owner >= 0:
                result[owner] = result[owner] and bool(np.all(output))
        return result
