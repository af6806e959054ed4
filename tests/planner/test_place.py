# SPDX-License-Identifier: Apache-2.0
"""The stages of placement: each one begins only while the target is not reached, and has its budget."""

from __future__ import annotations

import importlib
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mlf_sdk.planner.search import MAX_SHAPES, BudgetExceeded, PlacementSearch
from mlf_sdk.planner.storage import Buffer, lower_bound

place_module = importlib.import_module("mlf_sdk.planner.place")
shapes_module = importlib.import_module("mlf_sdk.planner.shapes")
Spans = Sequence[tuple[int, int, int]]  # bytes, first and last time

GREEDY = " ".join(["greedy best-fit top"] * 7)


def drawn(seed: int) -> tuple[list[tuple[int, int, int]], int]:
    """Spans by chance, and their alignment."""
    chance = random.Random(seed)
    count, alignment, times = (chance.choice(x) for x in ((5, 8, 12, 16, 20, 30), (1, 1, 4, 16), (8, 12, 20)))
    spans = []
    for _ in range(count):
        first = chance.randrange(times)
        spans.append((chance.randint(1, 9 * alignment), first, min(times - 1, first + chance.randrange(7))))
    return spans, alignment


class Stages:
    """Notes what `place` does; each stage does its own work all the same."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        find_within = PlacementSearch.find_within

        def noted(name: str) -> None:
            real = getattr(place_module, name)

            def stage(*args: Any, **options: Any) -> list[int]:
                self.log.append(self.name_of(name, args, options))
                found: list[int] = real(*args, **options)
                return found

            monkeypatch.setattr(place_module, name, stage)

        def search(own: PlacementSearch, height: int, order: Sequence[int], share: int) -> list[int] | None:
            self.log.append(f"exact:{share}")
            found = find_within(own, height, order, share)
            self.log[-1] += "=found" if found else "=none"
            return found

        for name in ("fit", "local_search", "sweep"):
            noted(name)
        monkeypatch.setattr(PlacementSearch, "find_within", search)

    @staticmethod
    def name_of(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> str:
        if name == "fit":
            return "top" if "floors" in options else "best-fit" if options["best_fit"] else "greedy"
        if name == "local_search":
            return f"local:{args[3]}"
        return "backwards" if options else "forwards"

    def place(self, spans: Spans, alignment: int, target: int | None = None) -> int:
        """Place spans, and check it; bytes above the target, or above the lower bound without one."""
        buffers = [
            Buffer(kind="workspace", key=(0, number), size_bytes=size, first=first, last=last)
            for number, (size, first, last) in enumerate(spans)
        ]
        target = lower_bound(buffers, alignment)[0] if target is None else target
        self.log.clear()
        offsets, height = place_module.place(buffers, alignment, target)
        placed = [(offset, offset + b.size_bytes, b) for offset, b in zip(offsets, buffers, strict=True)]
        assert height == max(end for _, end, _ in placed) and not any(at % alignment for at in offsets)
        for (low, end, one), (other_low, other_end, other) in itertools.combinations(placed, 2):
            assert end <= other_low or other_end <= low or one.last < other.first or other.last < one.first
        return int(height) - target


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stages]:
    yield Stages(monkeypatch)


QUICK, LOCAL, SHARE = 20_000, 200_000, 150_000 // 6


@pytest.mark.parametrize(
    ("seed", "above", "expected"),
    [
        pytest.param(2, 0, "greedy", id="the-first-reaches-it"),
        pytest.param(3448, 0, "greedy best-fit top greedy best-fit", id="the-smallest-gap-reaches-it"),
        pytest.param(86, 0, "greedy best-fit top", id="from-the-top"),
        pytest.param(147, 0, GREEDY.removesuffix(" top"), id="the-last-order"),
        pytest.param(2689, 0, f"{GREEDY} exact:{QUICK}=found", id="found-exactly"),
        pytest.param(994, 6, f"{GREEDY} exact:{QUICK}=none exact:{QUICK}=none", id="proven-lowest"),
        pytest.param(264, 0, f"{GREEDY} exact:{QUICK} local:{LOCAL}", id="found-locally"),
        pytest.param(
            409,
            0,
            f"{GREEDY} exact:{QUICK} local:{LOCAL // 6} local:{LOCAL // 6}",
            id="less-than-a-unit-missing",
        ),
        pytest.param(
            3031,
            0,
            f"{GREEDY} exact:{QUICK} local:{LOCAL} local:{LOCAL // 6}"
            + f" exact:{SHARE // 6}" * 3
            + "=found",
            id="found-exactly-by-the-third-order",
        ),
        pytest.param(
            2154,
            2,
            f"{GREEDY} exact:{QUICK} local:{LOCAL} local:{LOCAL // 6}"
            + f" exact:{SHARE // 6}" * 3
            + f" exact:{SHARE // 6 * 3}=found exact:{SHARE // 6 * 3}",
            id="lowered-until-the-budget-ends",
        ),
    ],
)
def test_stages_end_where_the_target_is_reached(stages: Stages, seed: int, above: int, expected: str) -> None:
    spans, alignment = drawn(seed)
    assert stages.place(spans, alignment) == above
    assert " ".join(stages.log) == expected


def test_a_target_that_is_proven_out_of_reach_is_approached(stages: Stages) -> None:
    assert stages.place([(12, 5, 5), (12, 2, 3), (6, 4, 5), (5, 0, 4)], 4) == 2
    assert stages.log[-3:] == [f"exact:{QUICK}=none", f"exact:{QUICK}=found", f"exact:{QUICK}=none"]


def test_a_placement_that_is_not_proven_lowest_is_searched_for_locally(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target is proven out of reach, and the budget ends before the next placement is found."""
    heights: list[int] = []
    real = PlacementSearch.find_within

    def search(own: PlacementSearch, height: int, order: Sequence[int], share: int) -> list[int] | None:
        heights.append(height)
        if share == QUICK and height > heights[0]:
            raise BudgetExceeded
        return real(own, height, order, share)

    monkeypatch.setattr(PlacementSearch, "find_within", search)
    spans, alignment = drawn(994)
    assert stages.place(spans, alignment) == 6
    assert " ".join(stages.log).startswith(f"{GREEDY} exact:{QUICK}=none local:")


def test_a_target_above_the_first_placement_ends_the_search(stages: Stages) -> None:
    assert stages.place([(3, 0, 1), (2, 1, 2)], 1, target=6) == -1
    assert stages.log == ["greedy"]


def test_the_first_of_placements_that_are_equally_high_is_kept() -> None:
    """Its mirror image, and what later stages find, must be lower."""
    buffers = [Buffer(kind="workspace", key=(0, i), size_bytes=i + 1, first=0, last=1) for i in range(2)]
    shapes = shapes_module.build_shapes(buffers, 1)
    first = place_module.fit(shapes, next(iter(place_module.greedy_orders(shapes))), best_fit=False)
    assert shapes.mirrored(first) != first
    assert place_module.place(buffers, 1, 3) == (first, 3)


@pytest.mark.parametrize("shapes", [MAX_SHAPES - 1, MAX_SHAPES, MAX_SHAPES + 1])
def test_only_so_many_shapes_are_searched_exactly(stages: Stages, shapes: int) -> None:
    spans, _ = drawn(2689)  # what no greedy order places within the bound, and shapes before it
    before = [(1, time, time) for time in range(shapes - len(spans))]
    stages.place([*before, *((size, first + 1000, last + 1000) for size, first, last in spans)], 1)
    assert any(stage.startswith("exact") for stage in stages.log) == (shapes <= MAX_SHAPES)


def test_greedy_orders_end_when_their_budget_is_spent(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = [(5, 5, 6), (3, 2, 4), (5, 2, 2), (3, 3, 4), (2, 3, 6)]
    visited = len(spans) + 2 * sum(a[1] <= b[2] and b[1] <= a[2] for a, b in itertools.combinations(spans, 2))
    for budget, orders in ((4 * visited, 3), (4 * visited - 1, 2), (0, 1)):
        monkeypatch.setattr(place_module, "_GREEDY_BUDGET", budget)
        stages.place(spans, 1)
        assert " ".join(stages.log) == " ".join(["greedy best-fit top"] * orders)


def test_too_many_conflicts_are_swept_both_ways(stages: Stages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes_module, "_MAX_PAIRS", 0)
    assert stages.place([(3, 0, 1), (2, 1, 2)], 1) == 0
    assert stages.log == ["forwards"]
    assert stages.place([(1, 0, 1), (3, 1, 3), (2, 2, 3)], 1) == 0  # only backwards
    assert stages.log == ["forwards", "backwards"]
    assert stages.place([(2, 1, 3), (1, 0, 2), (2, 0, 2), (3, 0, 0)], 1, target=5) == 1  # 3 backwards
    assert stages.log == ["forwards", "backwards"]
