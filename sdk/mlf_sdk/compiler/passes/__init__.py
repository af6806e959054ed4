# SPDX-License-Identifier: Apache-2.0
"""Changes of a graph that keep its outputs, integers bit for bit; checked on random graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.passes.constant_channels import remove_constant_channels
from mlf_sdk.compiler.passes.layers import (
    convolve_one_channel,
    fold_affine,
    fold_padding,
    fuse_maps,
    multiply_whole_windows,
    reshape_after_maps,
)
from mlf_sdk.compiler.passes.moves import move_bytes
from mlf_sdk.compiler.passes.signed import sign_values
from mlf_sdk.compiler.passes.tables import compose_tables

PASSES: Final[tuple[Callable[[Graph], Graph], ...]] = (
    move_bytes,
    compose_tables,
    reshape_after_maps,
    fold_affine,
    fuse_maps,
    convolve_one_channel,
    fold_padding,
    remove_constant_channels,
    multiply_whole_windows,
    sign_values,
    compose_tables,
)


def improve(graph: Graph) -> Graph:
    """Apply every pass in order; what nothing reads is left out."""
    for change in PASSES:
        graph = change(graph)
    return graph
