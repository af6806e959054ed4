# SPDX-License-Identifier: Apache-2.0
"""Operators that run row by row as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import SCRATCH_BYTES, Fused, Operator

KIND: Final = "ROWS"  # in reports, beside the names that operators have in files


def fuse(
    graph: Graph,
    operators: Sequence[Operator],
    lines: Sequence[int] = (),
    scratch_bytes: int = SCRATCH_BYTES,
    streamed: Sequence[int] = (),
    *,
    fit_scratch: bool = False,
) -> Graph:
    """The graph with operators as one, at the place of the last of them.

    Args:
        lines, scratch_bytes, streamed, fit_scratch: see `Fused`.
    """
    inside = {id(one) for one in operators}
    made = {y for o in operators for y in o.outputs}
    others = [o for o in graph.operators if id(o) not in inside]
    used = {*graph.outputs, *(i for o in others for i in o.inputs)}
    read = dict.fromkeys(i for o in operators for i in o.inputs)
    fused = Fused(
        number=operators[-1].number,
        kind=KIND,
        inputs=tuple(i for i in read if i not in made and graph.values[i].data is None),
        outputs=tuple(y for o in operators for y in o.outputs if y in used),
        operators=tuple(operators),
        lines=tuple(lines),
        scratch_bytes=scratch_bytes,
        fit_scratch=fit_scratch,
        streamed=tuple(streamed),
    )
    last = operators[-1]
    kept = [fused if o is last else o for o in graph.operators if o is last or id(o) not in inside]
    return dataclasses.replace(graph, operators=tuple(kept))
