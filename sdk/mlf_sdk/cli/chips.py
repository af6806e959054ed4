# SPDX-License-Identifier: Apache-2.0
"""Command about microcontrollers: chips."""

from __future__ import annotations

from mlf_sdk.cli.command import Command, Outcome
from mlf_sdk.pipeline.chipoptions import ChipsOptions
from mlf_sdk.pipeline.declare import Stage
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.pipeline.request import Request


def chips(request: Request, own: ChipsOptions, progress: Progress) -> Outcome:
    """Show the microcontrollers that a model fits, with milliseconds of an inference; the smallest first.

    Milliseconds are estimates; docs/estimates.md has their errors. A star marks flash outside of the chip.
    Without a model: all chips that are known.

    Example: mlf-sdk chips model.tflite

    Example: mlf-sdk chips model.tflite --vendor st --max-ms 50

    Example: mlf-sdk chips
    """
    from mlf_sdk.pipeline.chips import choose_chips
    from mlf_sdk.reporting.chips import chips_parts, chips_values

    result = choose_chips(request, own, progress)
    return Outcome(parts=chips_parts(result), values=chips_values(result))


COMMANDS = {
    "chips": Command(
        call=chips,
        source="MODEL",
        source_help="Model or archive; none: list all chips.",
        count="optional",
        stages=frozenset({Stage.LOAD}),
        own=ChipsOptions,
    ),
}
