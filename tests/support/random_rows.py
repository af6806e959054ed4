# SPDX-License-Identifier: Apache-2.0
"""Random networks of bytes with one input, most layers of which can hand rows on: chains with branches and sums."""

from __future__ import annotations

import math
from typing import Any

from random_networks import MOST, Network, Shape, Unfit, draw_steps

STEPS = (
    "convolution",
    "depthwise",
    "pooling",
    "sum",
    "joined",
    "activation",
    "edges",
    "parts",
    "resized",
    "mean",
    "dense",
)


class RowNetwork(Network):
    """A network under construction whose layers read what was made last, or shortly before."""

    def image(self) -> int:
        """A tensor of four dimensions; the one input where there is none yet."""
        if not self.spec.inputs:
            height, width = self.between(2, 24), self.side()
            shape = (1, height, width, self.channels())
            while math.prod(shape) > MOST:
                shape = (*shape[:3], max(1, shape[3] // 2))
            return super(Network, self).input(shape)
        found = [x for x in self.live if len(self.shape(x)) == 4]
        near = found[-1:] if self.maybe(0.8) else found[-3:]
        return near[int(self.random.integers(len(near)))]

    def any(self) -> int:
        """As `image`."""
        return self.image()

    def input(self, shape: Shape, dtype: str = "", **more: Any) -> int:
        """Nothing: there is one input."""
        raise Unfit(f"an input of shape {shape}")


def random_rows(seed: int) -> Network:
    """A network of 2 to 9 steps."""
    network = RowNetwork(seed, "int8")
    draw_steps(network, int(network.random.integers(2, 10)), list(STEPS))
    return network
