# SPDX-License-Identifier: Apache-2.0
"""Models with recorded outputs, which lie beside the project: their vectors, and which of them differ, and why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
RECORDED = sorted(p.stem for p in CORPUS.glob("*.tflite"))
MISSING = "no ../shared/corpus: models with recorded outputs are elsewhere"
_UNREADABLE = "its padding became an ADD of values and padding amounts: no model that can be computed"
# Models that are refused, and why.
REFUSED = {
    "cfu_playground_hps_model_hps_model_2022_01_05_74ops": _UNREADABLE,
    "cfu_playground_hps_model_second_0_320_240_1_20220117_135512_201k_26k_96ops": _UNREADABLE,
    "cfu_playground_hps_model_shared_20220623_1032_tiled": _UNREADABLE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedModel:
    """A model and its vectors.

    Attributes:
        inputs, outputs: in the model's order, each (cases, *shape).
        whole: False for a model of one operator or layer.
        stateful: cases are consecutive runs.
        truth: tool that made the outputs.
    """

    name: str
    path: Path
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    whole: bool
    stateful: bool
    macs: int
    operators: dict[str, int]
    truth: str


def recorded_model(name: str) -> RecordedModel:
    """The model of a name in `RECORDED`."""
    facts = _index()[name]
    vectors = np.load(CORPUS / f"{name}.npz")
    return RecordedModel(
        name=name,
        path=CORPUS / f"{name}.tflite",
        inputs=tuple(vectors[k] for k in vectors.files if k.startswith("in::")),
        outputs=tuple(vectors[k] for k in vectors.files if k.startswith("out::")),
        whole=not facts["optest"],
        stateful=facts["stateful"],
        macs=facts["macs"],
        operators=facts["ops"],
        truth=facts["truth"].partition(" ")[0],
    )


@cache
def _index() -> dict[str, Any]:
    return {model["name"]: model for model in json.loads((CORPUS / "index.json").read_text())}
