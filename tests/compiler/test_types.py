# SPDX-License-Identifier: Apache-2.0
"""Operators of types that TFLM computes: reference, kernels and TFLM give the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from agreement import agree
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import ArchiveError
from operator_cases import CASES, Case, model_of
from tflite_models import Maker

NAMES = (
    "RELU6 of words",  "MAXIMUM of whole numbers", "MINIMUM of whole numbers",
    *(f"{kind} of scaled words" for kind in ("MUL", "MAXIMUM", "SQUARED_DIFFERENCE", "LESS")),
    "SQUARED_DIFFERENCE of whole numbers", "ZEROS_LIKE",
    "CAST to int8", "CAST to int16", "CAST to int32", "CAST to float32", "CAST to bool",
)  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name in NAMES for dtype in CASES[name][0]])
def test_an_operator_of_a_type(name: str, dtype: str, tmp_path: Path) -> None:
    """With a scale and without one, which draws of different seeds have."""
    for seed in (0, 1):
        agree(model_of(name, dtype, seed), tmp_path, seed)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_mean_without_a_scale_is_refused(dtype: str, tmp_path: Path) -> None:
    """TFLM divides by the scale, which is not stated."""
    case = Case(Maker(0), dtype)
    x, y = case.bare((2, 3), dtype), case.bare((2,), dtype)
    case.maker.spec.inputs.append(x)
    path = tmp_path / "m.tflite"
    path.write_bytes(
        case.finish("MEAN", (x, case.constant([1])), y, options=("ReducerOptions", {"KeepDims": False}))
    )
    with pytest.raises(ArchiveError, match="a mean of whole numbers without a scale"):
        load_tflite(path)


@pytest.mark.parametrize(
    ("kind", "dtype", "what"),
    [
        ("GREATER", "int16", "a comparison of 16-bit values, whose scales TFLM does not read"),
        ("SUB", "int32", "32-bit values of scales that differ"),
    ],
)
def test_scales_that_tflm_does_not_heed_are_refused(kind: str, dtype: str, what: str, tmp_path: Path) -> None:
    """TFLM gives false for the one and stops at the other."""
    case = Case(Maker(0), dtype)
    spec, result = case.maker.spec, "bool" if kind == "GREATER" else dtype
    spec.inputs += [spec.tensor(f"x{i}", dtype, (4,), scale=(0.1 * i,), zero_point=(0,)) for i in (1, 2)]
    y = spec.tensor("y", result, (4,), scale=(0.1,), zero_point=(0,))
    options = ("SubOptions", {}) if kind == "SUB" else None
    path = tmp_path / "m.tflite"
    path.write_bytes(case.finish(kind, (0, 1), y, options=options))
    with pytest.raises(ArchiveError, match=what):
        load_tflite(path)
