# SPDX-License-Identifier: Apache-2.0
"""Comparison of every kernel that can be chosen with the reference: what it runs, and that it notices mistakes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agreement import random_inputs
from core_batches import core_faults
from core_images import MISSING
from kernel_checks import KernelCheck, all_choices, checks_of, difference, trace
from kernel_library import KernelLibrary, units
from makers import counted_makers
from mlf_sdk.compiler import schedule
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from tflite_models import Maker, small_network


def _checks(folder: Path, seed: int = 0, others: Choice | None = None) -> list[KernelCheck]:
    (folder / "m.tflite").write_bytes(small_network(seed))
    graph = improve(load_tflite(folder / "m.tflite"))
    random = np.random.default_rng(seed)
    traced = trace(graph, [random_inputs(graph, random), random_inputs(graph, random)])
    return checks_of("small", graph, traced, all_choices(core_named("generic")), others=others)


def test_all_kernels_of_two_networks_are_right(tmp_path: Path) -> None:
    """One library for both; equal kernels of several goals are one check that names them all."""
    checks = [check for seed in range(2) for check in _checks(tmp_path, seed, Choice(goal=Goal.SPEED))]
    library = KernelLibrary(checks, tmp_path)
    assert [fault for check in checks for fault in library.faults(check)] == []
    assert any(
        "speed generic, instructions generic, balanced generic, size generic" in check.label
        for check in checks
    )
    assert any("for thumb1" in check.label for check in checks)


@pytest.mark.parametrize("edges", [(1, 1, 1, 1), (0, 2, 0, 0), (0, 0, 0, 3), (2, 0, 1, 0)])
def test_windows_of_one_pixel_with_padding(edges: tuple[int, int, int, int], tmp_path: Path) -> None:
    """The padding of a PAD becomes that of a 1x1 layer, whose pixels are then not those of its input, one by one."""
    top, bottom, left, right = edges
    m = Maker(2)
    x = m.input((1, 3, 4, 8))
    wide = m.same_scale(x, (1, 3 + top + bottom, 4 + left + right, 8))
    pad = m.spec.tensor("pad", "int32", (4, 2), data=np.int32([[0, 0], [top, bottom], [left, right], [0, 0]]))
    m.spec.add("PAD", (x, pad), wide)
    (tmp_path / "m.tflite").write_bytes(m.finish(m.conv(wide, 8, (1, 1), 1, same=True)))
    graph = load_tflite(tmp_path / "m.tflite")
    improved = improve(graph)
    assert len(improved.operators) == 1
    inputs = random_inputs(graph, np.random.default_rng(1))
    traced = trace(improved, [inputs])
    np.testing.assert_array_equal(traced[0][0].outputs[0], Interpreter(graph).run(inputs)[0])
    checks = [
        check
        for core in (
            core_named("generic"),
            core_named("cortex-m0"),
            core_named("cortex-m3"),
            core_named("cortex-m55"),
        )
        for check in checks_of("padded", improved, traced, all_choices(core), others=Choice(goal=Goal.SPEED))
    ]
    library = KernelLibrary(checks, tmp_path)
    assert [fault for check in checks for fault in library.faults(check)] == []


MISTAKES: list[tuple[str, Callable[[Kernel], Kernel]]] = [
    ("output 0: ", lambda k: dataclasses.replace(k, body=k.body + "    y0[1] ^= 1;\n")),
    ("it writes beside y0", lambda k: dataclasses.replace(k, body=k.body + "    y0[-1] = 1;\n")),
    ("it writes its x0", lambda k: dataclasses.replace(k, body=k.body + "    *(char *)x0 ^= 1;\n")),
    ("it writes its p0", lambda k: dataclasses.replace(k, body=k.body + "    *(char *)p0 ^= 1;\n")),
    ("its output 0 bytes before x0, and over it", lambda k: dataclasses.replace(k, overlaps={0: 0})),
]


@pytest.mark.parametrize(("says", "change"), MISTAKES, ids=[says for says, _ in MISTAKES])
def test_mistakes_of_a_kernel_are_noticed(
    says: str, change: Callable[[Kernel], Kernel], tmp_path: Path
) -> None:
    check = _checks(tmp_path)[0]
    wrong = dataclasses.replace(check, kernel=change(check.kernel))
    assert any(says in fault for fault in KernelLibrary([wrong], tmp_path).faults(wrong))


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
def test_a_batch_on_a_core_notices_mistakes(tmp_path: Path) -> None:
    """A wrong result, a write beside the output and a fault in one image: what follows the fault runs in another."""
    right = _checks(tmp_path)[:4]
    endings = ("    y0[1] ^= 1;\n", "    y0[-1] = 1;\n", "    *(volatile int *)0xF0000001 = 1;\n")
    wrong = [
        dataclasses.replace(
            c, label=f"wrong {i}", kernel=dataclasses.replace(c.kernel, body=c.kernel.body + end)
        )
        for i, (c, end) in enumerate(zip(right, endings, strict=False))
    ]
    found = dict(core_faults([right[0], *wrong, *right[1:]], core_named("cortex-m0"), tmp_path))
    assert list(found) == ["wrong 0", "wrong 1", "wrong 2"]
    assert "output 0: 1 of" in found["wrong 0"]
    assert "beside its memory" in found["wrong 1"] and "the image faulted" in found["wrong 2"]


def test_helpers_of_one_name_that_differ_are_in_two_sources(tmp_path: Path) -> None:
    check = next(c for c in _checks(tmp_path) if c.kernel.helpers)
    other = {name: text + "\n" for name, text in check.kernel.helpers.items()}
    again = dataclasses.replace(check, kernel=dataclasses.replace(check.kernel, helpers=other))
    assert len(units([check.kernel, again.kernel, check.kernel], tmp_path)) == 2
    library = KernelLibrary([check, again], tmp_path)
    assert [fault for one in (check, again) for fault in library.faults(one)] == []


def test_makers_are_counted_and_come_back(tmp_path: Path) -> None:
    before = schedule.maker_at
    with counted_makers() as drawn:
        _checks(tmp_path)
        assert drawn.counts["Softmax softmax:softmax"] == 1  # for three goals
        assert "Conv2D mve:convolution" in drawn.never
        assert "FullyConnected compact:compact" not in drawn.never
    assert schedule.maker_at is before


def test_differences_of_arrays() -> None:
    ones = np.ones(3, np.float32)
    assert difference(ones + np.float32(1e-6), ones) == ""
    assert difference(ones, ones * np.array([1, 1, 1.1], np.float32)).startswith("1 of 3 differ; [2]")
    assert difference(ones * np.nan, ones * np.nan) == ""
    assert difference(ones * np.nan, ones).startswith("3 of 3 differ")
    assert difference(ones.astype(np.int8), ones).startswith("int8(3,) instead of")
    assert difference(np.int8([1, 2]), np.int8([1, 3])).startswith("1 of 2 differ; [1] is 2, not 3")
