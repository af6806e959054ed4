# SPDX-License-Identifier: Apache-2.0
"""The figures of a report: what the page, the terminal and ``--json`` show. Sizes are in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlf_sdk.ir.finding import Finding
from mlf_sdk.judge.check import ProofRow, SizedItem
from mlf_sdk.judge.heap import Allocator
from mlf_sdk.judge.memorymap import CodeItem, MemoryMap
from mlf_sdk.judge.profile import Profile
from mlf_sdk.judge.stack import StackBound

RectKind = Literal["input", "output", "tensor", "workspace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A labelled fact for people."""

    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One thing that was checked; ``ok`` is None where it could not be."""

    what: str
    text: str
    ok: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaRect:
    """A buffer of the arena: in use from time ``first`` to ``last``, both included.

    Attributes:
        label: its name without what the names of all steps share.
        steps: positions of the first and last step that use it; None where it is only the caller's.
    """

    kind: RectKind
    name: str
    label: str
    offset: int
    size_bytes: int
    first: int
    last: int
    steps: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """The plan of the arena; time 0: the inputs are written, ``end``: the outputs are read.

    Attributes:
        live: (time, bytes) of all buffers in use, wherever that changes.
        peak: the time at which most is in use.
        measured_bytes: high-water mark on the target; None without one.
    """

    size_bytes: int
    lower_bound_bytes: int
    measured_bytes: int | None
    exact: bool
    rects: tuple[ArenaRect, ...]
    live: tuple[tuple[int, int], ...]
    peak: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step in execution order.

    Attributes:
        label: its name without what all names share.
        first: time of its first phase.
        makes: what it writes, for people: types and shapes.
    """

    index: int
    name: str
    label: str
    first: int
    phases: int
    workspace_bytes: int
    exact: bool
    makes: str
    output_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A box of the graph: a step, or an input or output of the model (``step`` is None)."""

    label: str
    name: str
    detail: str
    step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A tensor from one node to another, by their numbers."""

    source: int
    target: int
    tensor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Which step takes what from which; constants are left out."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRow:
    """A section of the image: where it runs, where it is loaded."""

    name: str
    address: int
    load_address: int
    size_bytes: int
    in_file: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """What was run: ``instructions`` and ``milliseconds`` are of one inference, None where not counted."""

    count: int
    instructions: int | None
    milliseconds: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All figures of a report.

    Attributes:
        ok: whether everything that was checked is as promised.
        facts: what the model is and where it ran.
        stack: the static bound; None where the image is not for a Cortex-M.
        allocators: functions of a heap that are linked; None where that was not looked at.
        inference: None when nothing was run.
        not_run, no_profile: why; empty when it was.
        findings: None when no archive was examined.
    """

    model: str
    board: str
    board_title: str
    ok: bool
    facts: tuple[Fact, ...]
    verdicts: tuple[Verdict, ...]
    proof: tuple[ProofRow, ...]
    memories: tuple[MemoryMap, ...]
    stack: StackBound | None
    allocators: tuple[Allocator, ...] | None
    arena: Arena
    steps: tuple[Step, ...]
    flow: Flow
    profile: Profile | None
    no_profile: str
    inference: Inference | None
    not_run: str
    code: tuple[CodeItem, ...]
    groups: tuple[SizedItem, ...]
    sections: tuple[SectionRow, ...]
    provenance: tuple[Fact, ...]
    findings: tuple[Finding, ...] | None
