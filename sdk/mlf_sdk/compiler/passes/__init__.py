# SPDX-License-Identifier: Apache-2.0
"""Changes of a graph that keep its outputs, integers bit for bit; checked on random graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.passes.affine import fold_affine
from mlf_sdk.compiler.passes.constant_channels import remove_constant_channels
from mlf_sdk.compiler.passes.maps import fuse_maps
from mlf_sdk.compiler.passes.other_layers import convolve_one_channel, multiply_whole_windows
from mlf_sdk.compiler.passes.padding import fold_padding
from mlf_sdk.compiler.passes.signed import sign_layers

PASSES: Final[tuple[Callable[[Graph], Graph], ...]] = (
    fold_affine,
    fuse_maps,
    convolve_one_channel,
    fold_padding,
    remove_constant_channels,
    multiply_whole_windows,
    sign_layers,
)


def improve(graph: Graph) -> Graph:
    """Apply every pass in order."""
    for change in PASSES:
        graph = change(graph)
    return graph
