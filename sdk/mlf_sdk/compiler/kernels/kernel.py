# SPDX-License-Identifier: Apache-2.0
"""A kernel: C text for one operator, its packed constants and what it promises to the planner.

Distances at which its output may lie over an input follow from the order of its loops.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Array, Operator, Window
from mlf_sdk.ir.step import Stream

C_TYPES: Final = {
    "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "float32": "float", "bool": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t",
    "uint64": "uint64_t",
}  # fmt: skip


class Role(enum.Enum):
    """Kind of memory that an argument of a kernel points to."""

    INPUT = "x"
    OUTPUT = "y"
    CONSTANT = "p"
    STATE = "s"
    WORKSPACE = "b"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One pointer parameter: ``x0``, ``y0``, ``p0``...; ``number`` counts within its role."""

    role: Role
    number: int
    type: str

    @property
    def name(self) -> str:
        """Name in the C text."""
        return f"{self.role.value}{self.number}"

    @property
    def declaration(self) -> str:
        """Declaration in the parameter list."""
        const = "const " if self.role in (Role.INPUT, Role.CONSTANT) else ""
        return f"{const}{self.type} *{self.name}"


class Tile(NamedTuple):
    """Results that an inner loop computes at once.

    Attributes:
        channels: for which one load of an input serves.
        pixels: for which one load of a weight serves, those of all rows of the tile.
        text: for people: ``4 pixels x 2 channels``.
    """

    channels: int
    pixels: int
    text: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """Code and constants of one operator.

    Attributes:
        family: short name for symbols and reports, e.g. ``conv_1x1``.
        variant: what tells it apart from others of its family, for reports; empty: the usual one.
        parameters: of the C function; outputs are put behind what it reads, a workspace last.
        body: of the function; complete apart from its name.
        helpers: texts of static functions that the body calls, by name.
        constants: arrays that ``p0``, ``p1``... point to.
        workspace_bytes: of ``b0``.
        overlaps: bytes by the number of an input: every output may start this far, or further, before the
            start of it; inputs that are not listed may not overlap with outputs.
        joins: of a kernel that only puts inputs behind each other: byte offset of each in the output.
        slices: of a kernel that only takes runs out of its input: byte offset of each output in it.
        origin: generator of the code, e.g. ``TVM 0.27.0``; empty: this package.
        tile: what its inner loop computes at once; None: one result.
        stream: number of the operator's input that comes row by row and is no parameter; None: there is none.
        of_row: kernel of one row of output from pointers to all rows of its window; None: there is none.
    """

    family: str
    parameters: tuple[Parameter, ...]
    body: str
    _: KW_ONLY
    helpers: Mapping[str, str] = field(default_factory=dict)
    constants: tuple[Array, ...] = ()
    workspace_bytes: int = 0
    overlaps: Overlaps = field(default_factory=dict)
    joins: tuple[int, ...] = ()
    slices: tuple[int, ...] = ()
    variant: str = ""
    origin: str = ""
    tile: Tile | None = None
    stream: Stream | None = None
    of_row: Kernel | None = None

    @classmethod
    def of(
        cls,
        graph: Graph,
        operator: Operator,
        family: str,
        body: str,
        constants: tuple[Array, ...] = (),
        *,
        reads: int | None = None,
        workspace_bytes: int = 0,
        helpers: Mapping[str, str] | None = None,
        overlaps: Overlaps | None = None,
    ) -> Kernel:
        """Kernel with the parameters of `arguments`; a workspace is of ``int32_t``."""
        workspace = "int32_t" if workspace_bytes else ""
        return cls(
            family,
            arguments(graph, operator, reads=reads, constants=constants, workspace=workspace),
            body,
            helpers=helpers or {},
            constants=constants,
            workspace_bytes=workspace_bytes,
            overlaps=overlaps or {},
        )

    def __post_init__(self) -> None:
        """Put the parameters in the order of an archive's calls: outputs behind all that is read, then scratch."""
        last = (Role.OUTPUT, Role.WORKSPACE)
        ordered = sorted(self.parameters, key=lambda p: last.index(p.role) + 1 if p.role in last else 0)
        object.__setattr__(self, "parameters", tuple(ordered))

    @property
    def constants_bytes(self) -> int:
        """Bytes of all constants."""
        return sum(array.nbytes for array in self.constants)

    @property
    def label(self) -> str:
        """Family and variant, for people."""
        return f"{self.family}, {self.variant}" if self.variant else self.family

    @property
    def content(self) -> tuple[Any, ...]:
        """Code and constants: kernels of an operator with equal ones are the same, whatever they are called."""
        helpers = tuple(sorted(self.helpers.items()))
        return self.body, helpers, self.parameters, tuple(array.tobytes() for array in self.constants)

    @property
    def key(self) -> str:
        """Hash of the code and of its helpers: operators with equal ones share a function."""
        parts = [self.family, *(p.declaration for p in self.parameters), str(bool(self.overlaps)), self.body]
        parts += [text for _, text in sorted(self.helpers.items())]
        text = "\n".join(parts)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def tile_of(channels: int, pixels: int = 1, rows: int = 1) -> Tile:
    """Tile of an inner loop; the text leaves out extents of 1 in front: ``2 rows x 4 pixels x 1 channel``."""
    parts = [(rows, "row"), (pixels, "pixel"), (channels, "channel")]
    shown = [
        part for number, part in enumerate(parts) if number == 2 or any(n > 1 for n, _ in parts[: number + 1])
    ]
    text = " x ".join(f"{n} {name}{'s' if n > 1 else ''}" for n, name in shown)
    return Tile(channels=channels, pixels=pixels * rows, text=text)


def c_type(dtype: np.dtype[Any]) -> str:
    """C type of an element."""
    return C_TYPES[dtype.name]


def arguments(
    graph: Graph,
    operator: Operator,
    *,
    reads: int | None = None,
    constants: tuple[Array, ...] = (),
    workspace: str = "",
) -> tuple[Parameter, ...]:
    """Usual parameters: what the operator computes from, its constants, states, outputs, a workspace.

    Args:
        reads: how many of the operator's inputs are passed; the others are in the constants.
        workspace: C type of the workspace's elements; empty for none.
    """
    inputs = graph.read(operator)[:reads]
    states = [graph.states[number] for number in operator.states]
    parameters = [Parameter(Role.INPUT, i, c_type(x.dtype)) for i, x in enumerate(inputs)]
    parameters += [Parameter(Role.CONSTANT, i, c_type(a.dtype)) for i, a in enumerate(constants)]
    parameters += [Parameter(Role.STATE, i, c_type(s.dtype)) for i, s in enumerate(states)]
    parameters += _outputs(graph, operator)
    if workspace:
        parameters.append(Parameter(Role.WORKSPACE, 0, workspace))
    return tuple(parameters)


def operands(
    graph: Graph, operator: Operator, *, skip: Collection[int] = ()
) -> tuple[tuple[Parameter, ...], tuple[Array, ...]]:
    """Parameters of an operator any of whose inputs may be constant, in their order, and those constants.

    Args:
        skip: positions of inputs that are not passed.
    """
    parameters: list[Parameter] = []
    constants: list[Array] = []
    for position, value in enumerate(graph.read(operator)):
        if position in skip:
            continue
        if value.data is None:
            parameters.append(Parameter(Role.INPUT, position, c_type(value.dtype)))
        else:
            parameters.append(Parameter(Role.CONSTANT, len(constants), c_type(value.dtype)))
            constants.append(np.ascontiguousarray(value.data).reshape(-1))
    return (*parameters, *_outputs(graph, operator)), tuple(constants)


def _outputs(graph: Graph, operator: Operator) -> list[Parameter]:
    return [Parameter(Role.OUTPUT, i, c_type(y.dtype)) for i, y in enumerate(graph.written(operator))]


def loops(letter: str, extents: Iterable[int], indent: str = "    ") -> list[str]:
    """Heads of nested loops; the index of each is the letter and its number."""
    return [
        f"{indent}for (int32_t {letter}{k} = 0; {letter}{k} < {extent}; ++{letter}{k})"
        for k, extent in enumerate(extents)
    ]


def place(letter: str, steps: Iterable[int]) -> str:
    """Expression of a place by the indices of `loops`, whose steps are given."""
    return " + ".join(f"{letter}{k} * {step}" for k, step in enumerate(steps) if step) or "0"


Overlaps = dict[int, int]
"""Bytes by the number of an input: every output may start this far, or further, before the start of it."""


def may_share(x: Value, y: Value) -> bool:
    """True where C lets accesses to both types meet in one memory."""
    return x.dtype == y.dtype or 1 in (x.dtype.itemsize, y.dtype.itemsize)


def of_elements(x: Value, y: Value, number: int = 0) -> Overlaps:
    """Overlaps of a kernel that reads element i of input ``number`` for the last time when it makes element i."""
    if not may_share(x, y):
        return {}
    return {number: max(0, (x.elements - 1) * (y.dtype.itemsize - x.dtype.itemsize))}


def of_operands(operands: Sequence[Value], y: Value) -> Overlaps:
    """Overlaps of an elementwise kernel with those operands that are as large as its output."""
    overlaps: Overlaps = {}
    for number, x in enumerate(operands):
        if x.data is None and x.elements == y.elements:
            overlaps |= of_elements(x, y, number)
    return overlaps


def of_parts(x: Value, y: Value, read_from: Array, written: Array) -> Overlaps:
    """Overlaps of a kernel with one input: at the least distance it reads every byte before it writes over it.

    Args:
        read_from: lowest element of the input that each part of the kernel's work reads, in order of time.
        written: elements of the output that are written before the last read of each part; never falls.
    """
    if not may_share(x, y):
        return {}
    distances = written * y.dtype.itemsize - read_from * x.dtype.itemsize
    return {0: max(0, int(distances.max(initial=0)))}


def of_windows(x: Value, y: Value, window: Window, pixel_written: int) -> Overlaps:
    """Overlaps of a kernel that makes one pixel after the other from windows of NHWC input.

    Args:
        pixel_written: elements of a pixel that are written before the last read for it.
    """
    n, ih, iw, ic = x.shape
    _, oh, ow, oc = y.shape
    rows = window_starts(np.arange(oh), window.stride[0], window.before[0], ih)
    columns = window_starts(np.arange(ow), window.stride[1], window.before[1], iw)
    read_from = (np.arange(n)[:, None, None] * ih + rows[:, None]) * iw + columns
    written = np.arange(n * oh * ow) * oc + pixel_written
    return of_parts(x, y, read_from.reshape(-1) * ic, written)


def window_starts(places: Array, stride: int, before: int, extent: int) -> Array:
    """First row (or column) of the input that the windows of rows (or columns) of the output reach."""
    return np.clip(places.astype(np.int64) * stride - before, 0, extent)
