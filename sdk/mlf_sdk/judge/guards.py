# SPDX-License-Identifier: Apache-2.0
"""Guard bytes around what a model writes: compared with their paint after each run."""

from __future__ import annotations

from collections.abc import Sequence

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.errors import TargetError
from mlf_sdk.judge.check import FAILED, PROVEN, ProofRow
from mlf_sdk.tools.arrays import Array
from mlf_sdk.wire.device import Stats


class GuardError(TargetError):
    """The model wrote outside of its memory.

    Args:
        model: that wrote.
        stats: of its run.
        outputs: of that inference; they may still be right.
    """

    def __init__(self, model: LockModel, stats: Stats, outputs: Sequence[Array] = ()) -> None:
        super().__init__(
            guards_fault(model, stats),
            where=f"model {model.name}",
            hint="Run it on the board 'host': the address sanitizer names the line of the kernel.",
        )
        self.outputs = [*outputs]


def guards_fault(model: LockModel, stats: Stats) -> str:
    """Describe the fault that a run's guards show; empty: they are as planned, and intact.

    Args:
        model: with the regions that have guards.
        stats: of a run; ``guards`` None: the image has none (the address sanitizer, the dynamic executor).
    """
    written, count = stats.written_guard, 2 * len(model.regions)
    if written is not None:
        name = model.regions[written // 2].name if written < count else "a region"
        return f"the model wrote {('before', 'behind')[written % 2]} {name}"
    return "" if stats.guards in (None, count) else "other regions are guarded than planned"


def guards_row(model: LockModel, stats: Stats) -> ProofRow:
    """Row of the guards: planned, and checked after each run; ``stats`` as in `guards_fault`."""
    note = guards_fault(model, stats)
    return ProofRow(
        model=model.name,
        item="guards",
        planned=2 * len(model.regions),
        measured=stats.guards,
        state=FAILED if note else PROVEN,
        note=note,
    )


def with_guards(rows: Sequence[ProofRow], model: LockModel, stats: Stats) -> tuple[ProofRow, ...]:
    """Rows with that of the guards before those about the whole image, which come last."""
    if not model.regions:
        return tuple(rows)
    at = len(rows) - sum(not row.model for row in rows)
    return (*rows[:at], guards_row(model, stats), *rows[at:])
