# SPDX-License-Identifier: Apache-2.0
"""Commands that run a benchmark of the field: bench mlperf."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.cli.command import BUILD_STAGES, Command, Outcome
from mlf_sdk.pipeline.declare import Stage, option
from mlf_sdk.pipeline.options import MlperfOptions
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.pipeline.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class MlperfBenchOptions(MlperfOptions):
    """Options of ``bench mlperf`` beside those of the request."""

    output: str | None = option(
        None, "Write the report page, with this result, here.", flags=("--output", "-o"), metavar="FILE"
    )


def mlperf(request: Request, own: MlperfBenchOptions, progress: Progress) -> Outcome:
    """Run the procedure of MLPerf Tiny on a model: five timed windows, or the accuracy.

    On an emulated board, or on a board that runs the image (--port). With --runner the official runner does
    it, unchanged; else a client of our own.

    Example: mlf-sdk bench mlperf kws.tflite --id kws01 --board mps2-an386 --runner tiny/benchmark/runner
    """
    from mlf_sdk.cli.runs import check_folder_of
    from mlf_sdk.pipeline.mlperf.bench import bench_mlperf
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.reporting.mlperf import mlperf_page, mlperf_parts
    from mlf_sdk.reporting.values import result_values
    from mlf_sdk.tools.files import write_whole

    check_folder_of(own.output)
    pipeline = Pipeline(progress)
    result = bench_mlperf(request, own, pipeline)
    if own.output is not None:
        write_whole(Path(own.output), mlperf_page(request, result, pipeline))
    return Outcome(parts=mlperf_parts(result), values=result_values(result), exit_code=0 if result.ok else 1)


COMMANDS = {
    "bench mlperf": Command(
        call=mlperf,
        source="MODEL|DIR",
        source_help="A model or archive, or the folder of a project with the mlperf application.",
        stages=BUILD_STAGES | {Stage.OPEN},
        own=MlperfBenchOptions,
        omits=("app", "keep_inputs", "share_arena", "max_baud", "image", "timeout_s", "sign"),
    ),
}
