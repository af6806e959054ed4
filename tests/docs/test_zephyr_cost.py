# SPDX-License-Identifier: Apache-2.0
"""The table of what a model costs on Zephyr: its script, and with a tree, its figures."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from docs_scripts import docs_script
from mlf_sdk.targets.zephyr.build import ZephyrSetup

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script() -> ModuleType:
    return docs_script("zephyr_cost")


def test_the_page_has_a_table_that_the_script_reads_and_writes(script: ModuleType) -> None:
    page = script.PAGE.read_text()
    columns = script.read_table(page)
    assert len(columns) >= 2 and all(len(column) == len(script.ROWS) for column in columns.values())
    assert script.write_table(page, columns) == page
    for column in columns.values():  # flash and RAM grow with what is built
        flash, ram = zip(
            *([int(part.replace(",", "")) for part in cell.split(" / ")] for cell in column), strict=True
        )
        assert list(flash) == sorted(flash) and list(ram) == sorted(ram)


def test_a_column_is_replaced_and_the_others_stay(script: ModuleType) -> None:
    page = f"before\n{script.BEGIN}\n\n| | 3.2.99 |\n|---|---|\n| a | 1 |\n| b | 2 |\n| c | 3 |\n\n{script.END}\nafter\n"
    assert script.read_table(page) == {"3.2.99": ["1", "2", "3"]}
    written = script.write_table(page, {**script.read_table(page), "3.10.0": ["4", "5", "6"]})
    assert "| | 3.2.99 | 3.10.0 |" in written and written.startswith("before") and written.endswith("after\n")
    assert script.read_table(written) == {"3.2.99": ["1", "2", "3"], "3.10.0": ["4", "5", "6"]}


@pytest.mark.zephyr
@pytest.mark.slow
def test_the_figures_are_those_of_this_tree(script: ModuleType) -> None:
    setup = ZephyrSetup()
    if not setup.environ.get("ZEPHYR_BASE"):
        pytest.skip("no Zephyr tree: set ZEPHYR_BASE")
    version, found = script.measure(setup.tree().base)
    columns = script.read_table(script.PAGE.read_text())
    if version not in columns:
        pytest.skip(f"the page has no column for Zephyr {version}")
    assert [f"{flash:,} / {ram:,}" for flash, ram in found] == columns[version]
