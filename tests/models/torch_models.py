# SPDX-License-Identifier: Apache-2.0
"""Small networks of every common kind, built by PyTorch with random weights from a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn
from torch_blocks import Inverted, Joined, Residual, conv
from torch_recurrent import RECURRENT, TRANSFORMERS


def head(channels: int, classes: int = 10) -> list[nn.Module]:
    """Mean over the picture, then classes."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes), nn.Softmax(-1)]


def lenet() -> nn.Module:
    layers = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU()]
    layers += [nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(84, 10))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10), nn.Softmax(-1))


def vgg() -> nn.Module:
    layers = [conv(3, 16), conv(16, 16), nn.MaxPool2d(2), conv(16, 32), conv(32, 32), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, conv(32, 64), *head(64))


def resnet8() -> nn.Module:
    """MLPerf Tiny's image classification, (1, 3, 32, 32)."""
    return nn.Sequential(conv(3, 16), Residual(16, 16), Residual(16, 32, 2), Residual(32, 64, 2), *head(64))


def separable(i: int, o: int, stride: int = 1) -> nn.Sequential:
    """Depthwise, then 1 x 1."""
    return nn.Sequential(conv(i, i, 3, stride, groups=i), conv(i, o, 1))


def ds_cnn() -> nn.Module:
    """MLPerf Tiny's keyword spotting, (1, 1, 49, 10)."""
    first = [
        nn.ZeroPad2d((1, 1, 4, 5)),
        nn.Conv2d(1, 64, (10, 4), 2, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
    ]
    return nn.Sequential(*first, *(separable(64, 64) for _ in range(4)), *head(64, 12))


def mobilenet() -> nn.Module:
    """MLPerf Tiny's visual wake words, MobileNet v1 with a quarter of its channels, (1, 3, 96, 96)."""
    rows = [(8, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2)]
    rows += [(128, 128, 1)] * 5 + [(128, 256, 2), (256, 256, 1)]
    return nn.Sequential(conv(3, 8, 3, 2), *(separable(i, o, s) for i, o, s in rows), *head(256, 2))


def anomaly() -> nn.Module:
    """MLPerf Tiny's anomaly detection, an autoencoder, (1, 640)."""
    widths = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128]
    layers: list[nn.Module] = []
    for i, o in pairwise(widths):
        layers += [nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, 640))


def mobilenet_v2() -> nn.Module:
    act = nn.ReLU6
    blocks = [Inverted(8, 12, 2, act), Inverted(12, 12, 1, act), Inverted(12, 24, 2, act)]
    return nn.Sequential(conv(3, 8, 3, 2), *blocks, Inverted(24, 24, 1, act), *head(24))


def mobilenet_v3() -> nn.Module:
    act, gate = nn.Hardswish, nn.Hardsigmoid()
    blocks = [Inverted(8, 12, 2, act, gate), Inverted(12, 12, 1, act, gate), Inverted(12, 24, 2, act)]
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish(), *blocks, *head(24))


def efficientnet() -> nn.Module:
    act, gate = nn.SiLU, nn.Sigmoid()
    blocks = [Inverted(8, 12, 2, act, gate), Inverted(12, 12, 1, act, gate)]
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), *blocks, *head(12))


def squeezenet() -> nn.Module:
    def fire(i: int, less: int, o: int) -> nn.Sequential:
        return nn.Sequential(conv(i, less, 1), Joined(conv(less, o, 1), conv(less, o)))

    pool = nn.MaxPool2d(3, 2, ceil_mode=True)
    return nn.Sequential(conv(3, 16, 3, 2), pool, fire(16, 8, 16), fire(32, 8, 16), pool, *head(32))


def densenet() -> nn.Module:
    def grown(i: int) -> nn.Module:
        layers = nn.Sequential(nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, 8, 3, padding=1, bias=False))
        return Joined(nn.Identity(), layers)

    between = [nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 16, 1), nn.AvgPool2d(2)]
    blocks = [grown(16), grown(24), *between, grown(16), grown(24)]
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), *blocks, nn.BatchNorm2d(32), nn.ReLU(), *head(32))


def inception() -> nn.Module:
    pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(16, 8, 1))
    wide = nn.Sequential(conv(16, 8, 1), conv(8, 8, 5))
    return nn.Sequential(
        conv(3, 16, 3, 2), Joined(conv(16, 8, 1), nn.Sequential(conv(16, 8, 1), conv(8, 16)), wide, pooled), *head(40)
    )  # fmt: skip


def shufflenet() -> nn.Module:
    unit = nn.Sequential(
        nn.Conv2d(24, 24, 1, groups=3), nn.ReLU(), nn.ChannelShuffle(3), conv(24, 24, groups=24)
    )
    return nn.Sequential(conv(3, 24, 3, 2), unit, nn.Conv2d(24, 48, 1, groups=3), nn.ReLU(), *head(48))


class ChannelsLast(nn.Module):
    """LayerNorm over channels, which stand in front of height and width."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    """Depthwise 7 x 7, LayerNorm, a wide layer with GELU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.wide = nn.Sequential(
            nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.wide(self.norm(self.depthwise(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 4, 4), ChannelsLast(16), ConvNextBlock(16), ConvNextBlock(16), *head(16)
    )


def group_norm() -> nn.Module:
    first = [nn.Conv2d(3, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.LeakyReLU(0.1)]
    return nn.Sequential(
        *first, nn.Conv2d(16, 16, 3, 2, 1), nn.InstanceNorm2d(16, affine=True), nn.ELU(), *head(16)
    )


def conv_autoencoder() -> nn.Module:
    layers = [nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU()]
    layers += [nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 1, 2, 2), nn.Sigmoid()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Down and up again, each height joined with that of the way down."""

    def __init__(self, mode: str = "nearest") -> None:
        super().__init__()
        self.a, self.b, self.c = conv(1, 8), conv(8, 16), conv(16, 16)
        self.up = nn.Upsample(scale_factor=2, mode=mode)
        self.d, self.e, self.last = conv(32, 8), conv(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = self.b(nn.functional.max_pool2d(a, 2))
        c = self.c(nn.functional.max_pool2d(b, 2))
        d = self.d(torch.cat([self.up(c), b], 1))
        return self.last(self.e(torch.cat([self.up(d), a], 1)))


def super_resolution() -> nn.Module:
    layers = [nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 8, 3, padding=1), nn.Tanh()]
    return nn.Sequential(*layers, nn.Conv2d(8, 4, 3, padding=1), nn.PixelShuffle(2))


def conv_1d() -> nn.Module:
    """Beats of a heart, (1, 1, 187)."""
    layers = [nn.Conv1d(1, 16, 7, 2, 3), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2)]
    layers += [nn.Conv1d(16, 32, 5, 1, 2), nn.BatchNorm1d(32), nn.ReLU(), nn.AdaptiveAvgPool1d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32, 5), nn.Softmax(-1))


class Causal(nn.Module):
    """A residual layer of a temporal network: what comes later is never read."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.pad = nn.ConstantPad1d((2 * dilation, 0), 0.0)
        self.layer = nn.Conv1d(channels, channels, 3, dilation=dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(self.pad(x)) + x)


def temporal() -> nn.Module:
    blocks = [Causal(16, 2**i) for i in range(4)]
    return nn.Sequential(
        nn.Conv1d(6, 16, 1), *blocks, nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(16, 6)
    )


class PointNet(nn.Module):
    """Classes of clouds of points, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 64), nn.ReLU())
        self.all = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(self.all(self.each(x).amax(1)), -1)


class Embedding(nn.Module):
    """A vector of length one for each picture."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(conv(1, 8, 3, 2), conv(8, 16, 3, 2), nn.Flatten(), nn.Linear(784, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(self.layers(x), dim=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchModel:
    """A network, and the shapes and kinds of its inputs: a limit makes whole numbers below it."""

    make: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    limit: int = 0

    def built(self, seed: int) -> nn.Module:
        """The network, its statistics of normalisation as if it had been trained."""
        torch.manual_seed(seed)
        module = self.make()
        for part in module.modules():
            if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
                nn.init.uniform_(part.running_mean, -0.2, 0.2)
                nn.init.uniform_(part.running_var, 0.3, 1.0)
                nn.init.uniform_(part.weight, 0.7, 1.3)
                nn.init.uniform_(part.bias, -0.2, 0.2)
        return module.eval()

    def examples(self, seed: int, count: int = 1) -> list[tuple[torch.Tensor, ...]]:
        """Inputs of some inferences."""
        made = torch.Generator().manual_seed(seed)
        if self.limit:
            return [
                tuple(torch.randint(self.limit, s, generator=made) for s in self.shapes) for _ in range(count)
            ]
        return [tuple(torch.randn(*s, generator=made) for s in self.shapes) for _ in range(count)]


def _model(make: Callable[[], nn.Module], *shapes: tuple[int, ...], limit: int = 0) -> TorchModel:
    return TorchModel(make=make, shapes=shapes, limit=limit)


MODELS: dict[str, TorchModel] = {
    "mlp": _model(mlp, (1, 1, 28, 28)),
    "lenet": _model(lenet, (1, 1, 28, 28)),
    "vgg": _model(vgg, (1, 3, 32, 32)),
    "resnet8": _model(resnet8, (1, 3, 32, 32)),
    "ds_cnn": _model(ds_cnn, (1, 1, 49, 10)),
    "mobilenet_v1": _model(mobilenet, (1, 3, 96, 96)),
    "anomaly": _model(anomaly, (1, 640)),
    "mobilenet_v2": _model(mobilenet_v2, (1, 3, 32, 32)),
    "mobilenet_v3": _model(mobilenet_v3, (1, 3, 32, 32)),
    "efficientnet": _model(efficientnet, (1, 3, 32, 32)),
    "squeezenet": _model(squeezenet, (1, 3, 32, 32)),
    "densenet": _model(densenet, (1, 3, 32, 32)),
    "inception": _model(inception, (1, 3, 24, 24)),
    "shufflenet": _model(shufflenet, (1, 3, 24, 24)),
    "convnext": _model(convnext, (1, 3, 32, 32)),
    "group_norm": _model(group_norm, (1, 3, 24, 24)),
    "conv_autoencoder": _model(conv_autoencoder, (1, 1, 28, 28)),
    "unet": _model(UNet, (1, 1, 24, 24)),
    "unet_bilinear": _model(lambda: UNet("bilinear"), (1, 1, 24, 24)),
    "super_resolution": _model(super_resolution, (1, 1, 16, 16)),
    "conv_1d": _model(conv_1d, (1, 1, 187)),
    "temporal": _model(temporal, (1, 6, 64)),
    "pointnet": _model(PointNet, (1, 64, 3)),
    "embedding": _model(Embedding, (1, 1, 28, 28)),
    **{name: _model(make, shape) for name, (make, shape) in RECURRENT.items()},
    **{name: _model(make, shape, limit=limit) for name, (make, shape, limit) in TRANSFORMERS.items()},
}
