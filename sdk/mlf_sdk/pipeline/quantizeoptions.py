# SPDX-License-Identifier: Apache-2.0
"""Options of ``quantize`` beside those of the request; light to import, for the command line's help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlf_sdk.pipeline.declare import Options, option


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeOptions(Options):
    """Options of ``quantize`` beside those of the request."""

    calibration: str | Mapping[str, Any] = option(
        "",
        "npz file with typical inputs by name, samples along the leading axis; 'label' holds classes.",
        group="Inputs",
        metavar="FILE",
        required=True,
    )
    cases: str | Mapping[str, Any] = option(
        "",
        "npz file like the first, with other samples to measure the loss on; default: those of calibration.",
        group="Inputs",
        metavar="FILE",
    )
    output: str = option(
        "",
        "Model to write: .onnx; or .tar: the archive that is compiled from it.",
        flags=("-o", "--output"),
        metavar="FILE",
        required=True,
    )
    instructions: bool = option(
        False,
        "Build both models for the emulated --board as well, and count the instructions of an inference.",
    )
