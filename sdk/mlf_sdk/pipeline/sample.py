# SPDX-License-Identifier: Apache-2.0
"""Expected outputs of the standalone application's sample: those of the host twin, and what confirms them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mlf_sdk.codegen.samples import SampleOutput
from mlf_sdk.errors import CheckError, InputError
from mlf_sdk.judge.compare import Tolerance
from mlf_sdk.judge.evidence import combined
from mlf_sdk.pipeline import execution
from mlf_sdk.pipeline.witness import origin_of, statements_of, witnessed
from mlf_sdk.tools.arrays import Array

if TYPE_CHECKING:
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.pipeline.request import Request
    from mlf_sdk.pipeline.twin import Twin

_FLAG = "--sample-outputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOutputs:
    """Expected outputs of a model for its sample.

    Attributes:
        evidence: what they rest on, for people.
    """

    outputs: tuple[SampleOutput, ...]
    evidence: str


def outputs_for_sample(pipeline: Pipeline, request: Request) -> tuple[SampleOutputs, ...]:
    """Run each model of a request on this machine, on the sample of its application, and ask its witnesses.

    Raises:
        CheckError: the outputs are not what a model's file means.
        InputError: the application has no sample, or a model can't run on this machine.
        ToolError: a tool is missing or failed.
    """
    if request.app != "standalone":
        raise InputError(
            f"the {request.app} application has no sample", where=_FLAG, hint="Add --app standalone."
        )
    result = []
    for source in request.source:
        run = request.replace(source=(source,), app="rpc", pre=None, inputs=None, expect=None)
        twin, why = pipeline.host_twin(run)
        if twin is None:
            hint = f"Leave out {_FLAG}: the application then prints its outputs, and compares nothing."
            raise InputError(f"the outputs of {source} are not known. {why}", where=_FLAG, hint=hint)
        tolerance = execution.tolerance_of(request)
        outputs = tuple(_expected(output, tolerance) for output in twin.outputs.values())
        result.append(SampleOutputs(outputs=outputs, evidence=_evidence(pipeline, run, twin)))
    return tuple(result)


def _evidence(pipeline: Pipeline, request: Request, twin: Twin) -> str:
    """Evidence for the outputs of a host twin.

    Raises:
        CheckError: they differ from what a witness of the model's file says.
    """
    request = pipeline.twin_request(request)
    project = pipeline.project(request)
    origin = origin_of(request, project)
    pipeline.progress.say("asking the model's witnesses")
    result = witnessed(
        origin, statements_of(request, origin, project.model, pipeline.batch(request)), twin.outputs
    )
    name = project.model.name
    if result.wrong:
        raise CheckError(
            f"the outputs for its sample differ from what the model means ({', '.join(result.wrong)})",
            where=f"model {name}",
            hint=f"mlf-sdk run {request.source[0]} names the first layer that differs. Report this model.",
        )
    lack = f"; no witness of the model's file: {result.lack}" if result.is_lacking else ""
    return f"{name}: {combined(result.evidence, twin.evidence)}{lack}"


def _expected(output: Array, tolerance: Tolerance) -> SampleOutput:
    """Return an output of the first inference, with the tolerance by which boards are compared as well."""
    first = output[:1]
    if output.dtype != np.float32:
        return SampleOutput(data=first.tobytes())
    finite = np.abs(first[np.isfinite(first)])
    scale = float(finite.max()) if finite.size else 0.0
    return SampleOutput(data=first.tobytes(), tolerance=tolerance.atol + tolerance.rtol * scale)
