# SPDX-License-Identifier: Apache-2.0
"""All witnesses: each installed one that reads a model's format is used, in this order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mlf_sdk.judge.witnesses.modelfile import ModelFile
from mlf_sdk.judge.witnesses.onnx import OnnxRuntime
from mlf_sdk.judge.witnesses.pytorch import PyTorch
from mlf_sdk.judge.witnesses.reference import Reference
from mlf_sdk.judge.witnesses.tflm import Tflm
from mlf_sdk.judge.witnesses.witness import Witness

WITNESSES: Final[tuple[Witness, ...]] = (Tflm(), OnnxRuntime(), PyTorch(), Reference())


def installed_titles() -> tuple[str, ...]:
    """Names and versions of the witnesses that are installed here."""
    return tuple(title for witness in WITNESSES if (title := witness.title()) is not None)


def witnesses_of(model: ModelFile) -> Iterator[tuple[Witness, str]]:
    """Witnesses that read a model's format and are installed here, with their titles."""
    for witness in WITNESSES:
        if model.format in witness.formats and (title := witness.title()) is not None:
            yield witness, title
