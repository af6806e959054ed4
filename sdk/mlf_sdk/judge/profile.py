# SPDX-License-Identifier: Apache-2.0
"""Profile of an inference: the cost of each step, and the work that follows from its shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Literal

from mlf_sdk.codegen.lock import LockLayer, LockModel, LockNode, LockStep
from mlf_sdk.ir.macs import macs
from mlf_sdk.judge.cycles import Estimate

Unit = Literal["instructions", "cycles", "ticks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Work of a step as derived from its shapes; None where they do not determine it.

    Attributes:
        macs: multiply-accumulates.
        read_bytes: of the inputs that are not constants.
        params_bytes: of the constants.
        written_bytes: of the outputs.
        workspace_bytes: of the kernel's own workspace.
    """

    macs: int | None = None
    read_bytes: int | None = None
    params_bytes: int | None = None
    written_bytes: int | None = None
    workspace_bytes: int | None = None

    @property
    def moved_bytes(self) -> int | None:
        """Sum of all bytes: each byte of a tensor and of the workspace counts once."""
        parts = (self.read_bytes, self.params_bytes, self.written_bytes, self.workspace_bytes)
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerProfile:
    """Cost of a layer that runs by rows inside a step.

    Attributes:
        layer: operator of the source model.
        cost: median over the runs, in the profile's unit, without what keeps and moves the rows.
        least, most: over the runs.
        share: of the total, 0 to 1.
    """

    layer: LockLayer
    cost: int
    least: int
    most: int
    share: float

    @property
    def per_mac(self) -> float | None:
        """Cost of one multiply-accumulate; None if there are none."""
        return self.cost / self.layer.macs if self.layer.macs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProfile:
    """One row of a profile.

    Attributes:
        index: position in the order of execution, from 0.
        name: the function's name in the archive.
        cost: median over the runs, in the profile's unit.
        least, most: over the runs.
        share: of the total, 0 to 1.
        work: derived from its shapes.
        cycles: estimated; None where nothing was estimated.
        layer: operator of the source model that it computes; None where the archive does not state it.
        shapes: of its first input and first output: ``1x32x32x3 > 1x32x32x16``; empty when not known.
        inside: layers that run by rows in it, in their order; empty: one layer, or they were not counted.
    """

    index: int
    name: str
    cost: int
    least: int
    most: int
    share: float
    work: Work
    cycles: int | None = None
    layer: LockLayer | None = None
    shapes: str = ""
    inside: tuple[LayerProfile, ...] = ()

    @property
    def per_mac(self) -> float | None:
        """Cost of one multiply-accumulate; None if there are none or their number is not known."""
        return self.cost / self.work.macs if self.work.macs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleEstimate:
    """Cycles of one inference, estimated from counted instructions and documented timings.

    Attributes:
        cycles: in all; ``waits`` of them for the flash.
        core: whose timings were taken.
        kind: ``documented``, ``by analogy`` or ``single-issue bound``.
        source: of the timings.
        assumes: choices within them.
        wait_states: of the flash, without cache or prefetch: for each word of code that is executed, and for
            each word of a step's constants once (kernels may read them again: a lower bound).
        instructions: by class.
        taken: branches that were taken; ``undecided`` of them may not have been.
        unknown: instructions without a price, taken as one cycle each.
    """

    cycles: int
    waits: int
    core: str
    kind: str
    source: str
    assumes: str
    wait_states: int
    instructions: dict[str, int]
    taken: int
    undecided: int
    unknown: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The profile of one model on one board: ``sum(step.cost) + overhead == total``.

    Attributes:
        rows: meaning of a row: a step of the executor, or a call of a kernel inside the single step of a
            model that was compiled ahead of time.
        unit: of all costs; a tick is ``1 / hz`` seconds.
        runs: inferences measured.
        steps: in the order of execution.
        overhead: cost outside all rows: of the executor, and of the entry of an ahead-of-time model.
        total: of one inference (median).
        resolution: costs are exact to this many units; 0 when exact.
        method: description of the measurement.
        notes: limitations of the measurement.
        symbol_prefix: of the names of all steps; displays leave it out.
        cycles: estimate of one inference; None where there is none.
    """

    model: str
    archive_sha256: str
    board: str
    rows: Literal["steps", "kernels"]
    unit: Unit
    hz: int
    runs: int
    steps: tuple[StepProfile, ...]
    overhead: int
    total: int
    resolution: int
    method: str
    notes: tuple[str, ...] = ()
    symbol_prefix: str = ""
    cycles: CycleEstimate | None = None

    @property
    def has_layers(self) -> bool:
        """Return whether the archive states which operators its steps compute."""
        return any(step.layer is not None for step in self.steps)

    @property
    def macs(self) -> int | None:
        """Multiply-accumulates of all rows where they are known; None when no row has them."""
        known = [step.work.macs for step in self.steps if step.work.macs is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Measured costs of each run: in total and of each row.

    Attributes:
        totals: of each run.
        names: of the rows.
        rows: for each run, a cost of each row.
        estimate: cycles of the last run; None where nothing was estimated.
        row_estimates: cycles of its rows.
        inside: for each run, the cost of layers inside of rows, by the numbers of row and layer; empty: they
            were not counted.
    """

    totals: tuple[int, ...]
    names: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]
    estimate: Estimate | None = None
    row_estimates: tuple[Estimate, ...] = ()
    inside: tuple[Mapping[tuple[int, int], int], ...] = ()


def step_rows(costs: Costs, works: Sequence[Work]) -> tuple[StepProfile, ...]:
    """Make the rows of a profile.

    Args:
        costs: of all runs.
        works: of each row, in the same order.
    """
    total = median_low(costs.totals)
    result = []
    for index, (name, work) in enumerate(zip(costs.names, works, strict=True)):
        column = [run[index] for run in costs.rows]
        cost = median_low(column)
        share = cost / total if total else 0.0
        result.append(
            StepProfile(
                index=index,
                name=name,
                cost=cost,
                least=min(column),
                most=max(column),
                share=share,
                work=work,
                cycles=costs.row_estimates[index].cycles if costs.row_estimates else None,
            )
        )
    return tuple(result)


def works_of(model: LockModel) -> tuple[Work, ...]:
    """Derive the work of each step from its shapes, in the order of execution."""
    return tuple(_work(model, step) for step in model.steps)


def with_layers(
    steps: Sequence[StepProfile], model: LockModel, costs: Costs | None = None
) -> tuple[StepProfile, ...]:
    """Add the source model's operators and shapes to the rows of the model's steps, in order.

    Args:
        costs: from which the rows were made, for those of layers inside.
    """
    return tuple(
        dataclasses.replace(
            row,
            layer=step.layer,
            shapes=_shapes(model, step),
            inside=() if costs is None else _inside(row.index, step, costs),
        )
        for row, step in zip(steps, model.steps, strict=True)
    )


def _inside(index: int, step: LockStep, costs: Costs) -> tuple[LayerProfile, ...]:
    """Costs of the layers inside of a step; none where they were not counted."""
    layers = step.layer.inside if step.layer is not None else ()
    if not any(at == index for run in costs.inside for at, _ in run):
        return ()
    total = median_low(costs.totals)
    result = []
    for layer in layers:
        column = [run.get((index, layer.number), 0) for run in costs.inside]
        cost = median_low(column)
        result.append(
            LayerProfile(
                layer=layer,
                cost=cost,
                least=min(column),
                most=max(column),
                share=cost / total if total else 0.0,
            )
        )
    return tuple(result)


def _shapes(model: LockModel, step: LockStep) -> str:
    """Shapes of the first input that is no constant, and of the first output."""
    read = [i for i in step.inputs if not _is_constant(model, model.tensors[i])]
    ends = [model.tensors[ids[0]].shape for ids in (read, step.outputs) if ids]
    return " > ".join("x".join(map(str, shape)) or "1" for shape in ends)


def _work(model: LockModel, step: LockStep) -> Work:
    def shapes(ids: Sequence[int]) -> list[tuple[int, ...]]:
        return [model.tensors[i].shape for i in ids]

    inputs, outputs = _distinct(model, step.inputs), _distinct(model, step.outputs)
    constants = [t for t in inputs if _is_constant(model, t)]
    fixed = [at for at, i in enumerate(step.inputs) if _is_constant(model, model.tensors[i])]
    return Work(
        macs=macs(step.symbol, shapes(step.inputs), shapes(step.outputs), fixed)
        if step.layer is None
        else step.layer.macs,
        read_bytes=sum(t.size_bytes for t in inputs if t not in constants),
        params_bytes=sum(t.size_bytes for t in constants),
        written_bytes=sum(t.size_bytes for t in outputs),
        workspace_bytes=step.workspace_bytes,
    )


def _distinct(model: LockModel, ids: Sequence[int]) -> list[LockNode]:
    """Tensors with these ids, each storage once."""
    result = {model.tensors[i].root: model.tensors[i] for i in ids}
    return list(result.values())


def _is_constant(model: LockModel, tensor: LockNode) -> bool:
    return model.tensors[tensor.root].kind == "constant"
