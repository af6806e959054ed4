# SPDX-License-Identifier: Apache-2.0
"""The sample output of the how-to about MLPerf Tiny is that of the table on the same page."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto-mlperf.md").read_text()


def row(label: str) -> list[str]:
    """Cells of a row of the table: image classification, keyword spotting and so on."""
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| {label} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def sample(pattern: str) -> float:
    found = re.search(pattern, PAGE)
    assert found is not None, pattern
    return float(found[1].replace(",", ""))


def test_the_sample_of_keyword_spotting_agrees_with_the_table() -> None:
    for label, pattern in (
        ("compiled by us, instructions", r"cost +([\d,]+) instructions an inference"),
        ("compiled by us, cycles (estimate)", r"estimate +([\d,]+) cycles"),
    ):
        stated = row(label)[1]
        assert f"{sample(pattern) / 1e6:.2f} M" == stated


def test_the_figures_of_the_sample_follow_from_each_other() -> None:
    count, seconds = sample(r"# Inferences : ([\d,]+)"), sample(r"Runtime: ([\d.]+) sec")
    assert f"median     {count / seconds:.3f} inferences/s" in PAGE
    assert f"{seconds:.6f}        {count / seconds:.3f}" in PAGE
    assert f"windows    5 of {count:.0f} inferences" in PAGE
    assert abs(sample(r"Throughput: ([\d.]+) inf") - count / seconds) < 1e-9
