# SPDX-License-Identifier: Apache-2.0
"""Stages execute and judge: what a request gives to an open target, and expects of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from mlf_sdk.judge.compare import Tolerance
from mlf_sdk.judge.data import Batch, Reference, match_inputs, match_reference, pattern_batch
from mlf_sdk.judge.execute import Execution, execute_batch
from mlf_sdk.pipeline.opentarget import OpenTarget
from mlf_sdk.pipeline.project import TargetProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.tools.arrays import Array, read_npz


def batch_of(request: Request, project: TargetProject) -> Batch:
    """Inputs of the request, or one inference on the repeatable pattern.

    Raises:
        InputError: an array is missing or does not fit its tensor.
    """
    if request.inputs is None:
        return pattern_batch(project.model)
    return match_inputs(project.model, *arrays_of(request.inputs, "inputs"))


def reference_of(request: Request, project: TargetProject, count: int) -> Reference:
    """Expected outputs and labels of the request; empty: it names none.

    Raises:
        InputError: nothing fits an output, or the number of inferences is not ``count``.
    """
    if request.expect is None:
        return Reference()
    arrays, where = arrays_of(request.expect, "expect")
    return match_reference(project.model, arrays, count, where)


def arrays_of(given: str | Mapping[str, Array], name: str) -> tuple[Mapping[str, Array], str]:
    """Arrays by name, and the place to name in a message about them."""
    return (given, name) if isinstance(given, Mapping) else (read_npz(Path(given)), given)


def execute(
    request: Request, target: OpenTarget, batch: Batch, count: Callable[[int, int], None] | None = None
) -> Execution:
    """Run all inferences on the open target, and read its marks.

    Raises:
        TargetError: it did not answer in time, or faulted; the step to blame is named.
    """
    return execute_batch(target.session, target.model, batch, timeout_s=request.timeout_s, progress=count)


def tolerance_of(request: Request) -> Tolerance:
    """Tolerances of the request."""
    return Tolerance(rtol=request.rtol, atol=request.atol)
