# SPDX-License-Identifier: Apache-2.0
"""Every operator in every type that TFLM computes: reference, kernels on the host and TFLM give the same values."""

from __future__ import annotations

from pathlib import Path

import pytest

from agreement import agree
from mlf_sdk.compiler.tflite.load import BUILDERS, load_tflite
from mlf_sdk.compiler.tflite.versions import KNOWN
from mlf_sdk.errors import ArchiveError
from operator_cases import CASES, model_of
from operator_graphs import check
from tflite_models import Maker

INSTANCES = [(name, dtype) for name, (dtypes, _) in CASES.items() for dtype in dtypes]


@pytest.mark.parametrize(("name", "dtype"), INSTANCES, ids=[f"{n}-{d}" for n, d in INSTANCES])
def test_an_operator(name: str, dtype: str, tmp_path: Path) -> None:
    agree(model_of(name, dtype, 1), tmp_path, 1, runs=1)


@pytest.mark.parametrize("seed", range(4))
def test_a_graph_of_random_operators(seed: int, tmp_path: Path) -> None:
    """160 operators; `make operators` has 5,000, on emulated cores as well."""
    check(seed, 40, tmp_path, cores=False)


@pytest.mark.parametrize("version", [0, 6, 99])
def test_versions_that_are_not_known(version: int, tmp_path: Path) -> None:
    m = Maker(1)
    x = m.input((1, 3, 5, 4))
    y = m.binary("ADD", x, x)
    m.spec.operators[0].version = version
    path = tmp_path / "m.tflite"
    path.write_bytes(m.finish(y))
    says = rf"operator 0 ADD \('t1'\): its version is {version}; versions 1 to 5 are known; convert the model"
    with pytest.raises(ArchiveError, match=says):
        load_tflite(path)


def test_versions_are_of_operators_that_exist() -> None:
    assert set(KNOWN) <= set(BUILDERS)


def test_operands_that_do_not_fit_each_other(tmp_path: Path) -> None:
    m = Maker(1)
    x, other = m.input((1, 3, 5, 4)), m.input((1, 2, 5, 4))
    y = m.spec.add("ADD", (x, other), m.activation((1, 3, 5, 4)))
    path = tmp_path / "m.tflite"
    path.write_bytes(m.finish(y))
    with pytest.raises(
        ArchiveError, match=r"operator 0 ADD .*: operands of shapes \(1, 3, 5, 4\), \(1, 2, 5, 4\)"
    ):
        load_tflite(path)
