# SPDX-License-Identifier: Apache-2.0
"""Merge of journals, such as those of a plan's shards: every cell once, finished ones before others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlf_sdk.errors import InputError
from mlf_sdk.sweep.journal import Journal
from mlf_sdk.sweep.results import SweepResult, read_results, write_tables

_CELLS = """
INSERT INTO cells SELECT * FROM other.cells WHERE true
ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, state = excluded.state, deaths = excluded.deaths,
  note = excluded.note, outcome = excluded.outcome, seconds = excluded.seconds, worker = excluded.worker,
  result = excluded.result
WHERE cells.state != 'done' AND excluded.state = 'done'
"""
_COPIES = (
    "INSERT OR IGNORE INTO plan_references SELECT {plan}, name, spec FROM other.plan_references "
    "WHERE plan = {theirs}",
    "INSERT OR IGNORE INTO plan_cells SELECT {plan}, position, cell, labels FROM other.plan_cells "
    "WHERE plan = {theirs}",
    "INSERT INTO attempts (cell, worker, board, started, ended, outcome, note) "
    "SELECT cell, worker, board, started, ended, outcome, note FROM other.attempts AS a WHERE NOT EXISTS "
    "(SELECT 1 FROM attempts AS b WHERE b.cell = a.cell AND b.worker = a.worker AND b.started = a.started)",
    "INSERT OR IGNORE INTO figures SELECT * FROM other.figures",
    "INSERT OR IGNORE INTO logs SELECT * FROM other.logs",
    "INSERT OR IGNORE INTO refs SELECT * FROM other.refs",
)


def merge_sweeps(folders: Sequence[str | Path], output: str | Path) -> SweepResult:
    """Merge the last plans of several folders into one, and write its results.

    Args:
        folders: those of the parts.
        output: folder of the merged sweep; may be one of them, or hold parts already.

    Raises:
        InputError: a folder holds no sweep, or their plans differ.
    """
    with Journal(Path(output), create=True) as journal:
        for folder in folders:
            _merge(journal, Path(folder))
        last = journal.last_plan()
        if last is None:
            raise InputError("no folder was given", where="merge")
        result = read_results(journal, last)
    write_tables(result)
    return result


def _merge(journal: Journal, folder: Path) -> None:
    if folder.resolve() == journal.folder.resolve():
        return
    with Journal(folder) as other:
        theirs = other.last_plan()
        if theirs is None:
            raise InputError("the sweep has no plan", where=str(folder))
        path = other.db.execute("PRAGMA database_list").fetchone()[2]
    db = journal.db
    db.execute("ATTACH ? AS other", (path,))
    try:
        with journal.transaction():
            digest = db.execute("SELECT digest FROM other.plans WHERE id = ?", (theirs,)).fetchone()[0]
            known = [result for (result,) in db.execute("SELECT digest FROM plans")]
            if known and digest not in known:
                raise InputError(
                    "it is another plan than that of the folders before",
                    where=str(folder),
                    hint="Merge the shards of one plan, made with one version of the SDK and its compilers.",
                )
            db.execute(
                "INSERT OR IGNORE INTO plans (digest, title, axes, gates, strict, used) "
                "SELECT digest, title, axes, gates, strict, used FROM other.plans WHERE id = ?",
                (theirs,),
            )
            plan = db.execute("SELECT id FROM plans WHERE digest = ?", (digest,)).fetchone()[0]
            db.execute(_CELLS)
            for text in _COPIES:
                db.execute(text.format(plan=int(plan), theirs=int(theirs)))
    finally:
        db.execute("DETACH other")
