# SPDX-License-Identifier: Apache-2.0
"""Directions of tensors, found by running the model: where its file states none and nothing else decides.

Memory is painted with two patterns and the model run on each. A tensor whose bytes keep both paints is an
input, or is not used; one in which every byte changes is an output. One that changes in part is neither for
certain: the question is then the user's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from mlf_sdk.errors import MlfError, UndecidedError
from mlf_sdk.pipeline import stages
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.wire.device import PATTERNS

if TYPE_CHECKING:
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.pipeline.request import Request

_PLAIN: Final = {
    "app": "rpc",
    "executor": "static",
    "inputs": None,
    "expect": None,
    "port": None,
    "baud": None,
}


def probe_outputs(pipeline: Pipeline, request: Request, error: UndecidedError) -> tuple[str, ...]:
    """Names of the outputs of the one model of a request, by two runs on its emulated board or the host.

    Args:
        error: by which the model's load ended.

    Raises:
        UndecidedError: ``error``, where no run is possible or its result does not decide.
    """
    if request.output_names or len(request.source) != 1:
        raise error
    probe = request.replace(**_PLAIN, max_baud=None, output_names=error.names)
    try:
        target = resolve_target(stages.target_choice(probe))
        if not target.is_host and not target.board.is_emulated:
            raise error from None
        pipeline.progress.say("running the model to distinguish inputs from outputs")
        kept, changed = _paints(pipeline, probe)
    except MlfError as failed:
        raise error from failed
    if not changed or len(kept) + len(changed) != len(error.names):
        raise error
    return tuple(changed)


def _paints(pipeline: Pipeline, probe: Request) -> tuple[list[str], list[str]]:
    """Names of the tensors that kept both paints, and of those that lost them in every byte."""
    differs: dict[str, list[np.ndarray[tuple[int], np.dtype[np.bool_]]]] = {}
    with pipeline.open(probe) as opened:
        session = opened.session
        for pattern in PATTERNS:
            session.prepare(opened.info, pattern)
            session.run(opened.info)
            for tensor, array in zip(opened.model.outputs, session.read_outputs(opened.info), strict=True):
                data = np.frombuffer(array.tobytes(), np.uint8)
                differs.setdefault(tensor.name, []).append(data != pattern)
    kept = [name for name, both in differs.items() if not np.any(both)]
    changed = [name for name, both in differs.items() if np.logical_or(*both).all()]
    return kept, [name for name in changed if name not in kept]
