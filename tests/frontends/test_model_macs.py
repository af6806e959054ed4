# SPDX-License-Identifier: Apache-2.0
"""Multiply-accumulates from names and shapes: every layout, and silence where shapes don't tell."""

from __future__ import annotations

import pytest

from mlf_sdk.ir.macs import macs

BIAS = (16,)


@pytest.mark.parametrize(
    ("name", "inputs", "output", "constants", "expected"),
    [
        # 8x8 pixels, 3x3 kernels, 3 to 16 channels, in each layout
        ("nn_conv2d", [(1, 8, 8, 3), (3, 3, 3, 16), BIAS], (1, 8, 8, 16), [1, 2], 8 * 8 * 9 * 3 * 16),
        (
            "nn_conv2d_add",
            [(1, 3, 8, 8), (16, 3, 3, 3), (16, 1, 1)],
            (1, 16, 8, 8),
            [1, 2],
            8 * 8 * 9 * 3 * 16,
        ),
        (
            "contrib_conv2d_NCHWc",
            [(1, 1, 8, 8, 3), (4, 1, 3, 3, 3, 4)],
            (1, 4, 8, 8, 4),
            [1],
            8 * 8 * 9 * 3 * 16,
        ),
        # stride 2 halves the result
        ("nn_conv2d", [(1, 8, 8, 3), (3, 3, 3, 16)], (1, 4, 4, 16), [1], 4 * 4 * 9 * 3 * 16),
        # depthwise: HWOI, and OIHW with one input each
        ("nn_conv2d", [(1, 8, 8, 16), (3, 3, 16, 1)], (1, 8, 8, 16), [1], 8 * 8 * 9 * 16),
        ("nn_conv2d", [(1, 16, 8, 8), (16, 1, 3, 3)], (1, 16, 8, 8), [1], 8 * 8 * 9 * 16),
        # two groups of 8
        ("nn_conv2d", [(1, 16, 8, 8), (32, 8, 3, 3)], (1, 32, 8, 8), [1], 8 * 8 * 9 * 8 * 32),
        # a residual of the result's shape is no weight
        ("nn_conv2d", [(1, 8, 8, 3), (3, 3, 3, 16), (1, 8, 8, 16)], (1, 8, 8, 16), [1], 8 * 8 * 9 * 3 * 16),
        # height of 3: only one layout leaves a kernel that fits its data
        ("nn_conv2d", [(1, 3, 3, 256), (3, 3, 256, 1)], (1, 3, 3, 256), [1], 3 * 3 * 9 * 256),
        ("nn_conv1d", [(1, 4, 10), (6, 4, 5)], (1, 6, 6), [1], 6 * 5 * 4 * 6),
        ("nn_conv2d_transpose", [(1, 4, 5, 5), (4, 8, 3, 3)], (1, 8, 10, 10), [1], 5 * 5 * 4 * 8 * 9),
        ("nn_dense_add", [(1, 64), (10, 64), (10,)], (1, 10), [1, 2], 640),
        ("nn_contrib_dense_pack_add", [(1, 64), (2, 64, 5), (1, 10)], (1, 10), [1, 2], 640),
        ("nn_batch_matmul", [(2, 3, 5), (2, 7, 5)], (2, 3, 7), [], 2 * 3 * 7 * 5),
        # nothing is said
        ("nn_softmax", [(1, 10)], (1, 10), [], None),
        ("nn_conv2d", [(1, 4, 4, 4), (4, 4, 4, 4)], (1, 4, 4, 4), [1], 4 * 4 * 4**4),  # both layouts agree
        ("nn_conv2d", [(1, 3, 3, 9), (3, 3, 3, 9)], (1, 3, 3, 9), [1], None),  # 3 or 9 channels
        ("nn_conv2d", [(1, 8, 8, 3), (5, 5, 7, 16)], (1, 8, 8, 16), [1], None),
        ("nn_conv2d", [(1, 8, 8, 3), (3, 3, 3, 16)], (1, 8, 8, 16), [], None),  # which are the weights?
        ("nn_dense", [(1, 64), (10, 32)], (1, 10), [1], None),
    ],
)
def test_one_operator(
    name: str,
    inputs: list[tuple[int, ...]],
    output: tuple[int, ...],
    constants: list[int],
    expected: int | None,
) -> None:
    assert macs(f"tvmgen_default_fused_{name}", inputs, [output], constants) == expected


def test_several_outputs_or_empty_tensors_tell_nothing() -> None:
    inputs = [(1, 8, 8, 3), (3, 3, 3, 16)]
    assert macs("nn_conv2d", inputs, [(1, 8, 8, 16), (1,)], [1]) is None
    assert macs("nn_conv2d", inputs, [], [1]) is None
    assert macs("nn_conv2d", [(1, 0, 8, 3), (3, 3, 3, 16)], [(1, 0, 8, 16)], [1]) is None
