# SPDX-License-Identifier: Apache-2.0
"""The reference's values between the steps of an archive: those of tensors that the passes kept."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.passes import improve
from mlf_sdk.ir.model import Model
from mlf_sdk.ir.step import WINDOW, Step
from mlf_sdk.judge.bisect import StepArrays
from mlf_sdk.judge.witnesses.reference import ReferenceSession
from mlf_sdk.judge.witnesses.witness import ModelFile
from mlf_sdk.tools.arrays import Array

_APPENDED: Final = "append_rows"  # kernels that keep rows of earlier frames


class ReferenceSteps:
    """One inference of the reference, seen as an `Observer` sees that of a target.

    Args:
        file: the model file.
        model: as read from the archive that was compiled from it.
        inputs: of the inference, as the device takes them; of a model that takes frames a window, of whose
            values the newest rows are the outputs of its last frame.
        order: numbers of the steps in the order in which the target runs them.

    Raises:
        MlfError: the file can't be read.
    """

    def __init__(self, file: ModelFile, model: Model, inputs: Sequence[Array], order: Sequence[int]) -> None:
        self.order = tuple(order)
        with file.supply() as supply:
            session = ReferenceSession(file.graph, supply)
            session.infer(file.inputs_for_file(inputs))
        kept = _kept(file.graph, improve(file.device))
        self._outputs: dict[int, tuple[Array, ...]] = {}
        for number, step in enumerate(model.steps):
            ids = kept.get(step.layer.number) if step.layer is not None else None
            values = [session.values.get(i) for i in ids or ()]
            known = tuple(array for array in values if array is not None)
            shapes = [model.tensors[i] for i in step.outputs]
            if not ids or not len(known) == len(values) == len(shapes) or _keeps_rows(step):
                continue
            if model.provenance.options.get(WINDOW):
                known = tuple(
                    _newest(array, math.prod(tensor.shape))
                    for array, tensor in zip(known, shapes, strict=True)
                )
            if all(
                array.dtype == tensor.dtype.numpy and array.size == math.prod(tensor.shape)
                for array, tensor in zip(known, shapes, strict=True)
            ):
                self._outputs[number] = tuple(
                    np.ascontiguousarray(a.reshape(t.shape)) for a, t in zip(known, shapes, strict=True)
                )

    def crcs(self) -> dict[int, int]:
        """CRC-32 of the outputs of each step whose tensors the passes kept, by its number."""
        return {
            number: zlib.crc32(b"".join(array.tobytes() for array in arrays))
            for number, arrays in self._outputs.items()
        }

    def outputs(self, number: int) -> tuple[Array, ...]:
        """Outputs of a step, by its number."""
        return self._outputs[number]

    def arrays(self, number: int) -> StepArrays:
        """Outputs of a step; its inputs need not be tensors of the file."""
        return StepArrays(inputs=(), outputs=self._outputs[number])


def _keeps_rows(step: Step) -> bool:
    """True for a step that the compiler made to keep rows of earlier frames: the file has no value of it."""
    return step.layer is not None and step.layer.kernel == _APPENDED


def _newest(array: Array, count: int) -> Array:
    """The newest rows of a value whose rows are moments, which a frame makes: its last elements."""
    return array.reshape(-1)[-count:] if 0 < count < array.size else array


def _kept(graph: Graph, improved: Graph) -> dict[int, tuple[int, ...]]:
    """Values that an operator of the improved graph writes and that are those of the file, by its number."""
    counts = Counter(operator.number for operator in improved.operators)
    return {
        o.number: o.outputs
        for o in improved.operators
        if counts[o.number] == 1
        and all(i < len(graph.values) and improved.values[i] == graph.values[i] for i in o.outputs)
    }
