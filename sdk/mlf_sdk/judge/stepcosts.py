# SPDX-License-Identifier: Apache-2.0
"""Cost of each step: instructions that the emulator counts, or ticks of the board's clock."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.errors import ToolError
from mlf_sdk.judge.counting import Counts, WindowCount, counter, with_rows
from mlf_sdk.judge.cycles import Estimator
from mlf_sdk.judge.execute import find_model
from mlf_sdk.judge.profile import Costs
from mlf_sdk.judge.windows import (
    ROWS,
    Window,
    function_window,
    handlers,
    kernel_window,
    layer_windows,
    row_windows,
)
from mlf_sdk.targets.target import Target
from mlf_sdk.tools.arrays import Array
from mlf_sdk.wire.device import ModelInfo
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.steps import advance
from mlf_sdk.wire.transport import Deadline

RUN, STEP = "run", "step"
_LAYER = "layer"  # windows of layers inside a step: layer.STEP.LAYER.FUNCTION


def inner_kernels(model: LockModel, image: Image) -> tuple[str, ...]:
    """Kernels that the one step of an ahead-of-time model calls, where they are functions of the image."""
    entries = {step.symbol for step in model.steps}
    if len(model.steps) != 1:
        return ()
    return tuple(s for s in model.kernel_symbols if s not in entries and image.find(s) is not None)


def windows_of(model: LockModel, image: Image) -> tuple[Window, ...]:
    """Windows to count: a run, in it each step and layers inside, or each kernel of an ahead-of-time model.

    Raises:
        LookupError: the image is not made as expected.
    """
    kernels = inner_kernels(model, image)
    inner = [function_window(image, k, window=f"k{i}") for i, k in enumerate(kernels)]
    return (
        function_window(image, "mlf_run", window=RUN),
        *row_windows(image),
        *(inner or [kernel_window(image, window=STEP), *_layers(model, image)]),
    )


def _layers(model: LockModel, image: Image) -> Iterable[Window]:
    """Windows of the layers inside of steps."""
    for number, step in enumerate(model.steps):
        if step.layer is not None and step.layer.inside:
            yield from layer_windows(image, step.symbol, window=f"{_LAYER}.{number}")


def count_steps(
    target: Target,
    image: Image,
    model: LockModel,
    inputs: Sequence[Array],
    *,
    runs: int,
    plugin: Path,
    timeout_s: float,
    estimator: Estimator | None = None,
) -> Costs:
    """Instructions of each step (or kernel) of a model on an emulated board, exactly.

    Args:
        timeout_s: for each run.
        estimator: estimates the cycles of the last run as well.

    Raises:
        LookupError: the image is not made as expected.
        ToolError: QEMU or its plugin failed.
        TargetError: the board did not answer, or a run failed.
    """
    windows = windows_of(model, image)
    with counter(image, windows, plugin=plugin, by_instruction=estimator is not None) as counting:
        with target.with_emulator(counting.arguments).open(image.path, timeout_s=timeout_s) as session:
            session.hello(Deadline.after(timeout_s))
            info = find_model(session, model)
            for _ in range(1 + runs):  # the first one is not counted: it may find other state than the others
                deadline = Deadline.after(timeout_s)
                session.write_inputs(info, inputs, deadline)
                session.run(info, deadline=deadline)
        counts = counting.read()
    inside = _costs_inside(counts, handlers(image))[1:]
    passes = [one for one in counts.passes if not _is_layer(one)]
    counts = dataclasses.replace(counts, passes=with_rows(passes, ROWS, RUN))
    costs = dataclasses.replace(_costs(model, image, counts, runs), inside=inside)
    return costs if estimator is None else _estimated(costs, counts, image, estimator)


def _estimated(costs: Costs, counts: Counts, image: Image, estimator: Estimator) -> Costs:
    """Add the cycles of the last run and of its rows."""
    last = counts.passes[-1 - len(costs.names) :]
    if last[-1].name != RUN:
        return costs
    interrupts = handlers(image)
    rows = (
        estimator.window(row, interrupts | {"mlf_run"} if row.name == STEP else interrupts)
        for row in last[:-1]
    )
    return dataclasses.replace(
        costs, estimate=estimator.window(last[-1], interrupts), row_estimates=tuple(rows)
    )


def _costs(model: LockModel, image: Image, counts: Counts, runs: int) -> Costs:
    kernels = inner_kernels(model, image)
    in_interrupts = handlers(image)
    totals: list[int] = []
    rows: list[tuple[int, ...]] = []
    names: list[tuple[str, ...]] = []
    row: list[WindowCount] = []
    for one in counts.passes:
        if one.name != RUN:
            row.append(one)
            continue
        totals.append(one.total - one.instructions(*in_interrupts))
        rows.append(tuple(_own(inner, in_interrupts) for inner in row))
        names.append(tuple(kernels[int(r.name[1:])] if kernels else "" for r in row))
        row = []
    expected = tuple(step.name for step in model.steps)
    result = names[0] if kernels and names else expected
    if len(totals) != 1 + runs or len(set(names)) != 1 or len(rows[0]) != len(result):
        raise ToolError(
            f"{len(totals)} runs and {sum(map(len, rows))} steps were counted, not {1 + runs} and "
            f"{(1 + runs) * len(result)}",
            where=f"model {model.name}",
        )
    return Costs(totals=tuple(totals[1:]), names=result, rows=tuple(rows[1:]))


def _is_layer(one: WindowCount) -> bool:
    return one.name.startswith(f"{_LAYER}.")


def _costs_inside(counts: Counts, in_interrupts: Iterable[str]) -> tuple[dict[tuple[int, int], int], ...]:
    """Instructions of each run in the layers inside of steps, by the numbers of step and layer."""
    result = []
    sums = Counter[tuple[int, int]]()
    for one in counts.passes:
        if _is_layer(one):
            step, layer = map(int, one.name.split(".")[1:3])
            sums[step, layer] += one.total - one.instructions(*in_interrupts)
        elif one.name == RUN:
            result.append(dict(sums))
            sums.clear()
    return tuple(result)


def _own(one: WindowCount, in_interrupts: Iterable[str]) -> int:
    """Instructions of a step: without interrupts, and without the call, which is the executor's."""
    call = one.instructions("mlf_run") if one.name == STEP else 0
    return one.total - call - one.instructions(*in_interrupts)


def time_steps(
    session: Session,
    info: ModelInfo,
    model: LockModel,
    inputs: Sequence[Array],
    *,
    runs: int,
    deadline: Deadline | None = None,
) -> Costs:
    """Ticks of the device's clock, of each step and of whole runs in between.

    Raises:
        TargetError: the device did not answer, or a run failed.
    """
    totals: list[int] = []
    rows: list[tuple[int, ...]] = []
    session.write_inputs(info, inputs, deadline)
    session.run(info, deadline=deadline)  # not counted: caches are cold
    for _ in range(runs):
        session.write_inputs(info, inputs, deadline)
        totals.append(session.run(info, deadline=deadline).ticks)
        session.write_inputs(info, inputs, deadline)
        ticks: list[int] = []
        while len(ticks) < info.num_steps:
            done = advance(session, info, len(ticks), info.num_steps - len(ticks), deadline)
            ticks += done.ticks
        rows.append(tuple(ticks))
    return Costs(totals=tuple(totals), names=tuple(s.name for s in model.steps), rows=tuple(rows))


def scaled(costs: Costs, numerator: int, denominator: int) -> Costs:
    """The same costs in another unit, rounded."""

    def convert(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple((v * numerator + denominator // 2) // denominator for v in values)

    return Costs(totals=convert(costs.totals), names=costs.names, rows=tuple(map(convert, costs.rows)))
