# SPDX-License-Identifier: Apache-2.0
"""Rows of a profile: medians, shares, what the shapes say, and how it is shown."""

from __future__ import annotations

import dataclasses

import pytest
from rich.console import Console

from archives import Spec, build, write
from mlf_sdk.judge.profile import Costs, Profile, Work, step_rows, works_of
from mlf_sdk.judge.stepcosts import scaled
from mlf_sdk.pipeline.api import load
from mlf_sdk.reporting.profile import bar, profile_parts
from mlf_sdk.reporting.values import result_values
from planning import plan_project

COSTS = Costs(totals=(110, 130, 120), names=("a", "b"), rows=((60, 40), (70, 45), (50, 60)))


def sample(**changes: object) -> Profile:
    works = (Work(macs=30, read_bytes=1, params_bytes=2, written_bytes=3, workspace_bytes=4), Work())
    steps = step_rows(COSTS, works)
    profile = Profile(
        model="tiny",
        archive_sha256="00" * 32,
        board="somewhere",
        rows="steps",
        unit="cycles",
        hz=1_000_000,
        runs=3,
        steps=steps,
        overhead=120 - 105,
        total=120,
        resolution=1,
        method="a clock",
        notes=("a note",),
    )
    return dataclasses.replace(profile, **changes)  # type: ignore[arg-type]


def test_medians_and_spread() -> None:
    first, second = step_rows(COSTS, (Work(), Work()))
    assert (first.cost, first.least, first.most) == (60, 50, 70)
    assert (second.cost, second.least, second.most) == (45, 40, 60)
    assert first.share == 60 / 120
    even = Costs(totals=(4, 1, 3, 2), names=("a",), rows=((4,), (1,), (3,), (2,)))
    assert step_rows(even, (Work(),))[0].cost == 2


def test_costs_in_another_unit_are_rounded() -> None:
    costs = Costs(totals=(3,), names=("a",), rows=((1,),))
    assert scaled(costs, 1_000_000_000, 25_000_000) == Costs(totals=(120,), names=("a",), rows=((40,),))
    assert scaled(costs, 1, 2).totals == (2,)


def test_what_the_shapes_say(tmp_path) -> None:
    model = load(write(build(Spec(dtype="float32", nop=True)), tmp_path / "tiny.tar"))
    lock = plan_project([model], board="mps2-an386").lock.models[0]
    works = works_of(lock)
    names = [step.symbol.removeprefix("tvmgen_tiny_") for step in lock.steps]
    found = dict(zip(names, works, strict=True))
    multiply = found["fused_multiply"]
    assert (multiply.read_bytes, multiply.params_bytes, multiply.written_bytes) == (32, 32, 32)
    assert (multiply.macs, multiply.workspace_bytes, multiply.moved_bytes) == (None, 0, 96)
    smooth = found["fused_smooth"]
    assert (smooth.read_bytes, smooth.params_bytes, smooth.workspace_bytes) == (32, 0, 40)
    assert smooth.moved_bytes == 32 + 32 + 40


def test_nothing_is_moved_where_a_part_is_not_known() -> None:
    assert Work(read_bytes=1, params_bytes=2, written_bytes=3).moved_bytes is None


@pytest.mark.parametrize(("share", "blocks"), [(0, 0), (0.02, 0), (0.5, 10), (1, 20), (1.7, 20), (-0.1, 0)])
def test_bars(share: float, blocks: int) -> None:
    assert bar(share) == "█" * blocks


def shown(profile: Profile) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        for part in profile_parts(profile):
            console.print(part)
    return captured.get()


def test_the_table_adds_up() -> None:
    text = shown(sample())
    assert "3 runs; a clock" in text
    assert "a note" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["0", "50.0%", "██████████", "60", "50", "70", "30", "2.00", "10", "a"] in rows
    assert ["1", "37.5%", "████████", "45", "40", "60", "-", "-", "-", "b"] in rows
    assert ["12.5%", "15", "the", "executor"] in rows
    assert ["120", "30", "4.00", "-", "total"] in rows


def test_kernels_inside_have_no_shapes_and_one_run_no_spread() -> None:
    text = shown(sample(rows="kernels", runs=1, unit="instructions"))
    assert "MACs" not in text
    assert "least" not in text
    assert "2 kernel calls" in text


def test_plain_values() -> None:
    values = result_values(sample())
    assert values["total"] == sum(step["cost"] for step in values["steps"]) + values["overhead"]
    assert values["steps"][0]["per_mac"] == 2.0
    assert values["steps"][0]["work"]["moved_bytes"] == 10
    assert values["macs"] == 30
