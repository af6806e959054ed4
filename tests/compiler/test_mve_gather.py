# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution from gathered patches, in numpy and in C, against sums of products."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core_images import MACHINES, run_on_core
from interpret import interpret
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.kernels.mve_gather import Patches, record
from mlf_sdk.compiler.kernels.rescale import Form
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.instruction_set import instruction_set
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from recorded import run_c
from tflite_models import Maker

M55 = core_named("cortex-m55")
MEANINGS = instruction_set("mve").meanings
CHANNELS = 3


@pytest.mark.parametrize(
    ("width", "stride", "tiles"),
    [
        (4, 1, [(0, 4)]),
        (5, 1, [(0, 4), (3, 2)]),
        (7, 1, [(0, 4), (3, 4)]),
        (14, 1, [(0, 4), (4, 4), (8, 4), (12, 2)]),
        (4, 2, [(0, 4)]),
        (6, 2, [(0, 4), (2, 4)]),
        (11, 2, [(0, 8), (7, 4)]),
        (13, 2, [(0, 8), (5, 8)]),
    ],
)
@pytest.mark.parametrize(("form", "clamp"), [(Form.SINGLE, (-128, 127)), (Form.DOUBLE, (-90, 100))])
def test_c_of_patches_computes_what_was_recorded(
    width: int,
    stride: int,
    tiles: list[tuple[int, int]],
    form: Form,
    clamp: tuple[int, int],
    tmp_path: Path,
) -> None:
    random = np.random.default_rng(width)
    patches = Patches(width, CHANNELS, stride)
    assert patches.tiles() == tiles and patches.fits()
    b, rows = record(patches, Epilogue(form, 0, clamp, 3)), patches.rows
    image = random.integers(-128, 128, (4, patches.columns, CHANNELS)).astype(np.int8)
    weights = random.integers(-128, 128, (CHANNELS, 9)).astype(np.int8)
    x = np.ascontiguousarray(image.transpose(1, 2, 0)).reshape(1, -1).view("<i4")
    table = np.stack(
        [
            random.integers(-9999, 9999, CHANNELS),
            random.integers(1 << 30, 1 << 31, CHANNELS),
            random.integers(-5000, 5000, CHANNELS),
            -random.integers(7, 9, CHANNELS),
        ],
        axis=1,
    )
    w, p, o = patches.packed(weights).reshape(1, -1), table.reshape(1, -1), patches.offsets()[None]
    size = rows * width * CHANNELS
    y, got = np.full((1, size + 16), 77, np.int64), np.full(size + 16, 77, np.int8)
    memory = {"x": x.astype(np.int64), "w": w.astype(np.int64), "p": p, "o": o.astype(np.int64), "y": y}
    interpret(b, MEANINGS, memory, n=CHANNELS)
    run_c(b, MEANINGS, tmp_path, x, w, p.astype(np.int32), o, got, CHANNELS)
    np.testing.assert_array_equal(got, y[0])

    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(0, 1)).astype(np.int64)
    sums = np.einsum("rckij,kij->rck", windows[:rows, ::stride][:, :width], weights.reshape(-1, 3, 3))
    bias, multiplier, addend, shift = table.T
    values = (sums + bias) * multiplier + (1 << 30) >> 31
    values = values + (values >> 31 if form is Form.DOUBLE else 0) + addend >> -shift
    np.testing.assert_array_equal(y[0, :size], np.clip(values, *clamp).reshape(-1))
    assert len({*y[0, :size]}) > 9 and {*y[0, size:]} == {77}


@pytest.mark.qemu
@pytest.mark.skipif(bool(MACHINES[M55].missing), reason=f"not installed: {MACHINES[M55].missing}")
def test_maps_whose_rows_are_as_many_as_a_patch_has(tmp_path: Path) -> None:
    """GCC 12 unrolls their loop and then knows which rows are outside."""
    m = Maker(0)
    x = m.conv(m.input((1, 9, 9, 16)), 16, (3, 3), 1, same=True, depthwise=True)
    x = m.conv(m.conv(x, 16, (3, 3), 2, same=True, depthwise=True), 24, (2, 2), 1, same=False)
    x = m.conv(x, 24, (3, 3), 1, same=True, depthwise=True)
    (tmp_path / "model.tflite").write_bytes(m.finish(x))
    found = compile_graph(load_tflite(tmp_path / "model.tflite"), Choice(core=M55))
    last = found.operators[-1].kernel
    assert last is not None and "interleave_rows(" in last.body
    assert all(instructions > 0 for _, instructions in run_on_core(found, M55, tmp_path))
