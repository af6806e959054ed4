# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on made-up pictures, compiles it, and runs it on an emulated board.

Needs pip install 'mlf-sdk[torch]'. Usage: python train_torch.py [BOARD]
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

import mlf_sdk

KINDS = ("horizontal line", "vertical line", "square")
SIZE = 12


def pictures(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy pictures (count, 1, SIZE, SIZE), and their classes."""
    x, labels = 0.4 * torch.randn(count, 1, SIZE, SIZE), torch.randint(len(KINDS), (count,))
    for picture, label in zip(x, labels, strict=True):
        top, left = (int(at) for at in torch.randint(SIZE - 6, (2,)))
        height, width = ((1, 6), (6, 1), (4, 4))[int(label)]
        picture[0, top : top + height, left : left + width] += 1.5
    return x, labels


def trained() -> nn.Module:
    """Train for some seconds on the CPU."""
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(72, len(KINDS)), nn.Softmax(-1))
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(150):
        x, labels = pictures(64)
        optimiser.zero_grad()
        nn.functional.nll_loss(torch.log(module(x) + 1e-9), labels).backward()
        optimiser.step()
    return module.eval()


def main(board: str) -> int:
    """Train, compile, run; return 0 when the board has every class as PyTorch does, and memory is as planned."""
    torch.manual_seed(1)
    module = trained()
    x, labels = pictures(50)
    with torch.no_grad():
        wanted = module(x)
    print(f"accuracy in PyTorch: {(wanted.argmax(1) == labels).float().mean():.0%}")
    made = mlf_sdk.compile(module, "pictures.tar", example_inputs=(x[:1],), name="pictures")
    report = mlf_sdk.run(made.output, board=board, inputs={"0": x.numpy()})
    found = torch.from_numpy(next(iter(report.outputs.values()))).reshape(wanted.shape)
    print(f"accuracy on {board}: {(found.argmax(1) == labels).float().mean():.0%}")
    print(f"largest difference: {(found - wanted).abs().max():.2g}; arena {report.memory.arena_bytes} B")
    print(f"written: {Path(made.output).resolve()}")
    return 0 if report.ok and torch.allclose(found, wanted, rtol=0, atol=1e-5) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1] if len(sys.argv) > 1 else "mps2-an386"))
