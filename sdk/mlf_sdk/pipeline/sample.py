# SPDX-License-Identifier: Apache-2.0
"""Expected outputs of the standalone application's sample: those of the host twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlf_sdk.codegen.samples import SampleOutput
from mlf_sdk.errors import InputError
from mlf_sdk.judge.compare import Tolerance
from mlf_sdk.pipeline import execution
from mlf_sdk.tools.arrays import Array

if TYPE_CHECKING:
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.pipeline.request import Request

_FLAG = "--sample-outputs"


def outputs_for_sample(pipeline: Pipeline, request: Request) -> tuple[tuple[SampleOutput, ...], ...]:
    """Run each model of a request on this machine, on the sample of its application.

    Returns:
        The outputs of each model.

    Raises:
        InputError: the application has no sample, or a model can't run on this machine.
        ToolError: a tool is missing or failed.
    """
    if request.app != "standalone":
        raise InputError(
            f"the {request.app} application has no sample", where=_FLAG, hint="Add --app standalone."
        )
    found = []
    for source in request.source:
        run = request.replace(source=(source,), app="rpc", inputs=None, expect=None)
        twin, why = pipeline.host_twin(run)
        if twin is None:
            hint = f"Leave out {_FLAG}: the application then prints its outputs, and compares nothing."
            raise InputError(f"the outputs of {source} are not known. {why}", where=_FLAG, hint=hint)
        tolerance = execution.tolerance_of(request)
        found.append(tuple(_expected(output, tolerance) for output in twin.outputs.values()))
    return tuple(found)


def _expected(output: Array, tolerance: Tolerance) -> SampleOutput:
    """Return an output of one inference, with the tolerance by which boards are compared as well."""
    if output.dtype != np.float32:
        return SampleOutput(data=output.tobytes())
    finite = np.abs(output[np.isfinite(output)])
    scale = float(finite.max()) if finite.size else 0.0
    return SampleOutput(data=output.tobytes(), tolerance=tolerance.atol + tolerance.rtol * scale)
