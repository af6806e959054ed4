# SPDX-License-Identifier: Apache-2.0
"""Results of the judge survive pickle and JSON: every field, every array, every float."""

from __future__ import annotations

import dataclasses
import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlf_sdk.analysis.machine.registry import Depth
from mlf_sdk.judge.baseline import Change, GrowthLimit
from mlf_sdk.judge.bisect import CompareReport, PlaceResult, StepArrays
from mlf_sdk.judge.budget import BudgetLine, Limit
from mlf_sdk.judge.check import CheckReport, ProofRow
from mlf_sdk.judge.compare import Comparison, OutputDifference, StepDifference, Tolerance
from mlf_sdk.judge.data import Batch, Reference
from mlf_sdk.judge.execute import Execution
from mlf_sdk.judge.groups import SizedItem
from mlf_sdk.judge.memorymap import Region
from mlf_sdk.judge.profile import Costs, Profile, StepProfile, Work
from mlf_sdk.judge.stack import Allocator, ModelStack, StackBound
from mlf_sdk.tools.serial import decode, encode
from mlf_sdk.wire.device import Stats

DIFFERENCE = OutputDifference(name="größe", max_abs=math.inf, max_rel=0.1, mismatches=1, elements=6)
DEPTH = Depth(bytes=96, path=(("main", 64), ("mlf_run", 32)), unknown=("recursion in f",))
STATS = Stats(
    arena_high_water_bytes=7680,
    workspace_high_water_bytes=None,
    workspace_requests=3,
    refused_bytes=0,
    stack_bytes=2048,
    stack_high_water_bytes=612,
    dropped_frames=0,
)
STEP = StepDifference(
    number=2,
    index=1,
    name="fused_add",
    output=0,
    tensor="t",
    shape=(1, 3),
    dtype="float32",
    difference=DIFFERENCE,
    at=(0, 2),
    expected=math.nan,
    got=3,
    same_inputs=False,
)
PLACE = PlaceResult(
    name="host",
    board="host",
    comparison=Comparison(outputs=(DIFFERENCE,)),
    first=STEP,
    saved=Path("/a/b.npz"),
)
RESULTS = (
    GrowthLimit(share=0.01, size_bytes=64),
    Change(kind="symbol", name="f", before=None, after=8, ok=False),
    BudgetLine(
        limit=Limit(kind="total", name="flash", most_bytes=9, field="$.flash"), actual_bytes=None, note="?"
    ),
    Tolerance(rtol=1e-5, atol=0.0),
    Comparison(outputs=(DIFFERENCE,)),
    StepArrays(inputs=(np.zeros((2, 3), "int8"),), outputs=(np.float32([math.nan, -0.0]),)),
    Batch(arrays=(np.arange(6, dtype="uint8").reshape(2, 3),), count=2),
    Reference(outputs={"y": np.ones((2, 1), "float16")}, labels=np.int64([1, 0])),
    Reference(outputs={}, labels=None),
    Execution(outputs=(np.ones((1, 4)),), ticks=5, ticks_hz=0, count=1, stats=STATS, console="a\x1b\n"),
    CompareReport(model="m", archive_sha256="0" * 64, inferences=1, steps=2, places=(PLACE, PLACE)),
    Costs(totals=(9, 8), names=("a", "b"), rows=((4, 5), (4, 4))),
    Profile(
        model="m",
        archive_sha256="0" * 64,
        board="b",
        rows="steps",
        unit="cycles",
        hz=1,
        runs=1,
        steps=(StepProfile(index=0, name="f", cost=3, least=3, most=3, share=1 / 3, work=Work(macs=7)),),
        overhead=1,
        total=4,
        resolution=0,
        method="counted",
        notes=("one",),
    ),
    CheckReport(
        rows=(ProofRow(model="m", item="arena", state="proven", planned=5, image=5),),
        kernels=(SizedItem(name="f", size_bytes=4),),
        groups=(),
        regions=(Region(name="flash", origin=0, size_bytes=9, used_bytes=3),),
        stack_bytes=None,
        stack=StackBound(
            entry="main",
            image=DEPTH,
            models=(ModelStack(model="m", depth=DEPTH),),
            exception_bytes=36,
            handler="",
            handler_bytes=0,
        ),
        allocators=(Allocator(name="malloc", callers=("f",), used_by_model=True),),
    ),
)


def assert_same(got: Any, expected: Any) -> None:
    """Equal in type and value; arrays in type, shape and bytes; NaN equals NaN."""
    assert type(got) is type(expected)
    if dataclasses.is_dataclass(expected):
        for field in dataclasses.fields(expected):
            assert_same(getattr(got, field.name), getattr(expected, field.name))
    elif isinstance(expected, np.ndarray):
        assert (got.dtype, got.shape, got.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
    elif isinstance(expected, Mapping):
        assert list(got) == list(expected)
        for key in expected:
            assert_same(got[key], expected[key])
    elif isinstance(expected, tuple):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)
    else:
        assert got == expected or (got != got and expected != expected)


@pytest.mark.parametrize("result", RESULTS, ids=lambda r: type(r).__name__)
def test_json(result: Any) -> None:
    assert_same(decode(encode(result), type(result)), result)


@pytest.mark.parametrize("result", RESULTS, ids=lambda r: type(r).__name__)
def test_pickle(result: Any) -> None:
    assert_same(pickle.loads(pickle.dumps(result)), result)


def test_the_comparison_sees_a_difference() -> None:
    with pytest.raises(AssertionError):
        assert_same(dataclasses.replace(STEP, got=4), STEP)
    with pytest.raises(AssertionError):
        assert_same(Batch(arrays=(np.zeros(2),), count=1), Batch(arrays=(np.zeros(2, "f4"),), count=1))
