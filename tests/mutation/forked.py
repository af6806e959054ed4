# SPDX-License-Identifier: Apache-2.0
"""Runs the pending mutations of a Cosmic Ray session, each in a forked child of one process.

    python tests/mutation/forked.py SESSION MODULE TIMEOUT_S TEST...      # in a tree of its own

Libraries are imported once, before the forks; the package itself in each child, with the changed module in place
of the one on disk, which stays as it is: a run that is stopped leaves nothing behind.
"""

from __future__ import annotations

import difflib
import importlib.abc
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import cosmic_ray.plugins
import pytest
from cosmic_ray.mutating import mutate_code
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkItem, WorkResult

PACKAGE = Path("sdk/mlf_sdk")
LIBRARIES = ("capstone", "cobs", "elftools.elf.elffile", "jinja2", "msgspec", "numpy", "rich.console")


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, and loads it from a text; a plugin of pytest, to come before pytest's own finder."""

    def __init__(self, path: Path, text: str) -> None:
        self.name = ".".join(path.with_suffix("").relative_to("sdk").parts)
        self.path, self.text = path.resolve(), text

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.text, str(self.path), "exec"), module.__dict__)


def survives(path: Path, text: str, tests: Sequence[str], timeout_s: float) -> bool:
    """Run the tests with a module's text in a child; False when a test failed, or none ended in time."""
    child = os.fork()
    if child == 0:
        os.setsid()  # what it starts ends with it
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(silent, stream)
        options = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        os._exit(pytest.main([*options, *tests], plugins=[Changed(path, text)]))
    status, end = None, time.monotonic() + timeout_s
    while status is None and time.monotonic() < end:
        done, found = os.waitpid(child, os.WNOHANG)
        status = found if done else None
        time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status is None:
        os.waitpid(child, 0)
    return status == 0


def run(database: WorkDB, item: WorkItem, path: Path, tests: Sequence[str], timeout_s: float) -> None:
    """Run one mutation and record its result."""
    (mutation,) = item.mutations
    operator = cosmic_ray.plugins.get_operator(mutation.operator_name)(**mutation.operator_args)
    text = path.read_text()
    changed = mutate_code(text, operator, mutation.occurrence)
    if changed is None:
        database.set_result(item.job_id, WorkResult(worker_outcome=WorkerOutcome.NO_TEST))
        return
    alive = survives(path, changed, tests, timeout_s)
    diff = difflib.unified_diff(text.splitlines(), changed.splitlines(), lineterm="", n=0)
    outcome = TestOutcome.SURVIVED if alive else TestOutcome.KILLED
    result = WorkResult(worker_outcome=WorkerOutcome.NORMAL, test_outcome=outcome, diff="\n".join(diff))
    database.set_result(item.job_id, result)


def main(argv: Sequence[str]) -> int:
    """Run what is pending; 1 when the tests fail without any change."""
    session, module, timeout_s, *tests = argv
    path = PACKAGE / module
    for name in LIBRARIES:
        importlib.import_module(name)
    if not survives(path, path.read_text(), tests, 10 * float(timeout_s)):
        print(f"{module}: its tests fail without a change, or take too long: {' '.join(tests)}")
        return 1
    if survives(path, "raise AssertionError", tests, float(timeout_s)):
        print(f"{module}: its tests do not import it: {' '.join(tests)}")
        return 1
    with use_db(session, WorkDB.Mode.open) as database:
        for item in list(database.pending_work_items):
            run(database, item, path, tests, float(timeout_s))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
