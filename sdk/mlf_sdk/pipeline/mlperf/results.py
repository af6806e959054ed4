# SPDX-License-Identifier: Apache-2.0
"""Results of ``bench mlperf``, and how they are computed from windows: the rules of the official runner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlf_sdk.errors import InputError
from mlf_sdk.judge.profile import CycleEstimate
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.wire.mlperf import Window

Array = npt.NDArray[Any]
PERFORMANCE: Final = "performance"
WINDOWS: Final = 5
LEAST_S: Final = 10.0  # of a window on the device's clock, and of all windows on the host's


@dataclass(frozen=True, slots=True, kw_only=True)
class MlperfReport:
    """Everything that a bench showed.

    Attributes:
        id: of the benchmark.
        model: name of the model.
        official: the official runner did it; else the SDK's own client of the same protocol.
        emulated: an emulator's clock measured.
        name, profile: as the device states them.
        inferences, warmups: of each window.
        inputs: number of inputs.
        made_up: the inputs are bytes without meaning: only times are of use.
        throughput: median of the windows, in inferences a second; None in accuracy mode.
        top1_percent, auc: None in performance mode.
        instructions: of one inference, where an emulator counts them.
        port: of a real board, of which the protocol tells no build id; empty: it is emulated here.
        cycles: of one inference, estimated (see ``mlf-sdk profile``); None where nothing was estimated.
        errors: what the procedure objects to.
        session: folder with the runner's log and results, where they were kept.
    """

    id: str
    model: str
    board: Board
    mode: str
    official: bool
    emulated: bool
    name: str
    profile: str
    inferences: int
    warmups: int
    inputs: int
    made_up: bool
    windows: tuple[Window, ...]
    throughput: float | None = None
    top1_percent: float | None = None
    auc: float | None = None
    instructions: int | None = None
    port: str = ""
    cycles: CycleEstimate | None = None
    errors: tuple[str, ...] = ()
    session: Path | None = None

    @property
    def ok(self) -> bool:
        """Return whether the procedure was completed without an objection."""
        return not self.errors

    @property
    def notes(self) -> tuple[str, ...]:
        """Statements about what the figures are worth."""
        result = []
        if self.emulated:
            result.append(
                "The clock is an emulator's, which counts instructions: a figure from an emulator is no "
                "MLPerf result."
            )
        if not self.official:
            result.append(
                "Measured by mlf-sdk's own client of the same protocol, not by the official runner "
                "(--runner DIR)."
            )
        if self.made_up:
            result.append("The inputs are made up: only the times mean anything (--data DIR).")
        return tuple(result)


def median_throughput(windows: Sequence[Window]) -> float:
    """Median of the windows, in inferences a second."""
    return float(median(window.throughput for window in windows))


def objections(windows: Sequence[Window], host_s: float) -> list[str]:
    """List what the rules of performance mode object to.

    Args:
        windows: of the loop.
        host_s: duration of the whole loop on the host's clock.
    """
    result = []
    if len(windows) != WINDOWS:
        result.append(f"{len(windows)} windows were measured, {WINDOWS} are required")
    short = [window for window in windows if window.seconds <= LEAST_S]
    if short:
        result.append(f"{len(short)} of {len(windows)} windows took no more than {LEAST_S:g} s")
    if host_s < LEAST_S:
        result.append(f"all windows together took less than {LEAST_S:g} s of the host's time")
    return result


def score(results: Sequence[Sequence[Sequence[float]]], labels: Sequence[int]) -> tuple[float, float]:
    """Top-1 accuracy in per cent, and the area under the ROC curve (one against the rest).

    With a single result there are no classes to choose from: accuracy is then the best mean of precision and
    recall over 100 thresholds.

    Args:
        results: of each input, of each of its windows: the device's numbers.
        labels: class of each input.

    Raises:
        InputError: a class does not occur, or results differ in number.
    """
    widths = {len(numbers) for windows in results for numbers in windows}
    if len(widths) != 1 or not widths - {0}:
        raise InputError("the device's results differ in number", where="--data")
    truth = np.asarray(labels)
    means = np.array([np.mean([_normalised(numbers) for numbers in windows], axis=0) for windows in results])
    width = means.shape[1]
    if width == 1:
        return _best_split(means[:, 0], truth), _auc(means[:, 0], truth == 1)
    missing = sorted(set(range(width)) - set(truth.tolist()))
    if missing:
        raise InputError(
            f"no input is of class {', '.join(map(str, missing))}",
            where="--data",
            hint="Accuracy mode needs inputs of every class.",
        )
    top1 = 100.0 * float(np.mean(np.argmax(means, axis=1) == truth))
    if width == 2:
        return top1, _auc(means[:, 1], truth == 1)
    return top1, float(np.mean([_auc(means[:, c], truth == c) for c in range(width)]))


def _normalised(numbers: Sequence[float]) -> Array:
    result = np.asarray(numbers, dtype=np.float64)
    if len(result) == 1:
        return result
    total = float(result.sum())
    if not total:
        raise InputError("the results of an input are all zero", where="--data")
    return result / total


def _auc(values: Array, is_positive: Array) -> float:
    """Chance that a positive one has a larger value than a negative one; equal values count half."""
    positives, negatives = values[is_positive], values[~is_positive]
    if not len(positives) or not len(negatives):
        raise InputError("all inputs are of one class", where="--data", hint="Give some of each.")
    larger = np.searchsorted(np.sort(negatives), positives, side="left").sum()
    equal = np.searchsorted(np.sort(negatives), positives, side="right").sum() - larger
    return float((larger + equal / 2) / (len(positives) * len(negatives)))


def _best_split(values: Array, truth: Array) -> float:
    low, high = float(values.min()), float(values.max())
    best = 0.0
    for threshold in low + np.arange(0.0, 1.0, 0.01) * (high - low):
        above = values > threshold
        hits = float(np.sum(above & (truth == 1)))
        precision = hits / (float(np.sum(above & (truth != 1))) + hits + 1e-8)
        recall = hits / (float(np.sum(truth == 1)) + 1e-8)
        best = max(best, 100 * (precision + recall) / 2)
    return best
