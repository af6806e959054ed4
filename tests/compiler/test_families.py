# SPDX-License-Identifier: Apache-2.0
"""Networks of many families: reference, kernels on the host and TFLM give the same values."""

from __future__ import annotations

from pathlib import Path

import pytest

from agreement import agree
from tflite_families import FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family(name: str, tmp_path: Path) -> None:
    agree(FAMILIES[name](), tmp_path, 1)
