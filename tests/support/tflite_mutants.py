# SPDX-License-Identifier: Apache-2.0
"""Damaged .tflite files: each either is refused in one error, or compiles. More of them than the suite's 300:

python tests/support/tflite_mutants.py --count 10000 [--seed 0]
"""

from __future__ import annotations

import argparse
import struct
import tempfile
from pathlib import Path

import numpy as np

from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.frontends.mlf.compiled import archive_of
from tflite_models import Maker, small_network

EXTREMES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def bases() -> tuple[bytes, ...]:
    """Models whose structures are damaged: layers with weights, tables, sums."""
    m = Maker(7)
    x = m.input((1, 6, 5, 4))
    deep = m.conv(x, 4, (3, 3), 1, same=True, depthwise=True)
    small = m.finish(m.softmax(m.dense(m.logistic(deep), 3)))
    return small_network(), small


def mutant(base: bytes, seed: int) -> bytes:
    """A copy with some bytes flipped, words replaced by extremes or by each other, or its end cut off."""
    random = np.random.default_rng(seed)
    data = bytearray(base)
    kind = seed % 4
    if kind == 0:
        return bytes(data[: int(random.integers(8, len(data)))])
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(8, len(data) - 4))
        if kind == 1:
            data[at] = int(random.integers(0, 256))
        elif kind == 2:
            struct.pack_into("<I", data, at & ~3, int(random.choice(EXTREMES)))
        else:
            other = int(random.integers(8, len(data) - 4)) & ~3
            data[at & ~3 : (at & ~3) + 4] = data[other : other + 4]
    return bytes(data)


def survives(data: bytes, folder: Path) -> bool:
    """Compile a mutant; True when it was taken, False when it was refused.

    Raises:
        AssertionError: it was refused without a place, a fault or a remedy.
    """
    path = folder / "mutant.tflite"
    path.write_bytes(data)
    try:
        archive_of(compile_graph(load_tflite(path), Choice()))
    except ArchiveError as error:
        assert error.faults and error.hint and error.where == str(path)
        return False
    except InputError as error:
        assert error.where
        return False
    return True


def main() -> None:
    """Try mutants, and say how many were taken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    models = bases()
    with tempfile.TemporaryDirectory() as folder:
        taken = 0
        for seed in range(asked.seed, asked.seed + asked.count):
            try:
                taken += survives(mutant(models[seed % 8 // 4], seed), Path(folder))
            except BaseException:
                print(f"seed {seed}")
                raise
    print(f"{asked.count:,} mutants: {taken:,} compiled, {asked.count - taken:,} refused, none crashed")


if __name__ == "__main__":
    main()
