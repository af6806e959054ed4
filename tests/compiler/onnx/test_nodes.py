# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node tests: a sample; `make onnx-nodes` runs all of them."""

from __future__ import annotations

from pathlib import Path

from onnx_board import run_on_board, samples
from onnx_nodes import node_tests, passing, run_node_test

REFERENCE, KERNELS = 4, 20


def chosen(step: int) -> list[str]:
    listed = passing()
    assert len(listed) > 900
    return [name for name in listed[1::step] if name in node_tests()]


def test_by_the_reference(tmp_path: Path) -> None:
    cases = node_tests()
    assert not [name for name in chosen(REFERENCE) if run_node_test(cases[name], tmp_path, kernels=False)]


def test_by_kernels(tmp_path: Path) -> None:
    cases = node_tests()
    for name in chosen(KERNELS):
        folder = tmp_path / name
        folder.mkdir()
        assert run_node_test(cases[name], folder) == "", name


def test_on_a_board(tmp_path: Path) -> None:
    """Some of the sample that the documentation lists; `make onnx-nodes` runs all of it."""
    (names,) = samples(images=1, together=10)
    assert len(set(names)) == 10 and run_on_board(names, tmp_path) == {}
