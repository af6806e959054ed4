# SPDX-License-Identifier: Apache-2.0
"""Command about other build systems: export."""

from __future__ import annotations

from mlf_sdk.cli.command import GENERATE_STAGES, Command, Outcome
from mlf_sdk.pipeline.exportoptions import ExportOptions
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.pipeline.request import Request


def export(request: Request, own: ExportOptions, progress: Progress) -> Outcome:
    """Write a model as plain C sources for a build system: weights as arrays, headers, manifest, example.

    Your example and files of your own are kept when an export is renewed.

    Example: mlf-sdk export model.tflite --as arduino -o wake_word --chip nrf52840

    Example: mlf-sdk export model.tflite --as make -o model --name model --sample-outputs
    """
    from mlf_sdk.pipeline.export import export as export_model
    from mlf_sdk.reporting.export import exported_parts, exported_values

    result = export_model(request=request, own=own, progress=progress)
    return Outcome(parts=exported_parts(result), values=exported_values(result))


COMMANDS = {
    "export": Command(
        call=export,
        source="MODEL",
        source_help="Models or archives; they share a runtime.",
        count="many",
        stages=GENERATE_STAGES,
        takes=("chip",),
        own=ExportOptions,
        omits=(
            "app",
            "as_compiled",
            "build_dir",
            "cmake_args",
            "cmsis_nn",
            "executor",
            "mlperf_id",
            "params",
            "plan",
            "platform",
            "softmax",
            "west",
            "zephyr_base",
            "zephyr_modules",
        ),
    ),
}
