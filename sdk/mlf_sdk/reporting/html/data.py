# SPDX-License-Identifier: Apache-2.0
"""Figures of a report, shared by the page, the terminal and ``--json``. Sizes are in bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from mlf_sdk.analysis.elf.image import Section
from mlf_sdk.codegen.lock import LockLayer
from mlf_sdk.ir.model import Finding
from mlf_sdk.judge.check import ProofRow
from mlf_sdk.judge.evidence import NOT_COMPARED
from mlf_sdk.judge.groups import SizedItem
from mlf_sdk.judge.layerfacts import FileFacts
from mlf_sdk.judge.memorymap import CodeItem, MemoryMap
from mlf_sdk.judge.profile import Profile
from mlf_sdk.judge.stack import Allocator, StackBound
from mlf_sdk.pipeline.chipfit import ChipFit
from mlf_sdk.pipeline.mlperf.results import MlperfReport
from mlf_sdk.pipeline.sources import KernelSource
from mlf_sdk.planner.uses import MemoryUse

RectKind = Literal["input", "output", "tensor", "workspace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Labelled fact."""

    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Result of one check; ``ok`` is None where it could not be done."""

    what: str
    text: str
    ok: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaRect:
    """Buffer of the arena, in use from time ``first`` to ``last``, both included.

    Attributes:
        label: name without the common prefix of all steps.
        steps: positions of the first and last step that use it; None when only the caller does.
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
    """Plan of the arena; the inputs are written at time 0, the outputs are read at time ``end``.

    Attributes:
        live: (time, bytes) in use by any buffer, at every change.
        peak: time of the largest use.
        measured_bytes: high-water mark on the target; None when not measured.
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
class StepRow:
    """Step in the order of execution.

    Attributes:
        label: name without the common prefix.
        symbol: of its function in the image.
        first: time of its first phase.
        makes: types and shapes of its outputs.
        layer: operator of the source model; None where the archive does not state it.
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
    symbol: str = ""
    layer: LockLayer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNode:
    """Node of the graph: a step, or an input or output of the model (``step`` is None)."""

    label: str
    name: str
    detail: str
    step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEdge:
    """Tensor that one node writes and another reads, by their indices."""

    source: int
    target: int
    tensor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Graph of data flow between steps, without constants."""

    nodes: tuple[FlowNode, ...]
    edges: tuple[FlowEdge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """Run of the model; ``instructions`` and ``milliseconds`` are per inference, None when not measured.

    Attributes:
        resolution: instructions are exact to this many.
        counted: inferences that the instructions are the median of, by a clock the mean.
    """

    count: int
    instructions: int | None
    resolution: int
    counted: int
    milliseconds: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Figures of a report.

    Attributes:
        date: of the report; empty: not stated.
        ok: every check passed.
        facts: about the model and the board.
        stack: static bound; None when nothing reads the machine code.
        allocators: linked functions of an allocator; None when nothing reads the machine code.
        inference: None when nothing was run.
        not_run, no_profile: reasons; empty when there are figures.
        findings: None when no archive was examined.
        mlperf: result of ``bench mlperf``; None: it was not run.
        layers: of the model's file; None where it is not at hand, and ``no_layers`` says why.
        kernels: C source of each step's function, by its symbol.
        uses: of each memory by the model, where it lies in several; empty: it does not, or it is not known.
        chip: that the image is held against; None: its memories are not known, or no chip fits.
    """

    model: str
    date: str
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
    steps: tuple[StepRow, ...]
    flow: Flow
    profile: Profile | None
    no_profile: str
    inference: Inference | None
    not_run: str
    code: tuple[CodeItem, ...]
    groups: tuple[SizedItem, ...]
    sections: tuple[Section, ...]
    provenance: tuple[Fact, ...]
    findings: tuple[Finding, ...] | None
    mlperf: MlperfReport | None = None
    lacking: str = ""
    evidence: str = ""
    layers: FileFacts | None = None
    no_layers: str = ""
    kernels: dict[str, KernelSource] = field(default_factory=dict)
    chip: ChipFit | None = None
    uses: tuple[MemoryUse, ...] = ()

    @property
    def model_flash_bytes(self) -> int:
        """Kernels, tables and parameters of the models in the image; library functions are not counted."""
        return self._bytes_of("kernels", "tables", "params")

    @property
    def model_ram_bytes(self) -> int:
        """Arenas and static objects of the models in the image."""
        return self._bytes_of("arena", "statics")

    def _bytes_of(self, *kinds: str) -> int:
        return sum(p.size_bytes for memory in self.memories for p in memory.parts if p.kind in kinds)

    @property
    def removed_macs(self) -> int:
        """Multiplications of the file's layers that the kernels do not do; 0 where not known, or none."""
        layers = [step.layer for step in self.steps if step.layer is not None]
        if self.layers is None or len(layers) < len(self.steps):
            return 0
        return max(self.layers.macs - sum(layer.macs for layer in layers), 0)

    @property
    def missing(self) -> str:
        """Check that a good result lacks; empty if it has all."""
        if self.not_run:
            return "NOT RUN"
        if all(v.ok is None for v in self.verdicts if v.what == "outputs"):
            return NOT_COMPARED
        return self.lacking

    @property
    def verdict(self) -> str:
        """``FAIL``, ``PASS``, or what is `missing`."""
        return "FAIL" if not self.ok else self.missing or "PASS"
