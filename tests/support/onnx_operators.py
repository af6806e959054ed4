# SPDX-License-Identifier: Apache-2.0
"""Random ONNX networks: what they mean by ONNX Runtime, and all goals' kernels by the reference.

python tests/support/onnx_operators.py --count 2000 [--cores 100] [--seed 0] [--jobs 2]

Kernels run on the host, and those of ``--cores`` networks on each emulated core.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import re
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

from core_batches import core_faults
from kernel_checks import KernelCheck
from kernel_library import KernelLibrary
from makers import counted_makers
from mlf_sdk.compiler.cores import Core, core_named
from onnx_comparison import Comparison, compare
from onnx_drawing import network

TOGETHER = 10  # networks in one library
CORES = tuple(map(core_named, ("cortex-m0", "cortex-m4", "cortex-m55", "rv32imac", "rv32imac_zve32x")))


@dataclass
class Report:
    """What came of some networks.

    Attributes:
        networks: those that were compared.
        kernels: comparisons of them.
        faults: what is wrong, each with the seed of its network.
        refused: how many networks are not read for a reason, and one of them.
        operators, makers: what was drawn: operators with their attributes, makers of kernels.
    """

    networks: int = 0
    kernels: int = 0
    faults: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    operators: Counter[str] = field(default_factory=Counter)
    makers: Counter[str] = field(default_factory=Counter)
    never: set[str] = field(default_factory=set)

    def add(self, other: Report) -> None:
        """Take in what came of others."""
        self.networks += other.networks
        self.kernels += other.kernels
        self.faults += other.faults
        self.refused.update(other.refused)
        self.examples = other.examples | self.examples
        self.operators.update(other.operators)
        self.makers.update(other.makers)
        self.never |= other.never


def run_batch(seeds: list[int], core: Core | None = None) -> Report:
    """Compare networks, whose kernels are one library, or few images for a core."""
    report = Report()
    with tempfile.TemporaryDirectory() as folder, counted_makers() as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [_compared(seed, Path(folder), report, core or core_named("generic")) for seed in seeds]
        report.makers.update(made.counts)
        report.never = set(made.names)
        made.forget()
        checks = [check for one in found if one is not None for check in one.checks]
        report.kernels += len(checks)
        report.faults += _faults_of(checks, core, Path(folder))
    return report


def _compared(seed: int, folder: Path, report: Report, core: Core) -> Comparison | None:
    try:
        n = network(seed)
        found = compare(n, f"seed {seed}, {n.style} {n.opset}", folder, (core,))
    except Exception:
        report.faults.append(f"seed {seed}: {traceback.format_exc(limit=-3)}")
        return None
    for reason in found.refused:
        general = _general(reason)
        report.refused[general] += 1
        report.examples.setdefault(general, f"seed {seed}: {reason}")
    if not found.refused:
        report.networks += 1
        for kind, attributes in n.drawn:
            report.operators.update([kind, *(f"{kind}.{name}" for name in attributes)])
    report.faults += found.faults
    return found


def _general(reason: str) -> str:
    """A reason without names and numbers."""
    return re.sub(r"node \d+|\('[^']*'\)|'[^']*'|\([^()]*\)|-?\d+(\.\d+)?", "#", reason)


def _faults_of(checks: list[KernelCheck], core: Core | None, folder: Path) -> Iterator[str]:
    """Everything wrong with kernels, on the host or on a core."""
    if not checks:
        return
    if core is not None:
        yield from (f"{core.name}: {says}" for _, says in core_faults(checks, core, folder))
        return
    try:
        library = KernelLibrary(checks, folder)
    except subprocess.CalledProcessError as error:
        yield f"{checks[0].label} and others: {error.stderr[:2000]}"
        return
    for check in checks:
        yield from library.faults(check)


def run(seeds: list[int], jobs: int, core: Core | None = None) -> Iterator[Report]:
    """Reports of batches as they end; networks whose kernels bring a process down are found one by one."""
    batches = [seeds[i : i + TOGETHER] for i in range(0, len(seeds), TOGETHER)]
    left = collections.deque(batches)
    while left:
        lost: list[list[int]] = []
        with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
            waiting = {pool.submit(run_batch, batch, core): batch for batch in left}
            left.clear()
            for done in concurrent.futures.as_completed(waiting):
                try:
                    yield done.result()
                except BrokenProcessPool:
                    lost.append(waiting[done])
        for batch in lost:
            yield from _alone(batch, core)


def _alone(batch: Iterable[int], core: Core | None) -> Iterator[Report]:
    for seed in batch:
        with concurrent.futures.ProcessPoolExecutor(1) as pool:
            try:
                yield pool.submit(run_batch, [seed], core).result()
            except BrokenProcessPool:
                yield Report(faults=[f"seed {seed}: its kernels end the process"])


def report_on(total: Report, place: str) -> None:
    """Print what came of all networks in one place."""
    for reason, count in total.refused.most_common():
        print(f"refused: {count} x {reason} ({total.examples[reason]})")
    print(
        f"{total.networks:,} ONNX networks on {place}, {total.kernels:,} kernels for three goals: "
        f"{len(total.faults)} wrong, {sum(total.refused.values())} refusals",
        flush=True,
    )


def main() -> int:
    """Compare ``--count`` networks, and ``--cores`` on each core; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--cores", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    all_of_them = Report()
    for core, count in ((None, asked.count), *((core, asked.cores) for core in CORES)):
        total = Report()
        for report in run(list(range(asked.seed, asked.seed + count)), asked.jobs, core) if count else ():
            print(*report.faults, sep="\n", end="\n" if report.faults else "", flush=True)
            total.add(report)
        if count:
            report_on(total, "the host" if core is None else core.name)
        all_of_them.add(total)
    print(f"{len(all_of_them.operators)} operators and attributes drawn; makers never drawn:")
    print(*sorted(all_of_them.never - {m for m, c in all_of_them.makers.items() if c}), sep="\n")
    return bool(all_of_them.faults)


if __name__ == "__main__":
    sys.exit(main())
