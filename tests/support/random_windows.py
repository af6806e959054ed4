# SPDX-License-Identifier: Apache-2.0
"""Random networks of convolutions of bytes, most with 3x3 windows at stride 1: odd extents and numbers at their limits."""

from __future__ import annotations

import math

import numpy as np

from random_networks import _ACTIVATIONS, MOST, Network, Shape

_LIMITS = (-128, -127, -1, 0, 1, 126, 127)


class WindowNetwork(Network):
    """A chain of convolutions under construction."""

    def extent(self) -> int:
        """Rows or columns: few, with and without a square of four that fits."""
        return self.pick(1, 2, 3, 4) if self.maybe(0.15) else self.between(4, 19)

    def depth(self, most: int) -> int:
        """Channels: one to 64, mostly a multiple of four; as many as there is room for.

        Args:
            most: channels.
        """
        return (
            min(most, self.between(1, 64))
            if self.maybe(0.2)
            else 4 * min(most // 4, self.between(1, 16)) or most
        )

    def weights_at_limits(self, shape: Shape) -> np.ndarray:
        """Weights: of any magnitude, or a few numbers alone, or rows of one sign, whose sums are the largest."""
        kind = self.between(0, 4)
        if kind == 1:
            return self.random.choice(_LIMITS, shape)
        if kind == 2:
            return np.full(shape, 0) + self.random.choice([-128, 127], (shape[0], 1, 1, 1))
        if kind == 3:
            return self.random.choice([-128, 0, 127], (shape[0], *shape[1:3], 1)) + np.zeros(shape, int)
        most = self.pick(127, 100, 12, 2)
        return self.random.integers(-most, most + 1, shape)

    def convolution(self, x: int) -> int:
        """A convolution of x; its output."""
        _, height, width, ic = self.shape(x)
        size = (3, 3) if self.maybe(0.85) else (self.between(1, 4), self.between(1, 4))
        stride = (1, 1) if self.maybe(0.9) else (self.between(1, 2), self.between(1, 2))
        same = self.maybe(0.6) or size[0] > height or size[1] > width
        extents = [
            -(-e // s) if same else (e - k) // s + 1
            for e, k, s in zip((height, width), size, stride, strict=True)
        ]
        oc = self.depth(min(MOST // math.prod(extents), max(1, 40000 // (ic * math.prod(size)))))
        data = self.weights_at_limits((oc, *size, ic))
        # Sums are this wide; most outputs lie within a byte, some channels saturate or hardly move.
        wide = 73 * (math.sqrt(float((data.astype(float) ** 2).mean())) + 1) * math.sqrt(ic * math.prod(size))
        spread = self.pick(0.0, 0.5, 2.0, 5.0)
        count = oc if self.maybe(0.75) else 1
        out = float(np.exp(self.random.uniform(-6, 1)))
        scales = out * 40 / wide / self.tensor(x).scale[0] * np.exp(self.random.normal(0, spread, count))
        w = self.spec.tensor(
            f"w{len(self.spec.tensors)}",
            "int8",
            data.shape,
            scale=tuple(float(np.float32(s)) for s in scales),
            zero_point=(0,) * count,
            data=data.astype(np.int8),
        )
        most = self.pick(1, 3000, 100_000, 2_000_000)
        bias = -1 if self.maybe(0.2) else self.constant(self.random.integers(-most, most + 1, oc))
        y = self.value((1, *extents, oc), scale=out)
        fields = {
            "Padding": 0 if same else 1,
            "StrideH": stride[0],
            "StrideW": stride[1],
            "FusedActivationFunction": self.pick(*_ACTIVATIONS),
        }
        return self.add("CONV_2D", (x, w, bias), y, ("Conv2DOptions", fields))


def random_windows(seed: int) -> Network:
    """A chain of one to three convolutions."""
    network = WindowNetwork(seed, "int8")
    height, width = network.extent(), network.extent()
    x = network.input((1, height, width, network.depth(MOST // (height * width))))
    for _ in range(network.between(1, 3)):
        x = network.convolution(x)
    return network
