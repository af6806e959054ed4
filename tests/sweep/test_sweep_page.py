# SPDX-License-Identifier: Apache-2.0
"""The page of 2,000 cells in a browser: nothing external, no error, not wider than a telephone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from chromium import PROGRAM, Chromium
from mlf_sdk.pipeline.cell import NOT_HERE
from mlf_sdk.reporting.sweeppage import render_sweep, write_page
from mlf_sdk.sweep.expand import Expansion, PlannedCell
from mlf_sdk.sweep.job import Job
from mlf_sdk.sweep.journal import Journal
from mlf_sdk.sweep.plan import Plan
from mlf_sdk.sweep.results import SweepResult, read_results
from sweep_jobs import empty, specs

AXES = {
    "model": [f"model {number}.tflite" for number in range(4)],
    "board": [f"board-{number}" for number in range(10)],
    "cflags": [f"-O{number}" for number in range(50)],
}


def swept(folder: Path, hostile: str = "") -> SweepResult:
    """4 models on 10 boards with 50 options; flash falls and instructions grow with the option."""
    labels = [(m, b, c) for m in AXES["model"] for b in AXES["board"] for c in AXES["cflags"]]
    cells = specs(len(labels))
    planned = tuple(
        PlannedCell(spec=spec, labels=dict(zip(AXES, label, strict=True)))
        for spec, label in zip(cells, labels, strict=True)
    )
    with Journal(folder, create=True) as journal:
        axes = {axis: tuple(values) for axis, values in AXES.items()}
        found = Expansion(axes=axes, cells=planned, references={})
        number = journal.add_plan(Plan(name=f"page {hostile}"), found)
        with journal.transaction():
            for at, spec in enumerate(cells):
                result, option = empty(Job(spec=spec)), at % 50
                outcome = NOT_HERE if at % 40 == 39 else result.cell.outcome
                figures = {
                    "flash_bytes": 90_000 - 100 * option,
                    "instructions": 1_000 + option,
                    "ram_bytes": 7,
                }
                cell = msgspec.structs.replace(result.cell, outcome=outcome, why=hostile, **figures)
                journal.finish(replace(result, cell=cell, log=f"{hostile} log of {at}"))
        return read_results(journal, number)


def test_no_text_of_a_cell_ends_a_script(tmp_path: Path) -> None:
    found = swept(tmp_path, "</script><script>alert(1)</script>")
    page = render_sweep(found, {found.rows[0].name: "</script><b>"}).decode()
    assert page.count("<script") == page.count("</script>") == 3
    assert "alert(1)</script>" not in page


@pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")
def test_the_page_of_many_cells(tmp_path: Path) -> None:
    page = write_page(swept(tmp_path / "s"))
    browser = Chromium(tmp_path / "profile")
    try:
        for width in (400, 1200):
            browser.open(page, width=width)
            assert browser.logged() == [] and browser.requested() == [page.resolve().as_uri()]
            assert browser.ask("document.documentElement.scrollWidth") == width
            assert browser.ask("document.querySelectorAll('#pivot-table tbody tr').length") == 4
            assert (
                browser.ask("document.querySelectorAll('#pivot-table tbody tr:first-child td').length") == 10
            )
        # every option of a model is on the front: less flash costs instructions
        assert browser.ask("document.querySelectorAll('#pareto-picture .front').length") > 400
        line = browser.ask("document.querySelector('#pareto-picture .front-line').getAttribute('points')")
        heights = [float(point.split(",")[1]) for point in line.split()]
        assert heights == sorted(heights), "the line of the front falls from left to right"
        assert browser.ask("ticks([3, 1940]).join()") == "0,500,1000,1500,2000"
        assert browser.ask("ticks([7]).join()") == "6,8"
        assert (
            browser.ask("ticks([0.12, 0.31]).map((one) => one.toFixed(2)).join()")
            == "0.10,0.15,0.20,0.25,0.30,0.35"
        )
        column = (
            "[...document.querySelectorAll('#cells-table tbody tr')].map(r => r.children[{}].textContent)"
        )
        heads = browser.ask("[...document.querySelectorAll('#cells-table thead th')].map(h => h.textContent)")
        assert heads[:4] == ["cell", "model", "board", "cflags"]
        at = heads.index("flash bytes")
        browser.ask(f"document.querySelectorAll('#cells-table thead th')[{at}].firstChild.click()")
        rising = [int(text.replace(",", "")) for text in browser.ask(column.format(at))]
        assert rising == sorted(rising)
        assert rising[0] == 90_000 - 100 * 49
        browser.ask(f"document.querySelectorAll('#cells-table thead th')[{at}].firstChild.click()")
        assert browser.ask(column.format(at)) == [f"{value:,}" for value in reversed(rising)]
        browser.open(page, width=400)
        assert browser.ask("document.querySelector('#pareto-picture svg').clientWidth") >= 600
        assert browser.ask("document.documentElement.scrollWidth") == 400
        browser.open(page, width=1200)
        browser.ask("document.querySelector('#pivot-table button').click()")
        assert browser.ask("document.getElementById('detail').open")
        assert "log of" in browser.ask("document.querySelector('#detail pre').textContent")
        browser.ask(
            "rowBox.value = 'cflags'; columnBox.value = 'model'; rowBox.dispatchEvent(new Event('change'))"
        )
        assert browser.ask("document.querySelectorAll('#pivot-table tbody tr').length") == 50
        browser.ask("columnBox.value = 'cflags'; columnBox.dispatchEvent(new Event('change'))")
        assert browser.ask("document.querySelectorAll('#pivot-table tbody td button').length") == 50
        assert browser.logged() == []
    finally:
        browser.close()
