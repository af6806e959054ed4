# SPDX-License-Identifier: Apache-2.0
"""Attack of ``make attack``: thousands of random archives, each against an executor of its own.

    python tests/attack/attack.py --seed 0 --count 5000 --board-share 100

Every seed's archive runs by the SDK's plan on this machine; each hundredth also on an emulated board. A seed
that fails is printed with the fewest nodes of its graph that still fail, and its archive is kept.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from archives import write
from attack_cases import archive_of, make_case
from attack_run import Findings, attack, attack_board, smallest

CHUNK = 60


def chunk_findings(seeds: range, *, board: str, share: int) -> Findings:
    """The findings of some seeds, those on the board included."""
    folder = Path(tempfile.mkdtemp(prefix="mlf-attack-"))
    try:
        found = attack(seeds, folder / "image")
        for seed in seeds:
            if share and seed % share == 0 and seed not in found.wrong:
                why = attack_board(seed, folder, board)
                if why and not why.startswith("refused"):
                    found.wrong[seed] = f"on {board}: {why}"
        return found
    finally:
        shutil.rmtree(folder)


def main() -> int:
    """Attack, print what was found; 1 when a result was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=5000, help="archives")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--board", default="mps2-an386")
    parser.add_argument(
        "--board-share", type=int, default=100, help="each so many runs on the board; 0: none"
    )
    parser.add_argument("--output", type=Path, default=Path("build/attack"), help="archives that failed")
    args = parser.parse_args()
    end = args.seed + args.count
    chunks = [range(a, min(a + CHUNK, end)) for a in range(args.seed, end, CHUNK)]
    start, done, equal = time.monotonic(), 0, 0
    refused, wrong = Counter[str](), dict[int, str]()
    with ProcessPoolExecutor(args.jobs) as pool:
        work = partial(chunk_findings, board=args.board, share=args.board_share)
        for seeds, found in zip(chunks, pool.map(work, chunks), strict=True):
            done += len(seeds)
            equal += found.equal
            refused += found.refused
            wrong |= found.wrong
            print(f"seeds {seeds.start} to {seeds.stop - 1}: {equal} equal, {len(wrong)} wrong", flush=True)
    print(f"{done} archives in {time.monotonic() - start:.0f} s: {equal} equal, {refused.total()} refused")
    for why, count in refused.most_common():
        print(f"  refused {count}: {why}")
    for seed, why in wrong.items():
        report(seed, why, args.output)
    return 1 if wrong else 0


def report(seed: int, why: str, output: Path) -> None:
    """Print a seed that failed, and keep the archive of its smallest graph."""
    folder = Path(tempfile.mkdtemp(prefix="mlf-attack-"))
    nodes, least = smallest(seed, folder)
    shutil.rmtree(folder)
    output.mkdir(parents=True, exist_ok=True)
    case = make_case(seed, nodes)
    path = write(archive_of(case), output / f"{case.name}.tar")
    print(f"WRONG seed {seed}: {why}")
    print(f"  with {len(case.nodes)} nodes ({path}): {least}")
    for node in case.nodes:
        names = [[case.tensors[t].name for t in side] for side in (node.inputs, node.outputs)]
        print(f"    {node.function}: {', '.join(names[0])} -> {', '.join(names[1])}")


if __name__ == "__main__":
    sys.exit(main())
