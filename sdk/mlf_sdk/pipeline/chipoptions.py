# SPDX-License-Identifier: Apache-2.0
"""Options of ``chips``; light to import, for the command line's help."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.pipeline.declare import Options, option, positive


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipsOptions(Options):
    """Options of ``chips``."""

    vendor: str = option("", "Only chips of this vendor, such as st or nordic.", metavar="NAME")
    core: str = option("", "Only chips with this core, such as cortex-m33.", metavar="CORE")
    max_ms: float | None = option(
        None,
        "Only chips on which an inference is estimated to take at most this.",
        metavar="MS",
        check=positive,
    )
    all: bool = option(False, "Also chips that can't hold the model, with the reason.")
