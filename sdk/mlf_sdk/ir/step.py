# SPDX-License-Identifier: Apache-2.0
"""Steps of a model: calls at run time, and the facts about them that memory planning needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from mlf_sdk.ir.abi import PACKED, Abi, Convention


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Phases of a step, first and last inclusive, in which something is accessed."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Scratch memory of one step.

    Attributes:
        slot: number by which `Abi.arguments` passes it; of one that the runtime hands out, its depth of
            nesting.
    """

    slot: int
    size_bytes: int
    span: Span


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """Permission to place an output over an input of the same step.

    Attributes:
        input, output: positions in ``Step.inputs`` and ``Step.outputs``.
        distance_bytes: the output may start this far, or further, before the start of the input.
    """

    input: int
    output: int
    distance_bytes: int


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """Input whose rows a step takes one after the other out of a ring in its one workspace.

    The first word of the workspace is the number of rows that came, the second one that of the first row
    which the ring still holds. A call runs as far as the rows allow, and the next one goes on from there.

    Attributes:
        input: position among the inputs of the model, of a kernel among those of its operator.
        rows, row_bytes: of the whole input.
        ring_rows: rows that the ring holds.
        ring_offset_bytes: place of the ring in the workspace.
        counter_bytes: of the workspace from its start on, which are 0 before the first row.
    """

    input: int
    rows: int
    row_bytes: int
    ring_rows: int
    ring_offset_bytes: int
    counter_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Operator of the source model that a step computes.

    Attributes:
        number: position of the operator in the source model.
        operator: as its format names it, e.g. ``CONV_2D``.
        detail: such as a window: ``3x3, stride 2``; empty: none.
        kernel: family of the kernel that computes it.
        macs: multiplications with weights.
        counted: kernels that were measured and the cost of a call, the chosen one first; empty: none was.
        origin: generator of the kernel's code where it is not the compiler that made the archive.
        inside: layers of a region that runs by rows, in their order; empty: it is one layer.
        tile: results for which one load of an input serves, and one of a weight.
    """

    number: int
    operator: str
    detail: str
    kernel: str
    macs: int
    counted: tuple[tuple[str, int], ...] = ()
    origin: str = ""
    inside: tuple[Layer, ...] = ()
    tile: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call at run time.

    Attributes:
        name: function name in the archive.
        symbol: C symbol that is called.
        abi: what is passed to it.
        inputs, outputs: tensor ids in argument order.
        writes: positions in ``inputs`` that the step writes to as well.
        overlaps: outputs that may lie over an input.
        phases: top-level statements of the kernel, 1 when not known.
        spans: one an argument (inputs, then outputs).
        workspaces: those that ``abi`` passes, and those that the runtime hands out by depth of nesting.
        workspace_stack_bytes: highest byte of a last-in-first-out workspace that the runtime hands out
            in place of slots; 0 for none.
        kernels: functions that the step calls and that the image must hold.
        exact: false when workspaces are a bound, not a replay.
        escaping_args: positions in ``arguments`` whose address may outlive the call: they are alive in all of
            the run.
        persistent_globals: variables that outlive the call, and unknown code, that the step depends on: no
            other step changes places with it.
        opaque_reason: reason why nothing is known about its phases; empty when its code was looked into.
        layer: operator of the source model that it computes; None when the file does not state it.
        stream: input of the model that comes row by row, of the first step alone; None: there is none.
    """

    index: int
    name: str
    symbol: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    abi: Abi = PACKED
    writes: tuple[int, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    phases: int = 1
    spans: tuple[Span, ...] = ()
    workspaces: tuple[Workspace, ...] = ()
    workspace_stack_bytes: int = 0
    kernels: tuple[str, ...] = ()
    exact: bool = True
    escaping_args: tuple[int, ...] = ()
    persistent_globals: tuple[str, ...] = ()
    opaque_reason: str = "its format says nothing about its code"
    layer: Layer | None = None
    stream: Stream | None = None

    @property
    def arguments(self) -> tuple[int, ...]:
        """Tensor ids of all arguments: inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def is_packed(self) -> bool:
        """True when it is called by TVM's packed convention."""
        return self.abi.convention is Convention.PACKED

    @property
    def takes_tensors(self) -> bool:
        """True when its arguments are passed as ``DLTensor *``."""
        return self.abi.convention in (Convention.PACKED, Convention.FFI)

    @property
    def is_direct(self) -> bool:
        """True when the runtime can call it without an adapter: a packed kernel that takes slots at most."""
        return self.is_packed and not self.workspace_stack_bytes

    @property
    def allocated(self) -> tuple[Workspace, ...]:
        """Workspaces that the runtime hands out, by slot."""
        passed = self.abi.slots
        return tuple(sorted((w for w in self.workspaces if w.slot not in passed), key=lambda w: w.slot))

    @property
    def stack_slot(self) -> int:
        """Number of the last-in-first-out workspace among the step's workspaces."""
        return 1 + max((w.slot for w in self.workspaces), default=-1)

    @property
    def workspace_bytes(self) -> int:
        """Bytes of all workspaces."""
        return sum(w.size_bytes for w in self.workspaces) + self.workspace_stack_bytes


WINDOW: Final = "window"
"""Name under which the options of a compilation state the shape of the whole input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Shapes of such an input.

    Attributes:
        window: of all that an output is made of.
        frame: of what an inference takes.
        axis: on which they differ, that of time.
    """

    window: tuple[int, ...]
    frame: tuple[int, ...]
    axis: int

    @property
    def rows(self) -> int:
        """Moments of a frame."""
        return self.frame[self.axis]

    @property
    def count(self) -> int:
        """Frames from the first one until the outputs are those of a whole window."""
        return math.ceil(self.window[self.axis] / self.rows)


def window_text(window: tuple[int, ...]) -> str:
    """Shape as the options state it: ``1,30,1,40``."""
    return ",".join(map(str, window))


def frames_of(options: Mapping[str, str], shape: tuple[int, ...]) -> Frames | None:
    """Frames of an input of some shape; None where the options of a compilation state no window of it."""
    parts = options.get(WINDOW, "").split(",")
    if not all(part.isdecimal() for part in parts):
        return None
    window = tuple(map(int, parts))
    if len(window) != len(shape):
        return None
    different = [axis for axis, (a, b) in enumerate(zip(window, shape, strict=True)) if a != b]
    if len(different) != 1 or not 0 < shape[different[0]] < window[different[0]]:
        return None
    return Frames(window=window, frame=tuple(shape), axis=different[0])
