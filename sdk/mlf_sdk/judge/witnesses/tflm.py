# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite Micro's reference kernels, by the wheel ``tflite-micro`` (extra ``oracle``)."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import ClassVar

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.judge.witnesses.interpreter import installed, open_worker
from mlf_sdk.judge.witnesses.modelfile import ModelFile
from mlf_sdk.judge.witnesses.witness import Witness, WitnessSession

_LEAST_ARENA_BYTES = 16 << 20
_MOST_ARENA_BYTES = 1 << 30


class Tflm(Witness):
    """The interpreter of the wheel."""

    name = "tflm"
    formats: ClassVar[frozenset[str]] = frozenset({"tflite"})

    def title(self) -> str | None:
        """``TFLM`` and the month of the wheel: a development version has the date in its name."""
        found = installed("tflite-micro")
        date = re.search(r"dev(\d{4})(\d{2})", found or "")
        return f"TFLM {date[1]}-{date[2]}" if date else None if found is None else f"TFLM {found}"

    def open(self, model: ModelFile, timeout_s: float) -> AbstractContextManager[WitnessSession]:
        """See Witness."""
        graph = model.graph
        arguments = [self.name, str(model.path), str(arena_bytes(graph)), str(len(graph.outputs))]
        return open_worker(arguments, timeout_s)


def arena_bytes(graph: Graph) -> int:
    """Arena that is large enough: the interpreter does not say how much it needs, and crashes with less."""
    tensors = sum(value.size_bytes + 256 for value in graph.values if value.data is None)
    return min(_MOST_ARENA_BYTES, _LEAST_ARENA_BYTES + 4 * tensors + 4096 * len(graph.operators))
