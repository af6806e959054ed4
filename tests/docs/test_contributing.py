# SPDX-License-Identifier: Apache-2.0
"""What CONTRIBUTING.md names exists; `test_layers.py` holds its table of layers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PACKAGE = ROOT / "sdk/mlf_sdk"
ALONE = ("tflite/load.py", "onnx/builders.py")  # of the folders that stand before them in the row
"""Paths that the row gives from a folder that it names."""


def places() -> list[str]:
    """Paths in code marks, without names of functions behind a colon."""
    marked = re.findall(r"`([\w./-]+/[\w./-]*|\w+\.(?:py|toml|md))(?::[\w.]+)?`", TEXT)
    return sorted({*marked} - {*ALONE, "dist/", "mlf.toml"})


@pytest.mark.parametrize("place", places())
def test_what_it_names_exists(place: str) -> None:
    roots = (ROOT, PACKAGE, PACKAGE / "compiler/passes")
    assert any((root / place).exists() for root in roots)


def test_it_names_places() -> None:
    assert {"compiler/schedule.py", "tests/support/toy_target.py", "board_templates/isas"} <= {*places()}
    assert all((PACKAGE / "compiler" / place).is_file() for place in ALONE)


def test_names_behind_a_colon_are_defined() -> None:
    for place, name in re.findall(r"`([\w/]+\.py):(\w+)", TEXT):
        assert re.search(
            rf"^(?:def|class) {name}\b|^{name}\b", (PACKAGE / place).read_text(), re.MULTILINE
        ), name
