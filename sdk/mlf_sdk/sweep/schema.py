# SPDX-License-Identifier: Apache-2.0
"""Tables of a sweep's journal, and its connection."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec

from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.pipeline.cell import NOT_HERE

JOURNAL_NAME = "journal.sqlite"
SCHEMA = 2
_WAIT_S = 60.0
_TABLES = """
CREATE TABLE IF NOT EXISTS plans (
  id INTEGER PRIMARY KEY, digest TEXT UNIQUE NOT NULL, title TEXT NOT NULL, axes TEXT NOT NULL,
  gates TEXT NOT NULL, strict INTEGER NOT NULL, used REAL NOT NULL);
CREATE TABLE IF NOT EXISTS cells (
  name TEXT PRIMARY KEY, spec BLOB NOT NULL, state TEXT NOT NULL, deaths INTEGER NOT NULL DEFAULT 0,
  note TEXT NOT NULL DEFAULT '', outcome TEXT, seconds REAL, worker TEXT, result BLOB) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS cells_by_state ON cells (state);
CREATE TABLE IF NOT EXISTS plan_cells (
  plan INTEGER NOT NULL, position INTEGER NOT NULL, cell TEXT NOT NULL, labels TEXT NOT NULL,
  PRIMARY KEY (plan, position)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS plan_cells_by_cell ON plan_cells (cell);
CREATE TABLE IF NOT EXISTS plan_references (
  plan INTEGER NOT NULL, name TEXT NOT NULL, spec BLOB NOT NULL, PRIMARY KEY (plan, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS attempts (
  id INTEGER PRIMARY KEY, cell TEXT NOT NULL, worker TEXT NOT NULL, board TEXT NOT NULL,
  started REAL NOT NULL, ended REAL, outcome TEXT NOT NULL DEFAULT 'running', note TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS attempts_by_cell ON attempts (cell);
CREATE TABLE IF NOT EXISTS figures (
  cell TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY (cell, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS logs (cell TEXT PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS refs (name TEXT PRIMARY KEY, result BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS boards (name TEXT PRIMARY KEY, why TEXT NOT NULL) WITHOUT ROWID;
"""


def connect(folder: Path, *, create: bool) -> sqlite3.Connection:
    """Open the journal of a folder, in WAL mode: a commit outlives the process that made it.

    Raises:
        InputError: there is none, or it is of another version.
        ToolError: the file is damaged or can't be written.
    """
    path = folder / JOURNAL_NAME
    if not create and not path.is_file():
        raise InputError(
            "there is no sweep",
            where=str(folder),
            hint="Give the folder that 'mlf-sdk sweep -o FOLDER' wrote.",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        result = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)
        try:
            _prepare(result, path)
        except BaseException:
            result.close()
            raise
    except (sqlite3.Error, OSError) as error:
        raise ToolError(f"the journal can't be used: {error}", where=str(path)) from error
    return result


def _prepare(journal: sqlite3.Connection, path: Path) -> None:
    journal.execute("PRAGMA journal_mode=WAL")
    journal.execute("PRAGMA synchronous=NORMAL")
    version = _version(journal)
    if version not in (0, 1, SCHEMA):
        raise InputError(
            f"the journal is of version {version}; this SDK writes {SCHEMA}",
            where=str(path),
            hint="Start the sweep in another folder.",
        )
    if version == 0:
        journal.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version={SCHEMA}; COMMIT;")
    if version == 1:
        _find_lost(journal)


def _version(journal: sqlite3.Connection) -> int:
    return int(journal.execute("PRAGMA user_version").fetchone()[0])


def _find_lost(journal: sqlite3.Connection) -> None:
    """Mark cells as lost that version 1 took for impossible: nothing had been read of their models.

    Expected outputs are made again: a host twin could be lost in the same way.
    """
    journal.execute("BEGIN IMMEDIATE")
    try:
        if _version(journal) == 1:
            rows = journal.execute(
                "SELECT name, result FROM cells WHERE state = 'done' AND outcome = ?", (NOT_HERE,)
            ).fetchall()
            lost = [(note, name) for name, result in rows if (note := _lost_by(result))]
            journal.executemany(
                "UPDATE cells SET state = 'lost', note = ?, outcome = NULL, result = NULL WHERE name = ?",
                lost,
            )
            journal.execute("DELETE FROM refs")
            journal.execute(f"PRAGMA user_version={SCHEMA}")
    except BaseException:
        journal.execute("ROLLBACK")
        raise
    journal.execute("COMMIT")


def _lost_by(result: bytes) -> str:
    """Error that ended a cell of version 1 before its model was read; empty: it is known to be impossible."""
    results = msgspec.json.decode(result)
    is_known = bool(results["model"]) or results["why"].startswith(("refused: ", "the image does not fit: "))
    return "" if is_known else str(results["why"])
