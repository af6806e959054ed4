# SPDX-License-Identifier: Apache-2.0
"""Graphs of random operators with random numbers: reference, host, TFLM and emulated cores give the same values.

python tests/support/operator_graphs.py --count 5000 [--seed 0] [--cores]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from agreement import agree
from core_images import MACHINES, run_on_core
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.options import Core
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from operator_cases import CASES, Case
from tflite_models import Maker

CORES = (Core.CORTEX_M0, Core.CORTEX_M4, Core.CORTEX_M55)
WHOLE = [
    (n, d)
    for n, (ds, _) in CASES.items()
    for d in ds
    if d in ("int8", "int16") and n not in ("SPLIT", "DEQUANTIZE")
]
ANY = [(n, d) for n, (ds, _) in CASES.items() for d in ds]


def random_graph(seed: int, size: int, kinds: list[tuple[str, str]]) -> bytes:
    """A model of ``size`` random operators of random types."""
    random = np.random.default_rng(seed)
    maker = Maker(seed)
    outputs: list[int] = []
    for _ in range(size):
        name, dtype = kinds[int(random.integers(0, len(kinds)))]
        CASES[name][1](Case(maker, dtype))
        outputs += maker.spec.outputs
    return maker.finish(*outputs)


def check(seed: int, size: int, folder: Path, *, cores: bool) -> None:
    """Compare the answers to one graph; on every core where ``cores`` is set, without real numbers.

    Raises:
        AssertionError: two of them differ.
    """
    model = random_graph(seed, size, WHOLE if cores else ANY)
    agree(model, folder, seed, runs=1)
    for core in CORES if cores else ():
        assert core in MACHINES
        run_on_core(
            compile_graph(load_tflite(folder / "model.tflite"), Choice(core=core)), core, folder, seed
        )


def main() -> None:
    """Check graphs until they have ``--count`` operators."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--size", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cores", action="store_true")
    asked = parser.parse_args()
    graphs = -(-asked.count // asked.size)
    for number in range(asked.seed, asked.seed + graphs):
        with tempfile.TemporaryDirectory() as folder:
            try:
                # Every second graph has no real numbers and runs on the cores as well.
                check(number, asked.size, Path(folder), cores=asked.cores and number % 2 == 0)
            except BaseException:
                print(f"seed {number}")
                raise
    print(f"{graphs * asked.size:,} operators in {graphs:,} graphs: all answers are the same")


if __name__ == "__main__":
    main()
