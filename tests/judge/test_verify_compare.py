# SPDX-License-Identifier: Apache-2.0
"""Outputs against a reference: integers, floats, and what is neither equal nor different."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlf_sdk.judge.compare import Comparison, OutputDifference, Tolerance, compare_outputs
from mlf_sdk.reporting.terminal import comparison_text

EXACT = Tolerance(rtol=0.0, atol=0.0)
NAN, INF = float("nan"), float("inf")


def compared(
    got: Any, expected: Any, tolerance: Tolerance | None = None, dtype: str = "float32"
) -> OutputDifference:
    arrays = [np.array(values, dtype)[np.newaxis] for values in (got, expected)]
    result = compare_outputs({"y": arrays[0]}, {"y": arrays[1]}, tolerance or Tolerance())
    assert result.outputs[0].elements == arrays[1].size
    return result.outputs[0]


# ---- integers ----


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64"])
def test_integers_must_be_equal(dtype: str) -> None:
    same = compared([0, 1, 100], [0, 1, 100], dtype=dtype)
    assert (same.max_abs, same.max_rel, same.mismatches) == (0.0, 0.0, 0)
    other = compared([0, 2, 97], [0, 1, 100], dtype=dtype)
    assert (other.max_abs, other.mismatches) == (3.0, 2)
    assert other.max_rel == pytest.approx(0.03)


def test_tolerance_of_integers_is_whole() -> None:
    assert compared([1, 3], [2, 2], Tolerance(atol=0.99), "int8").mismatches == 2
    assert compared([1, 3], [2, 2], Tolerance(atol=1), "int8").mismatches == 0
    assert compared([1, 4], [2, 2], Tolerance(atol=1), "int8").mismatches == 1
    assert compared([1, 3], [2, 2], Tolerance(rtol=1.0), "int8").mismatches == 2


def test_small_integers_do_not_wrap_around() -> None:
    assert compared([-128], [127], dtype="int8").max_abs == 255.0
    assert compared([0], [255], dtype="uint8").max_abs == 255.0
    assert compared([-(2**31)], [2**31 - 1], dtype="int32").max_abs == float(2**32 - 1)


def test_64_bit_integers_are_exact() -> None:
    big = 2**62
    assert compared([big], [big + 1], dtype="int64").mismatches == 1
    assert compared([big], [big + 1], dtype="int64").max_abs == 1.0
    assert compared([-(2**63)], [2**63 - 1], dtype="int64").max_abs == float(2**64)
    assert compared([2**64 - 1], [0], dtype="uint64").max_abs == float(2**64)


def test_integers_of_different_types() -> None:
    got, expected = np.array([[255]], np.uint8), np.array([[-1]], np.int64)
    result = compare_outputs({"y": got}, {"y": expected}, EXACT)
    assert (result.max_abs, result.ok) == (256.0, False)
    wide, unsigned = np.array([[-1]], np.int64), np.array([[2**64 - 1]], np.uint64)
    assert compare_outputs({"y": wide}, {"y": unsigned}, EXACT).max_abs == float(2**64)


def test_booleans() -> None:
    assert compared([True, False], [True, False], dtype="bool").mismatches == 0
    assert compared([True, True], [True, False], dtype="bool").mismatches == 1


# ---- floats ----


def test_floats_are_relative_to_the_largest_of_the_output() -> None:
    """The limit is atol + rtol * 100 for each element, also for the small ones."""
    tolerance = Tolerance(rtol=0.25, atol=0.0)
    assert compared([100, 25, 0], [100, 0, 0], tolerance).mismatches == 0
    assert compared([100, 25.1, 0], [100, 0, 0], tolerance).mismatches == 1
    assert compared([100, 25.1, 0], [100, 0, 0], tolerance).max_rel == pytest.approx(0.251)


def test_scale_is_of_each_inference() -> None:
    got = np.array([[100.0, 1.0], [1.0, 1.0]], np.float32)
    expected = np.array([[100.0, 0.0], [1.0, 0.0]], np.float32)
    result = compare_outputs({"y": got}, {"y": expected}, Tolerance(rtol=0.05, atol=0.0))
    assert result.mismatches == 1  # 1 is within 5 % of 100, and not within 5 % of 1
    assert result.max_rel == 1.0


def test_absolute_tolerance_alone() -> None:
    assert compared([0.5], [0.0], Tolerance(rtol=0, atol=0.5)).mismatches == 0
    assert compared([0.5], [0.0], Tolerance(rtol=0, atol=0.49)).mismatches == 1


def test_exact_floats() -> None:
    assert compared([0.1, -0.0], [0.1, 0.0], EXACT).mismatches == 0
    one_ulp = np.nextafter(np.float32(0.1), np.float32(1))
    assert compared([one_ulp], [0.1], EXACT).mismatches == 1


def test_default_tolerance() -> None:
    assert compared([1.0 + 9e-6], [1.0]).mismatches == 0
    assert compared([1.0 + 2e-5], [1.0]).mismatches == 1


@pytest.mark.parametrize(
    ("got", "expected", "mismatches"),
    [
        (NAN, NAN, 0),
        (NAN, 1.0, 1),
        (1.0, NAN, 1),
        (INF, INF, 0),
        (-INF, -INF, 0),
        (INF, -INF, 1),
        (INF, 1.0, 1),
        (1.0, INF, 1),
        (NAN, INF, 1),
        (INF, NAN, 1),
    ],
)
@pytest.mark.parametrize("tolerance", [EXACT, Tolerance(rtol=1e9, atol=1e30)], ids=["exact", "wide"])
def test_what_is_not_finite(got: float, expected: float, mismatches: int, tolerance: Tolerance) -> None:
    result = compared([got, 1.0], [expected, 1.0], tolerance)
    assert result.mismatches == mismatches
    assert result.max_abs == (INF if mismatches else 0.0)


def test_infinity_does_not_widen_the_scale() -> None:
    result = compared([INF, 2.0], [INF, 1.0], Tolerance(rtol=0.5, atol=0.0))
    assert (result.mismatches, result.max_abs, result.max_rel) == (1, 1.0, 1.0)


def test_differences_from_zero_are_infinitely_large() -> None:
    result = compared([0.5], [0.0])
    assert (result.max_rel, result.mismatches) == (INF, 1)


def test_half_precision_and_mixed_types() -> None:
    assert compared([1.0, 2.0], [1.0, 2.0], dtype="float16").mismatches == 0
    got, expected = np.array([[1]], np.int8), np.array([[1.5]], np.float32)
    assert compare_outputs({"y": got}, {"y": expected}, Tolerance()).outputs[0].max_abs == 0.5


def test_no_elements() -> None:
    result = compared(np.empty((0,)), np.empty((0,)))
    assert (result.max_abs, result.mismatches, result.elements) == (0.0, 0, 0)
    assert compared(np.empty((0,)), np.empty((0,)), dtype="int8").mismatches == 0


def test_scalars() -> None:
    result = compare_outputs({"y": np.array([1.0, 5.0])}, {"y": np.array([1.0, 4.0])}, Tolerance(rtol=0.25))
    assert (result.max_abs, result.mismatches) == (1.0, 0)


# ---- several outputs ----


def test_several_outputs() -> None:
    got = {
        "a": np.array([[1, 2]], np.int8),
        "b": np.array([[3.0]], np.float32),
        "c": np.array([[9]], np.int8),
    }
    expected = {"b": np.array([[1.0]], np.float32), "a": np.array([[1, 4]], np.int8)}
    result = compare_outputs(got, expected, Tolerance())
    assert [o.name for o in result.outputs] == ["b", "a"]
    assert (result.max_abs, result.max_rel, result.mismatches, result.ok) == (2.0, 2.0, 2, False)


@pytest.mark.parametrize(("step", "words"), [(1e-5, "equal to"), (0.5, "within the tolerance of")])
def test_a_wide_tolerance_is_not_called_equal(step: float, words: str) -> None:
    result = compare_outputs(
        {"a": np.array([[1.0 + step]])}, {"a": np.array([[1.0]])}, Tolerance(rtol=0, atol=1)
    )
    assert result.ok and comparison_text(result, "the host's").startswith(
        f"{words} the host's (max difference "
    )


def test_nothing_to_compare() -> None:
    empty = Comparison(outputs=())
    assert (empty.max_abs, empty.max_rel, empty.mismatches, empty.ok) == (0.0, 0.0, 0, True)


@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_anything_equals_itself(values: list[float]) -> None:
    assert compared(values, values, EXACT).mismatches == 0


@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=10),
    st.integers(min_value=0, max_value=9),
    st.floats(min_value=1.0, max_value=1e6, width=32),
)
def test_one_changed_element_is_found(values: list[float], index: int, change: float) -> None:
    changed = list(values)
    changed[index % len(values)] += change
    result = compared(changed, values, EXACT)
    if np.float32(changed[index % len(values)]) != np.float32(values[index % len(values)]):
        assert result.mismatches == 1


@pytest.mark.parametrize("shapes", [((1, 4), (8, 4)), ((8, 4), (1, 4)), ((2, 4), (2, 1)), ((2, 4), (4, 2))])
def test_nothing_is_repeated(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    got, expected = (np.zeros(shape, np.int8) for shape in shapes)
    with pytest.raises(ValueError, match="output 'x' of shape"):
        compare_outputs({"x": got}, {"x": expected}, EXACT)
