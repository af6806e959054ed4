# SPDX-License-Identifier: Apache-2.0
"""Builders of all nodes that are supported, and reasons why others are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mlf_sdk.compiler.onnx import (
    control,
    dense,
    indices,
    layers,
    movement,
    normalise,
    pointwise,
    qonnx,
    qoperators,
    quantisation,
    recurrent,
    resize,
    rows,
    window,
)
from mlf_sdk.compiler.onnx.classical import EXPANSIONS
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node

Builder = Callable[[Context, Node], None]

BUILDERS: Final[dict[str, Builder]] = {
    "Conv": layers.conv,
    "ConvTranspose": layers.conv_transpose,
    "MaxPool": window.pool,
    "AveragePool": window.pool,
    "GlobalAveragePool": window.global_pool,
    "GlobalMaxPool": window.global_pool,
    "Gemm": dense.gemm,
    "MatMul": dense.mat_mul,
    "Einsum": dense.einsum,
    "If": control.choose,
    **indices.BUILDERS,
    **qoperators.BUILDERS,
    **quantisation.BUILDERS,
    **normalise.BUILDERS,
    **pointwise.BUILDERS,
    **movement.BUILDERS,
    **recurrent.BUILDERS,
    **resize.BUILDERS,
    **rows.BUILDERS,
}
_WHEN_READ: Final = ("Loop", "Scan", "Shape", "Size")  # what they are follows from what they read
_REASONS: Final = dict.fromkeys(
    ("NonZero", "Unique", "Compress", "NonMaxSuppression"),
    "the shape of its result depends on the input; cut the model in front of it",
)


def is_supported(kind: str) -> bool:
    """Return whether a node of this kind has a builder, or becomes other nodes or a constant."""
    return kind in BUILDERS or kind in EXPANSIONS or kind in qonnx.EXPANSIONS or kind in _WHEN_READ


def reason_of_refusal(kind: str) -> str:
    """Return why a kind of node is not supported, and what to do."""
    if kind in _REASONS:
        return _REASONS[kind]
    if "." in kind:
        return "operators of this domain are not supported; export the model with standard operators"
    close = [known for known in BUILDERS if known.lower() == kind.lower()]
    return "this operator is not supported" + (f"; did you mean {close[0]}?" if close else "")
