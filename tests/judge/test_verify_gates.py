# SPDX-License-Identifier: Apache-2.0
"""Sizes, budgets and baselines: what is kept, what is exceeded, what changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlf_sdk.errors import InputError
from mlf_sdk.judge.baseline import (
    Baseline,
    GrowthLimit,
    find_changes,
    parse_growth_limit,
    read_baseline,
    save_baseline,
)
from mlf_sdk.judge.budget import check_budget, read_budget, total_limits
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.judge.sizes import Sizes, parse_size
from mlf_sdk.judge.stack import Allocator

SIZES = Sizes(
    flash=30_000,
    ram=20_000,
    stack=1_000,
    stack_note="",
    sections={".text": 10_000, ".rodata": 16_000},
    symbols={"kernel_a": 300, "kernel_b": 500, "main": 40},
    models={"digits arena": 7296, "digits params": 16_872},
)
REPORT = CheckReport(rows=(), kernels=(), groups=(), regions=(), stack_bytes=2048, allocators=())


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (0, 0),
        (65536, 65536),
        ("65536", 65536),
        ("64K", 65536),
        ("64k", 65536),
        ("64KB", 65536),
        ("64 KiB", 65536),
        ("1M", 1 << 20),
        ("1.5MiB", 3 << 19),
        ("65,536", 65536),
        ("65_536 B", 65536),
        ("2G", 2 << 30),
    ],
)
def test_sizes_as_people_write_them(text: int | str, size: int) -> None:
    assert parse_size(text, "here") == size


@pytest.mark.parametrize(
    "text", ["", "K", "-1", -1, "64Q", "64KK", "0x40", "1.3", "0.0001K", "1e3", "nan", "٣"]
)
def test_what_is_no_size(text: int | str) -> None:
    with pytest.raises(InputError) as caught:
        parse_size(text, "here")
    assert caught.value.where == "here"


def budget(folder: Path, text: str) -> Path:
    path = folder / "mlf-budget.toml"
    path.write_text(text)
    return path


WHOLE = """
flash = {flash}
ram = "{ram}"
stack = {stack}
heap = false
[sections]
".text" = {text}
[symbols]
"kernel_*" = {kernels}
main = {main}
[models.digits]
arena = {arena}
params = {params}
"""
EXACT = {
    "flash": 30_000,
    "ram": 20_000,
    "stack": 1_000,
    "text": 10_000,
    "kernels": 800,
    "main": 40,
    "arena": 7296,
    "params": 16_872,
}


def test_budget_that_is_met_to_the_byte(tmp_path: Path) -> None:
    lines = check_budget(read_budget(budget(tmp_path, WHOLE.format(**EXACT))), SIZES, REPORT)
    assert len(lines) == 9
    assert all(line.ok for line in lines)
    assert [line.actual_bytes for line in lines] == [30_000, 20_000, 1_000, 0, 10_000, 800, 40, 7296, 16_872]


@pytest.mark.parametrize("what", list(EXACT))
def test_budget_that_is_exceeded_by_one_byte(tmp_path: Path, what: str) -> None:
    text = WHOLE.format(**{**EXACT, what: EXACT[what] - 1})
    lines = check_budget(read_budget(budget(tmp_path, text)), SIZES, REPORT)
    (failed,) = [line for line in lines if not line.ok]
    assert failed.actual_bytes == failed.limit.most_bytes + 1 == EXACT[what]


def test_budget_without_a_heap(tmp_path: Path) -> None:
    limits = read_budget(budget(tmp_path, "heap = false"))
    linked = (Allocator(name="malloc", callers=("main",), used_by_model=False),)
    assert not check_budget(limits, SIZES, replace(REPORT, allocators=linked))[0].ok
    (line,) = check_budget(limits, SIZES, replace(REPORT, allocators=None))
    assert not line.ok and "not examined" in line.note
    assert read_budget(budget(tmp_path, "heap = true")) == ()


def test_stack_without_a_bound_fails_its_budget() -> None:
    sizes = replace(SIZES, stack=None, stack_note="no static bound: recursion: a -> a")
    (line,) = check_budget(total_limits({"flash": None, "stack": "1M"}), sizes, REPORT)
    assert not line.ok and "recursion" in line.note


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("flsh = 1", "flsh"),
        ("flash = 1.5", "flash: Expected `int | str | null`, got `float`; it is 1.5"),
        ("flash = '12X'", "'12X' is no size"),
        ("[sections]\n'.text' = true", "sections.'.text': Expected"),
        ("[models.digits]\narena = '1Q'", "$.models.digits.arena"),
        ("[models.digits]\nheap = 1", "heap"),
        ("flash = ", "Invalid value"),
    ],
)
def test_budget_that_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    path = budget(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_budget(path)
    assert said in f"{caught.value.what} {caught.value.where}"
    assert str(path) in caught.value.where


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[sections]\n'.txt' = 1", "no section '.txt'"),
        ("[symbols]\n'kernal_*' = 1", "no symbol 'kernal_*'"),
        ("[models.digit]\narena = 1", "no model 'digit arena'"),
    ],
)
def test_limit_of_what_is_not_there(tmp_path: Path, text: str, said: str) -> None:
    """A limit that a name silently escapes is none."""
    with pytest.raises(InputError, match=said.replace("*", r"\*")):
        check_budget(read_budget(budget(tmp_path, text)), SIZES, REPORT)


# ---- baselines ----

BEFORE = Baseline(
    schema=1,
    sdk_version="1",
    board="b",
    archives={"digits": "00"},
    totals={"flash": 1000},
    sections={".text": 600, ".old": 8},
    symbols={"grows": 100, "same": 50, "shrinks": 40, "goes": 9},
    models={"digits arena": 64},
)


def after(**symbols: int) -> Baseline:
    return Baseline(
        **{
            **{name: getattr(BEFORE, name) for name in BEFORE.__struct_fields__},
            "symbols": {**BEFORE.symbols, **symbols},
        }
    )


def test_nothing_changed() -> None:
    assert find_changes(BEFORE, BEFORE, GrowthLimit()) == ()


def test_each_kind_of_change() -> None:
    now = after(grows=103, shrinks=30, comes=7)
    del now.symbols["goes"]
    found = {c.name: (c.status, c.growth, c.ok) for c in find_changes(BEFORE, now, GrowthLimit())}
    assert found == {
        "grows": ("grown", 3, False),
        "comes": ("new", 7, False),
        "goes": ("gone", -9, True),
        "shrinks": ("shrunk", -10, True),
    }
    assert [c.name for c in find_changes(BEFORE, now, GrowthLimit())] == ["comes", "grows", "shrinks", "goes"]


@pytest.mark.parametrize(
    ("tolerance", "size", "ok"),
    [
        ("0", 100, True),
        ("0", 101, False),
        ("1%", 101, True),
        ("1%", 102, False),
        ("2.5%", 102, True),
        ("2.5%", 103, False),
        ("4", 104, True),
        ("4", 105, False),
        ("1%,8", 108, True),
        ("8, 1%", 109, False),
        ("1K", 1124, True),
        ("1K", 1125, False),
    ],
)
def test_growth_up_to_the_tolerance(tolerance: str, size: int, ok: bool) -> None:
    found = find_changes(BEFORE, after(grows=size), parse_growth_limit(tolerance))
    assert all(c.ok for c in found) is ok
    assert len(found) == (size != 100)


@pytest.mark.parametrize("text", ["", "1%%", "%", "-1%", "a lot", "1%,", "1% 2"])
def test_what_is_no_tolerance(text: str) -> None:
    with pytest.raises(InputError):
        parse_growth_limit(text)


def test_baseline_is_written_whole_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "sizes.json"
    save_baseline(path, BEFORE)
    first = path.read_bytes()
    save_baseline(path, BEFORE)
    assert path.read_bytes() == first
    assert read_baseline(path, "b") == BEFORE
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="board b, and the image for board c"):
        read_baseline(path, "c")
    with pytest.raises(InputError, match="can't write"):
        save_baseline(tmp_path / "nowhere" / "sizes.json", BEFORE)


@pytest.mark.parametrize("cut", range(0, 200, 7))
def test_baseline_that_is_damaged(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "sizes.json"
    save_baseline(path, BEFORE)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError, match="the baseline can't be read"):
        read_baseline(path, "b")
