# SPDX-License-Identifier: Apache-2.0
"""Blocks that the networks of pictures are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def conv(i: int, o: int, size: int = 3, stride: int = 1, **more: Any) -> nn.Sequential:
    """Convolution with its border, normalisation and ReLU."""
    layer = nn.Conv2d(i, o, size, stride, padding=size // 2, bias=False, **more)
    return nn.Sequential(layer, nn.BatchNorm2d(o), nn.ReLU())


class Residual(nn.Module):
    """Two convolutions beside a short cut."""

    def __init__(self, i: int, o: int, stride: int = 1) -> None:
        super().__init__()
        self.first = conv(i, o, stride=stride)
        self.second = nn.Sequential(nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o))
        self.cut = nn.Identity() if i == o and stride == 1 else nn.Conv2d(i, o, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(self.first(x)) + self.cut(x))


class Gate(nn.Module):
    """Squeeze and excitation: channels weighed by what their means say."""

    def __init__(self, channels: int, function: nn.Module) -> None:
        super().__init__()
        less = max(channels // 4, 4)
        layers = [nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, less, 1), nn.ReLU()]
        self.weigh = nn.Sequential(*layers, nn.Conv2d(less, channels, 1), function)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weigh(x)


class Inverted(nn.Module):
    """Wider, depthwise, narrower; with a short cut where the shape stays."""

    def __init__(
        self, i: int, o: int, stride: int, act: Callable[[], nn.Module], gate: nn.Module | None = None
    ) -> None:
        super().__init__()
        wide = 4 * i
        layers = [nn.Conv2d(i, wide, 1, bias=False), nn.BatchNorm2d(wide), act()]
        layers += [nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), act()]
        layers += [Gate(wide, gate)] if gate else []
        self.layers = nn.Sequential(*layers, nn.Conv2d(wide, o, 1, bias=False), nn.BatchNorm2d(o))
        self.stays = i == o and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        return x + y if self.stays else y


class Joined(nn.Module):
    """Branches side by side; their channels one behind the other."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)
