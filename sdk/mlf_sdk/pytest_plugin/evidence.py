# SPDX-License-Identifier: Apache-2.0
"""Evidence of a session of pytest: what the outputs of each model were compared with."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from mlf_sdk.pipeline.request import Request
from mlf_sdk.pytest_plugin.model import Key

if TYPE_CHECKING:
    from mlf_sdk.judge.witnessed import Witnessed
    from mlf_sdk.pipeline.attending import AttendedModel
    from mlf_sdk.pipeline.opentarget import OpenTarget

Counts = dict[tuple[str, str], int]
"""Inferences by what they were compared with, and what is to be said about that."""


class SessionEvidence:
    """Witnesses of all models that run on a board; each is open until the end of the session.

    Args:
        board: name of the board.
    """

    def __init__(self, board: str) -> None:
        self._board = board
        self._stack = ExitStack()
        self._attended: dict[Key, AttendedModel] = {}
        self._names: dict[Key, str] = {}

    def attend(self, key: Key, request: Request, target: OpenTarget) -> None:
        """Compare each inference on a target that was opened for a request with the model's witnesses.

        Raises:
            InputError: the request's ``model_file`` is not the file that the model was compiled from.
        """
        from mlf_sdk.pipeline.attending import AttendedModel
        from mlf_sdk.pipeline.witness import origin_of

        if request.witness_s <= 0:
            return
        if key not in self._attended:
            origin = origin_of(request, target.project, "--mlf-model")
            attended = AttendedModel(request, origin, target.model)
            self._stack.callback(attended.close)
            self._attended[key], self._names[key] = attended, target.model.name
        self._attended[key].attach(target)

    def close(self) -> Counts:
        """Close all witnesses; returns what they said."""
        counts: Counts = {}
        for key, attended in self._attended.items():
            result = attended.result()
            if attended.inferences and (result.needed or result.results):
                said = result.evidence or "kernels were only compared with themselves"
                line = f"mlf: {self._names[key]} on {self._board}: {said}", _notes(result)
                counts[line] = counts.get(line, 0) + attended.inferences
        self._stack.close()
        return counts


def _notes(result: Witnessed) -> str:
    """Witnesses that outputs differ from, those that give nothing, and what none covers."""
    notes = [f"outputs differ from {' and '.join(result.wrong)}"] if result.wrong else []
    notes += [result.disagreement, result.lack]
    notes += [f"uncovered {result.uncovered_text}"] if result.uncovered else []
    return "; ".join(filter(None, notes))


def summary(result: Iterable[Counts]) -> list[str]:
    """Lines of the summary, by all workers of a session."""
    counts: Counts = {}
    for one in result:
        for line, count in one.items():
            counts[line] = counts.get(line, 0) + count
    return [
        "; ".join(filter(None, [f"{line}, {count:,} inference{'s' * (count != 1)}", notes]))
        for (line, notes), count in counts.items()
    ]
