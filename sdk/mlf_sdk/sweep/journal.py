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
from collections.abc import Iterable, Sequence

import msgspec

from mlf_sdk.pipeline.cell import Reference
from mlf_sdk.sweep.expand import Expansion
from mlf_sdk.sweep.figures import figures_of
from mlf_sdk.sweep.job import JobResult
from mlf_sdk.sweep.journalview import JournalView
from mlf_sdk.sweep.plan import Plan
from mlf_sdk.tools.serial import as_array, encode, to_plain

DONE, ASIDE, CANCELLED, LOST = "done", "aside", "cancelled", "lost"
MOST_DEATHS = 3


class Journal(JournalView):
    """The journal in a folder, as the engine and people change it."""

    # ---- plans ----

    def add_plan(
        self, plan: Plan, expansion: Expansion, *, strict: bool = True, shard: tuple[int, int] = (1, 1)
    ) -> int:
        """Enter a plan with its cells; those that are finished stay so.

        Args:
            plan: for its title and gates.
            expansion: its cells and references.
            strict: unproven cells count as failed.
            shard: (i, n): enter the i-th of n parts of the cells alone.

        Returns:
            Number of the plan.
        """
        mine = [(at, cell) for at, cell in enumerate(expansion.cells) if in_shard(cell.spec.name, shard)]
        digest = hashlib.sha256()
        for cell in expansion.cells:
            digest.update(f"{cell.spec.name}{cell.labels}".encode())
        axes, gates = json.dumps(expansion.axes), msgspec.json.encode(plan.gates).decode()
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
                ((number, name, encode(spec)) for name, spec in expansion.references.items()),
            )
        return number

    # ---- what the engine writes ----

    def recover(self) -> int:
        """Return cells to the plan that a client left running, or that were lost; returns their number."""
        with self.transaction():
            self.db.execute(
                "UPDATE attempts SET outcome = 'lost', ended = ?, note = 'the client ended' "
                "WHERE ended IS NULL",
                (time.time(),),
            )
            return self.db.execute(
                "UPDATE cells SET state = 'planned', note = '' WHERE state IN ('running', 'lost')"
            ).rowcount

    def start(self, name: str, worker: str, board: str = "") -> None:
        """Note that an attempt began; one that still runs was lost with its scheduler."""
        with self.transaction():
            self.end_attempt(name, "lost")
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
            result = self.db.execute("SELECT deaths FROM cells WHERE name = ?", (name,)).fetchone()
            if result is None or result[0] < MOST_DEATHS:
                return False
            self.set_aside([name], f"it killed its worker {result[0]} times")
        return True

    def set_aside(self, names: Iterable[str], why: str, state: str = ASIDE) -> None:
        """Take cells out of the plan until `retry`; those with the state `LOST` until `recover`."""
        with self.transaction():
            self.db.executemany(
                "UPDATE cells SET state = ?, note = ? WHERE name = ? AND state != 'done'",
                ((state, why, name) for name in names),
            )

    def set_board_aside(self, place: str, why: str) -> None:
        """Note that a board is dead, until `retry`."""
        with self.transaction():
            self.db.execute("INSERT OR REPLACE INTO boards VALUES (?, ?)", (place, why))

    def boards_aside(self) -> dict[str, str]:
        """Dead boards with the reasons."""
        return dict(self.db.execute("SELECT name, why FROM boards"))

    def put_reference(self, name: str, reference: Reference) -> None:
        """Keep expected outputs."""
        with self.transaction():
            self.db.execute("INSERT OR REPLACE INTO refs VALUES (?, ?)", (name, encode(reference)))

    def reference(self, name: str) -> Reference | None:
        """Expected outputs that were kept; None: there are none."""
        row = self.db.execute("SELECT result FROM refs WHERE name = ?", (name,)).fetchone()
        if row is None:
            return None
        result = msgspec.json.decode(row[0])
        outputs = result["outputs"]
        arrays = None if outputs is None else {key: as_array(value) for key, value in outputs.items()}
        return Reference(outputs=arrays, evidence=result["evidence"], fault=result["fault"])

    # ---- what people change ----

    def retry(self, names: Sequence[str] = (), *, outcomes: Iterable[str] = (), boards: bool = False) -> int:
        """Plan cells again.

        Args:
            names: of cells; empty: all that are set aside, cancelled or lost, and those with ``outcomes``.
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
                if (name in names if names else state in (ASIDE, CANCELLED, LOST) or outcome in chosen)
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


def in_shard(name: str, shard: tuple[int, int]) -> bool:
    """Return whether a cell belongs to the i-th of n parts, which its name decides."""
    number, count = shard
    return int(name[:12], 16) % count == number - 1
