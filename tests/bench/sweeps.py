# SPDX-License-Identifier: Apache-2.0
"""Figures of sweeps: overhead a cell, plan, resumption, page; and a farm that is simulated."""

from __future__ import annotations

import itertools
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from archives import Spec as ArchiveSpec
from archives import build, write
from chromium import PROGRAM, Chromium
from farm import Farm, FarmReport, FarmWorker
from mlf_sdk.reporting.sweeppage import write_page
from mlf_sdk.sweep.engine import Engine
from mlf_sdk.sweep.events import Watcher
from mlf_sdk.sweep.expand import Expansion, PlannedCell, expand
from mlf_sdk.sweep.job import Job
from mlf_sdk.sweep.journal import Journal
from mlf_sdk.sweep.plan import Plan, checked_plan
from mlf_sdk.sweep.results import read_results
from sweep_jobs import empty, expansion, specs

EMPTY_CELLS, PLANNED_CELLS, FINISHED_CELLS, PAGE_CELLS = 1_000, 100_000, 10_000, 2_000
TARGETS = {
    "overhead_ms_a_cell": 20,
    "plan_100000_cells_s": 30,
    "plan_100000_cells_mb": 500,
    "resume_10000_cells_s": 2,
    "page_2000_cells_s": 2,
    "farm_idle_share": 0.1,
}


def overhead_ms() -> float:
    """Milliseconds a cell of 1,000 empty cells on a cluster of two processes, its start left out."""
    from mlf_sdk.sweep.cluster import open_cluster

    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder), create=True) as journal:
        cells = specs(EMPTY_CELLS)
        number = journal.add_plan(Plan(name="empty"), expansion(cells))
        with open_cluster(2, None, (), empty) as cluster:
            Engine(journal, cluster, {}, Watcher()).run(journal.pending(number)[:20])
            start = time.monotonic()
            Engine(journal, cluster, {}, Watcher()).run(journal.pending(number))
            seconds = time.monotonic() - start
        if dict(journal.counts(number)) != {"done": EMPTY_CELLS}:
            raise RuntimeError(f"cells are missing: {journal.counts(number)}")
    return seconds / (EMPTY_CELLS - 20) * 1e3


def plan_figures() -> tuple[float, float]:
    """Seconds to plan and journal 100,000 cells, and the process's largest memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        archive = write(build(ArchiveSpec()), Path(folder) / "tiny.tar")
        rtol = [number / 1e6 for number in range(1, PLANNED_CELLS // 100 + 1)]
        axes = {
            "model": [str(archive)],
            "board": ["mps2-an386", "mps2-an385"],
            "cflags": [f"-O{n}" for n in (0, 1, 2, 3, "s")],
            "rtol": rtol,
            "atol": [number / 1e3 for number in range(1, 11)],
        }
        start = time.monotonic()
        plan = checked_plan(Plan(axes=axes), "bench")
        with Journal(Path(folder), create=True) as journal:
            number = journal.add_plan(plan, expand(plan))
            seconds = time.monotonic() - start
            if sum(journal.counts(number).values()) != PLANNED_CELLS:
                raise RuntimeError("cells are missing")
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resume_seconds() -> float:
    """Seconds to open a sweep of 10,000 finished cells and to find that nothing is left."""
    with tempfile.TemporaryDirectory() as folder:
        cells = specs(FINISHED_CELLS)
        with Journal(Path(folder), create=True) as journal:
            journal.add_plan(Plan(name="finished"), expansion(cells))
            with journal.transaction():
                for cell in cells:
                    journal.finish(empty(Job(spec=cell)))
        start = time.monotonic()
        with Journal(Path(folder)) as journal:
            number = journal.last_plan() or 0
            journal.recover()
            if journal.pending(number) or len(read_results(journal, number).rows) != FINISHED_CELLS:
                raise RuntimeError("cells are missing")
        return time.monotonic() - start


def page_figures() -> tuple[int, float | None]:
    """Size of the page of 2,000 cells, and seconds until Chromium has opened it; None without Chromium.

    25 models on 8 boards with 10 options.
    """
    axes = {
        name: tuple(f"{name} {at}" for at in range(count))
        for name, count in (("model", 25), ("board", 8), ("cflags", 10))
    }
    labels = [dict(zip(axes, chosen, strict=True)) for chosen in itertools.product(*axes.values())]
    cells = specs(PAGE_CELLS)
    planned = tuple(PlannedCell(spec=spec, labels=one) for spec, one in zip(cells, labels, strict=True))
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder), create=True) as journal:
        found = Expansion(axes=axes, cells=planned, references={})
        number = journal.add_plan(Plan(name="page"), found)
        with journal.transaction():
            for cell in cells:
                journal.finish(empty(Job(spec=cell)))
        page = write_page(read_results(journal, number))
        size = page.stat().st_size
        if PROGRAM is None:
            return size, None
        browser = Chromium(Path(folder) / "profile")
        try:
            browser.open(page, width=1300)
            opened_ms = browser.ask("performance.getEntriesByType('navigation')[0].loadEventEnd")
            rows = browser.ask("document.querySelectorAll('#pivot-table tbody tr').length")
        finally:
            browser.close()
        if not rows:
            raise RuntimeError("the page shows no cells")
        return size, opened_ms / 1e3


def farm_report(cells: int = 20_000, workers: int = 200, scarce: int = 0) -> FarmReport:
    """A farm of 200 workers, a tenth of them three times as slow, of which 1 % of the cells kill one.

    Args:
        cells: of the plan.
        workers: of the farm.
        scarce: cells that need the only board of its kind.
    """
    farm = Farm(
        [
            FarmWorker(frozenset({"cc"}), slowness=3.0 if number % 10 == 0 else 1.0)
            for number in range(workers)
        ],
        death_rate=0.01,
    )
    farm.workers[-1].resources |= {"board labgrid:desk"}
    planned = specs(cells - scarce, resources=("cc",)) + specs(scarce, cells, places=("labgrid:desk",))
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder), create=True) as journal:
        number = journal.add_plan(Plan(name="farm"), expansion(planned))
        Engine(journal, farm, {}, Watcher(), wait_s=600.0, clock=lambda: farm.now_s).run(
            journal.pending(number)
        )
        if set(journal.counts(number)) - {"done", "aside"}:
            raise RuntimeError("cells are missing")
    return farm.report()


def figures() -> dict[str, Any]:
    """All figures; each in a process of its own where memory is one of them."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, "plan"]
    told = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=600, env=environ
    ).stdout
    seconds, megabytes = map(float, told.split())
    size, opened_s = page_figures()
    farm, board = farm_report(), farm_report(cells=4_000, scarce=200)
    return {
        "overhead_ms_a_cell": round(overhead_ms(), 2),
        "plan_100000_cells_s": round(seconds, 2),
        "plan_100000_cells_mb": round(megabytes),
        "resume_10000_cells_s": round(resume_seconds(), 3),
        "page_2000_cells_bytes": size,
        "page_2000_cells_s": opened_s,
        "farm_idle_share": round(1 - farm.utilisation, 3),
        "farm_bottleneck": farm.bottleneck,
        "farm_with_one_board_bottleneck": board.bottleneck,
        "farm_with_one_board_share": round(board.bottleneck_share, 3),
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["plan"]:
        print(*plan_figures())
    else:
        print(figures())
