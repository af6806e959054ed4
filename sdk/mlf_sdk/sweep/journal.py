# SPDX-License-Identifier: Apache-2.0
"""Journal of a sweep: plans, cells, attempts, figures and logs, in an SQLite database.

Every change is one transaction, so that a process that is killed at any moment loses at most the attempt that
it was in. One client writes at a time; others may read, retry or cancel meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mlf_sdk.pipeline.cell import Cell, Reference
from mlf_sdk.sweep.expand import Expansion
from mlf_sdk.sweep.figures import figures_of
from mlf_sdk.sweep.job import JobResult, Spec
from mlf_sdk.sweep.plan import Plan
from mlf_sdk.sweep.schema import connect
from mlf_sdk.tools.serial import as_array, encode, to_plain

PLANNED, RUNNING, DONE, ASIDE, CANCELLED = "planned", "running", "done", "aside", "cancelled"
STATES = (DONE, RUNNING, PLANNED, ASIDE, CANCELLED)
MOST_DEATHS = 3
_BATCH = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a cell; times in seconds since 1970, ``ended`` None while it runs."""

    worker: str
    board: str
    started: float
    ended: float | None
    outcome: str
    note: str


class Journal:
    """The journal in a folder; a context manager that closes it.

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

    def __enter__(self) -> Journal:
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

    # ---- plans ----

    def add_plan(
        self, plan: Plan, found: Expansion, *, strict: bool = True, shard: tuple[int, int] = (1, 1)
    ) -> int:
        """Enter a plan with its cells; those that are finished stay so.

        Args:
            plan: for its title and gates.
            found: its cells and references.
            strict: unproven cells count as failed.
            shard: (i, n): enter the i-th of n parts of the cells alone.

        Returns:
            Number of the plan.
        """
        mine = [(at, cell) for at, cell in enumerate(found.cells) if in_shard(cell.spec.name, shard)]
        digest = hashlib.sha256()
        for cell in found.cells:
            digest.update(f"{cell.spec.name}{cell.labels}".encode())
        axes, gates = json.dumps(found.axes), msgspec.json.encode(plan.gates).decode()
        digest.update(f"{plan.name}{axes}{gates}{strict}".encode())
        with self.transaction():
            self.db.execute(
                "INSERT INTO plans (digest, title, axes, gates, strict, used) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (digest) DO UPDATE SET used = excluded.used",
                (digest.hexdigest(), plan.name, axes, gates, strict, time.time()),
            )
            number = int(
                self.db.execute("SELECT id FROM plans WHERE digest = ?", (digest.hexdigest(),)).fetchone()[0]
            )
            self.db.executemany(
                "INSERT INTO cells (name, spec, state) VALUES (?, ?, 'planned') "
                "ON CONFLICT (name) DO UPDATE SET spec = excluded.spec WHERE state != 'done'",
                ((cell.spec.name, msgspec.json.encode(cell.spec, enc_hook=to_plain)) for _, cell in mine),
            )
            self.db.executemany(
                "INSERT OR IGNORE INTO plan_cells VALUES (?, ?, ?, ?)",
                ((number, at, cell.spec.name, json.dumps(cell.labels)) for at, cell in mine),
            )
            self.db.executemany(
                "INSERT OR REPLACE INTO plan_references VALUES (?, ?, ?)",
                ((number, name, encode(spec)) for name, spec in found.references.items()),
            )
        return number

    def last_plan(self) -> int | None:
        """Number of the plan that was used last; None: there is none."""
        found = self.db.execute("SELECT id FROM plans ORDER BY used DESC, id DESC LIMIT 1").fetchone()
        return None if found is None else int(found[0])

    def plan(self, number: int) -> tuple[str, dict[str, list[str]], dict[str, Any], bool]:
        """Title, axes with their labels, gates, and strictness of a plan."""
        title, axes, gates, strict = self.db.execute(
            "SELECT title, axes, gates, strict FROM plans WHERE id = ?", (number,)
        ).fetchone()
        return title, json.loads(axes), json.loads(gates), bool(strict)

    def references(self, number: int) -> dict[str, Spec]:
        """Jobs of a plan that give expected outputs, by name."""
        rows = self.db.execute("SELECT name, spec FROM plan_references WHERE plan = ?", (number,))
        return {name: msgspec.json.decode(spec, type=Spec) for name, spec in rows}

    def pending(self, number: int) -> list[Spec]:
        """Cells of a plan that are to be run, in its order."""
        rows = self.db.execute(
            "SELECT spec FROM cells JOIN (SELECT cell, min(position) AS first FROM plan_cells WHERE plan = ? "
            "GROUP BY cell) ON cell = name WHERE state = 'planned' ORDER BY first",
            (number,),
        )
        decoder = msgspec.json.Decoder(Spec)
        return [decoder.decode(spec) for (spec,) in rows]

    # ---- what the engine writes ----

    def recover(self) -> int:
        """Return cells that a client left running to the plan; returns their number."""
        with self.transaction():
            self.db.execute(
                "UPDATE attempts SET outcome = 'lost', ended = ?, note = 'the client ended' "
                "WHERE ended IS NULL",
                (time.time(),),
            )
            return self.db.execute("UPDATE cells SET state = 'planned' WHERE state = 'running'").rowcount

    def start(self, name: str, worker: str, board: str = "") -> None:
        """Note that an attempt began."""
        with self.transaction():
            self.db.execute(
                "UPDATE cells SET state = 'running' WHERE name = ? AND state = 'planned'", (name,)
            )
            self.db.execute(
                "INSERT INTO attempts (cell, worker, board, started) VALUES (?, ?, ?, ?)",
                (name, worker, board, time.time()),
            )

    def end_attempt(self, name: str, outcome: str, note: str = "") -> bool:
        """Note how the attempt ended that was running; False: none was."""
        ended = self.db.execute(
            "UPDATE attempts SET ended = ?, outcome = ?, note = ? WHERE cell = ? AND ended IS NULL",
            (time.time(), outcome, note, name),
        )
        return ended.rowcount > 0

    def finish(self, result: JobResult) -> bool:
        """Keep the result of a cell; False: it was finished already, and nothing is changed."""
        cell = result.cell
        if cell is None:
            return False
        with self.transaction():
            done = self.db.execute(
                "UPDATE cells SET state = 'done', note = '', outcome = ?, seconds = ?, worker = ?, "
                "result = ? WHERE name = ? AND state != 'done'",
                (cell.outcome, result.seconds, result.worker, msgspec.json.encode(cell), result.name),
            )
            if not done.rowcount:
                return False
            if not self.end_attempt(result.name, cell.outcome):
                self.db.execute(
                    "INSERT INTO attempts (cell, worker, board, started, ended, outcome) "
                    "VALUES (?, ?, '', ?, ?, ?)",
                    (
                        result.name,
                        result.worker,
                        time.time() - result.seconds,
                        time.time(),
                        cell.outcome,
                    ),
                )
            self.db.execute("DELETE FROM figures WHERE cell = ?", (result.name,))
            self.db.executemany(
                "INSERT INTO figures VALUES (?, ?, ?)",
                ((result.name, name, value) for name, value in figures_of(cell).items()),
            )
            self.db.execute(
                "INSERT OR REPLACE INTO logs VALUES (?, ?)", (result.name, zlib.compress(result.log.encode()))
            )
        return True

    def give_back(self, name: str, outcome: str, note: str) -> None:
        """Return a cell to the plan whose attempt ended without a result and without its fault."""
        with self.transaction():
            self.end_attempt(name, outcome, note)
            self.db.execute(
                "UPDATE cells SET state = 'planned' WHERE name = ? AND state = 'running'", (name,)
            )

    def died(self, name: str, worker: str) -> bool:
        """Note that a cell's worker died; True: so often that the cell is set aside."""
        with self.transaction():
            self.end_attempt(name, "died", f"the worker {worker} died")
            self.db.execute(
                "UPDATE cells SET deaths = deaths + 1, state = 'planned' WHERE name = ? AND state != 'done'",
                (name,),
            )
            found = self.db.execute("SELECT deaths FROM cells WHERE name = ?", (name,)).fetchone()
            if found is None or found[0] < MOST_DEATHS:
                return False
            self.set_aside([name], f"it killed its worker {found[0]} times")
        return True

    def set_aside(self, names: Iterable[str], why: str) -> None:
        """Take cells out of the plan until `retry`."""
        with self.transaction():
            self.db.executemany(
                "UPDATE cells SET state = 'aside', note = ? WHERE name = ? AND state != 'done'",
                ((why, name) for name in names),
            )

    def set_board_aside(self, place: str, why: str) -> None:
        """Note that a board is dead, until `retry`."""
        with self.transaction():
            self.db.execute("INSERT OR REPLACE INTO boards VALUES (?, ?)", (place, why))

    def boards_aside(self) -> dict[str, str]:
        """Dead boards with the reasons."""
        return dict(self.db.execute("SELECT name, why FROM boards"))

    def put_reference(self, name: str, found: Reference) -> None:
        """Keep expected outputs."""
        with self.transaction():
            self.db.execute("INSERT OR REPLACE INTO refs VALUES (?, ?)", (name, encode(found)))

    def reference(self, name: str) -> Reference | None:
        """Expected outputs that were kept; None: there are none."""
        row = self.db.execute("SELECT result FROM refs WHERE name = ?", (name,)).fetchone()
        if row is None:
            return None
        found = msgspec.json.decode(row[0])
        outputs = found["outputs"]
        arrays = None if outputs is None else {key: as_array(value) for key, value in outputs.items()}
        return Reference(outputs=arrays, evidence=found["evidence"], fault=found["fault"])

    # ---- what people change ----

    def retry(self, names: Sequence[str] = (), *, outcomes: Iterable[str] = (), boards: bool = False) -> int:
        """Plan cells again.

        Args:
            names: of cells; empty: all that are set aside or cancelled, and those with ``outcomes``.
            outcomes: of finished cells.
            boards: use boards again that were set aside.

        Returns:
            Number of cells.
        """
        chosen = set(outcomes)
        with self.transaction():
            if boards:
                self.db.execute("DELETE FROM boards")
            rows = self.db.execute("SELECT name, state, outcome FROM cells").fetchall()
            again = [
                name
                for name, state, outcome in rows
                if (name in names if names else state in (ASIDE, CANCELLED) or outcome in chosen)
            ]
            self.db.executemany(
                "UPDATE cells SET state = 'planned', deaths = 0, note = '', outcome = NULL, result = NULL "
                "WHERE name = ?",
                ((name,) for name in again),
            )
            self.db.executemany("DELETE FROM figures WHERE cell = ?", ((name,) for name in again))
        return len(again)

    def cancel(self, names: Sequence[str] = ()) -> int:
        """Take cells out of the plan; empty: all that are not finished. Returns their number."""
        with self.transaction():
            rows = self.db.execute("SELECT name FROM cells WHERE state IN ('planned', 'running')").fetchall()
            chosen = [(name,) for (name,) in rows if not names or name in names]
            self.db.executemany(
                "UPDATE cells SET state = 'cancelled', note = 'cancelled' WHERE name = ?", chosen
            )
        return len(chosen)

    def cancelled(self) -> set[str]:
        """Names of cells that were cancelled."""
        return {name for (name,) in self.db.execute("SELECT name FROM cells WHERE state = 'cancelled'")}

    # ---- what is read ----

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
        return [
            (row[0], Attempt(**_attempt(row[1:])))
            for row in self.db.execute(f"{_ATTEMPTS} WHERE ended IS NULL")
        ]

    def attempts(self, name: str) -> list[Attempt]:
        """Attempts at a cell, in order."""
        rows = self.db.execute(f"{_ATTEMPTS} WHERE cell = ? ORDER BY id", (name,))
        return [Attempt(**_attempt(row[1:])) for row in rows]

    def log(self, name: str) -> str:
        """Log of a cell's last finished attempt; empty: there is none."""
        row = self.db.execute("SELECT text FROM logs WHERE cell = ?", (name,)).fetchone()
        return "" if row is None else zlib.decompress(row[0]).decode()

    def result(self, name: str) -> Cell | None:
        """Result of a cell; None: it is not finished."""
        row = self.db.execute("SELECT result FROM cells WHERE name = ?", (name,)).fetchone()
        return None if row is None or row[0] is None else msgspec.json.decode(row[0], type=Cell)

    def names_like(self, start: str) -> list[str]:
        """Names of cells that begin with ``start``."""
        rows = self.db.execute("SELECT name FROM cells WHERE substr(name, 1, ?) = ?", (len(start), start))
        return [name for (name,) in rows]


def in_shard(name: str, shard: tuple[int, int]) -> bool:
    """Return whether a cell belongs to the i-th of n parts, which its name decides."""
    number, count = shard
    return int(name[:12], 16) % count == number - 1


_ATTEMPTS = "SELECT cell, worker, board, started, ended, outcome, note FROM attempts"


def _attempt(row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(("worker", "board", "started", "ended", "outcome", "note"), row, strict=True))
