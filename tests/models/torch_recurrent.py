# SPDX-License-Identifier: Apache-2.0
"""Networks over sequences: recurrent ones, and transformers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


class Recurrent(nn.Module):
    """A recurrent layer, and classes from its last step."""

    def __init__(
        self, kind: type[nn.RNNBase], i: int, hidden: int, *, both: bool = False, layers: int = 1
    ) -> None:
        super().__init__()
        self.cell = kind(i, hidden, layers, batch_first=True, bidirectional=both)
        self.last = nn.Linear(hidden * (2 if both else 1), 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.last(self.cell(x)[0][:, -1]), -1)


class ConvRecurrent(nn.Module):
    """Keywords: a convolution over the spectrum, a GRU over time, attention over its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, (5, 3), (2, 2), (2, 1)), nn.ReLU())
        self.cell = nn.GRU(40, 24, batch_first=True)
        self.weigh, self.last = nn.Linear(24, 1), nn.Linear(24, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x).permute(0, 2, 1, 3).flatten(2)
        steps, _ = self.cell(y)
        weights = torch.softmax(self.weigh(steps), 1)
        return self.last((steps * weights).sum(1))


class SequenceAutoencoder(nn.Module):
    """An LSTM to one vector, another one back."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.LSTM(4, 16, batch_first=True), nn.LSTM(16, 16, batch_first=True)
        self.last = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        code = self.down(x)[0][:, -1:].expand(-1, x.shape[1], -1)
        return self.last(self.up(code)[0])


class VisionTransformer(nn.Module):
    """Patches of a picture as words, a word for the class in front of them."""

    def __init__(self, wide: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, wide, 8, 8)
        self.kind, self.places = nn.Parameter(torch.randn(1, 1, wide)), nn.Parameter(torch.randn(1, 17, wide))
        layer = nn.TransformerEncoderLayer(wide, 4, 64, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.last = nn.Linear(wide, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        words = torch.cat([self.kind, self.patches(x).flatten(2).transpose(1, 2)], 1)
        return self.last(self.layers(words + self.places)[:, 0])


class Encoder(nn.Module):
    """A transformer's encoder over measurements."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.layers, self.last = nn.TransformerEncoder(layer, 2), nn.Linear(32, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(self.first(x)).mean(1))


class Block(nn.Module):
    """Attention to the words before, and a wide layer."""

    def __init__(self, wide: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.all, self.out = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.wide = nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU("tanh"), nn.Linear(4 * wide, wide))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.all(self.norm(x)).chunk(3, -1)
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.wide(self.norm2(x))


class Language(nn.Module):
    """The next word of a text."""

    def __init__(self, words: int = 64, wide: int = 32) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, wide), nn.Embedding(16, wide)
        self.blocks = nn.Sequential(Block(wide, 4), Block(wide, 4), nn.LayerNorm(wide))
        self.last = nn.Linear(wide, words, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1])
        return self.last(self.blocks(self.words(x) + self.places(places)))


class RmsBlock(nn.Module):
    """As in newer language models: RMSNorm, rotary positions, a gated layer with SiLU."""

    def __init__(self, wide: int = 32, heads: int = 4, words: int = 16) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.RMSNorm(wide), nn.RMSNorm(wide)
        self.q, self.kv = nn.Linear(wide, wide, bias=False), nn.Linear(wide, wide, bias=False)
        self.out, self.gate = nn.Linear(wide, wide, bias=False), nn.Linear(wide, 64, bias=False)
        self.up, self.down = nn.Linear(wide, 64, bias=False), nn.Linear(64, wide, bias=False)
        half = wide // heads // 2
        angles = torch.arange(words)[:, None] / 10000 ** (torch.arange(half)[None] / half)
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        q = self.q(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (p.unflatten(-1, (2, -1)).transpose(1, 2) for p in self.kv(y).chunk(2, -1))
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        weights = self.turned(q) @ self.turned(k).transpose(-1, -2) / q.shape[-1] ** 0.5
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        weights = weights.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Mixer(nn.Module):
    """Layers over words in turn with layers over channels."""

    def __init__(self, words: int = 16, wide: int = 24) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, wide, 8, 8)
        self.norm, self.norm2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.over_words = nn.Sequential(nn.Linear(words, 32), nn.GELU(), nn.Linear(32, words))
        self.over_channels = nn.Sequential(nn.Linear(wide, 48), nn.GELU(), nn.Linear(48, wide))
        self.last = nn.Linear(wide, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x).flatten(2).transpose(1, 2)
        y = y + self.over_words(self.norm(y).transpose(1, 2)).transpose(1, 2)
        return self.last((y + self.over_channels(self.norm2(y))).mean(1))


RECURRENT: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "rnn": (lambda: Recurrent(nn.RNN, 6, 24), (1, 20, 6)),
    "lstm": (lambda: Recurrent(nn.LSTM, 6, 24), (1, 20, 6)),
    "lstm_both_ways": (lambda: Recurrent(nn.LSTM, 6, 16, both=True, layers=2), (1, 20, 6)),
    "gru": (lambda: Recurrent(nn.GRU, 6, 24, layers=2), (1, 20, 6)),
    "conv_gru": (ConvRecurrent, (1, 1, 49, 10)),
    "lstm_autoencoder": (SequenceAutoencoder, (1, 16, 4)),
}
TRANSFORMERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "vision_transformer": (VisionTransformer, (1, 3, 32, 32), 0),
    "encoder": (Encoder, (1, 24, 6), 0),
    "language_model": (Language, (1, 16), 64),
    "rms_block": (RmsBlock, (1, 16, 32), 0),
    "mixer": (Mixer, (1, 3, 32, 32), 0),
}
