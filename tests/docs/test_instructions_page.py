# SPDX-License-Identifier: Apache-2.0
"""The table of instructions by core and goal: what its script marks, and what the page leaves to say."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from docs_scripts import docs_script

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return docs_script("instructions")


def test_what_grew_is_marked(script: ModuleType) -> None:
    before = {"instructions": 1000, "arena": 100, "flash": 9}
    cells = {
        "a M4 size": {"instructions": 1005, "arena": 100, "flash": 10, "verdict": "PASS"},
        "b M4 size": {"instructions": 1006, "arena": 101, "flash": 10, "verdict": "FAIL"},
        "c M4 size": {"instructions": 7, "arena": 8, "flash": 9, "verdict": "PASS"},
        "d M4 size": {"error": "does not fit"},
    }
    assert list(script.rows(cells, {"a M4 size": before, "b M4 size": before})) == [
        "| a | M4 | size | 1,005 | +0.5 % | 100 | +0.0 % | 10 |",
        "| b | M4 | size | 1,006 | **+0.6 %** | 101 | **+1.0 %** | 10 **FAIL** |",
        "| c | M4 | size | 7 |  | 8 |  | 9 |",
        "| d | M4 | size | does not fit | | | | |",
    ]


def test_each_larger_arena_has_its_reason(script: ModuleType) -> None:
    said, _, table = script.PAGE.read_text().partition(script.MARK)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[3:]]
    assert len(rows) == 4 * len(script.CORES) * len(script.GOALS)
    names = {
        "kws_int8": "keyword\nspotting",
        "vww_int8": "visual wake words",
        "resnet8_int8": "image classification",
    }
    for model, core, _, _, change, _, arena, flash in rows:
        assert "**" not in change and re.fullmatch(r"[\d,]+", flash)
        assert "**" not in arena or (core == "M55" and names[model] in said)
