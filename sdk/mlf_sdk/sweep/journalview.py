# SPDX-License-Identifier: Apache-2.0
"""Journal of a sweep as it is read: plans, states, attempts, results and logs."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mlf_sdk.pipeline.cell import Cell
from mlf_sdk.sweep.job import Spec
from mlf_sdk.sweep.schema import connect
from mlf_sdk.tools.rowfile import described

JournalViewT = TypeVar("JournalViewT", bound="JournalView")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a cell; times in seconds since 1970, ``ended`` None while it runs."""

    worker: str
    board: str
    started: float
    ended: float | None
    outcome: str
    note: str


class JournalView:
    """Connection to a journal, and all that is read from it; a context manager that closes it.

    Args:
        folder: of the sweep.
        create: make it where there is none.

    Raises:
        InputError: there is none, or it is of another version.
        ToolError: it is damaged or can't be written.
    """

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        self.folder = folder
        self.db = connect(folder, create=create)

    def __enter__(self: JournalViewT) -> JournalViewT:
        """Use it in a with block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes in the block, or none of them; inside of another one, part of it."""
        if self.db.in_transaction:
            yield
            return
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def last_plan(self) -> int | None:
        """Number of the plan that was used last; None: there is none."""
        result = self.db.execute("SELECT id FROM plans ORDER BY used DESC, id DESC LIMIT 1").fetchone()
        return None if result is None else int(result[0])

    def plan(self, number: int) -> tuple[str, dict[str, list[str]], dict[str, Any], bool]:
        """Title, axes with their labels, gates, and strictness of a plan."""
        title, axes, gates, strict = self.db.execute(
            "SELECT title, axes, gates, strict FROM plans WHERE id = ?", (number,)
        ).fetchone()
        return title, json.loads(axes), json.loads(gates), bool(strict)

    def references(self, number: int) -> dict[str, Spec]:
        """Jobs of a plan that give expected outputs, by name."""
        rows = self.db.execute("SELECT name, spec FROM plan_references WHERE plan = ?", (number,))
        return {name: msgspec.json.decode(spec, type=described(Spec)) for name, spec in rows}

    def pending(self, number: int) -> list[Spec]:
        """Cells of a plan that are to be run, in its order."""
        rows = self.db.execute(
            "SELECT spec FROM cells JOIN (SELECT cell, min(position) AS first FROM plan_cells WHERE plan = ? "
            "GROUP BY cell) ON cell = name WHERE state = 'planned' ORDER BY first",
            (number,),
        )
        decoder = msgspec.json.Decoder(described(Spec))
        return [decoder.decode(spec) for (spec,) in rows]

    def titles(self, number: int) -> dict[str, str]:
        """Labels of a plan's cells that are to be run, as one text by name."""
        rows = self.db.execute(
            "SELECT cell, labels FROM plan_cells JOIN cells ON cell = name "
            "WHERE plan = ? AND state = 'planned'",
            (number,),
        )
        return {name: ", ".join(json.loads(labels).values()) for name, labels in rows}

    def counts(self, number: int) -> Mapping[str, int]:
        """Cells of a plan by state."""
        rows = self.db.execute(
            "SELECT state, count(*) FROM cells WHERE name IN (SELECT cell FROM plan_cells WHERE plan = ?) "
            "GROUP BY state",
            (number,),
        )
        return dict(rows)

    def running(self) -> list[tuple[str, Attempt]]:
        """Attempts that have not ended, by name of their cell."""
        return [(row[0], _attempt(row)) for row in self.db.execute(f"{_ATTEMPTS} WHERE ended IS NULL")]

    def attempts(self, name: str) -> list[Attempt]:
        """Attempts at a cell, in order."""
        rows = self.db.execute(f"{_ATTEMPTS} WHERE cell = ? ORDER BY id", (name,))
        return [_attempt(row) for row in rows]

    def log(self, name: str) -> str:
        """Log of a cell's last finished attempt; empty: there is none."""
        row = self.db.execute("SELECT text FROM logs WHERE cell = ?", (name,)).fetchone()
        return "" if row is None else zlib.decompress(row[0]).decode()

    def result(self, name: str) -> Cell | None:
        """Result of a cell; None: it is not finished."""
        row = self.db.execute("SELECT result FROM cells WHERE name = ?", (name,)).fetchone()
        return None if row is None or row[0] is None else msgspec.json.decode(row[0], type=described(Cell))

    def names_like(self, start: str) -> list[str]:
        """Names of cells that begin with ``start``."""
        rows = self.db.execute("SELECT name FROM cells WHERE substr(name, 1, ?) = ?", (len(start), start))
        return [name for (name,) in rows]


_ATTEMPTS = "SELECT cell, worker, board, started, ended, outcome, note FROM attempts"


def _attempt(row: Sequence[Any]) -> Attempt:
    names = ("worker", "board", "started", "ended", "outcome", "note")
    return Attempt(**dict(zip(names, row[1:], strict=True)))
