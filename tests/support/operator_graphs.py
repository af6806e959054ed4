# SPDX-License-Identifier: Apache-2.0
"""Random networks and graphs of random operators: TFLM, reference, kernels on the host and on cores give the same.

python tests/support/operator_graphs.py --int8 2000 --float 1000 --int16 500 --rows 1000 --windows 1000
  --operators 5000 --cores 100 [--on rv32imac] [--seed 0] [--jobs 2] [--keep FOLDER] [--branches]

Each worker takes a run of seeds, so that a command that was broken off goes on with ``--seed``. Of a network that is
wrong, the operators that differ are printed, the first one first; its model is written to ``--keep``. Makers that were
never drawn are listed, with ``--branches`` the lines and branches of the kernels' generators as well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from core_batches import core_faults
from core_images import MACHINES
from drawn_models import RUNS, drawn_model
from kernel_library import KernelLibrary
from makers import Drawn, counted_makers
from mlf_sdk.compiler.cores import Core, core_named
from network_checks import CORES, Examined, Refused, examine_model, examine_network, inputs_of, tflm_values
from operator_cases import CASES
from random_networks import Network, random_network
from random_rows import random_rows
from random_windows import random_windows

_EMULATED = ("cortex-m0", "cortex-m4", "cortex-m55", "rv32imac", "rv32imac_zve32x")  # cores of --cores
BATCH = 25  # networks in one library or image
_SEEDS = {
    "int8": 0,
    "float32": 1 << 24,
    "int16": 2 << 24,
    "operators": 3 << 24,
    "rows": 4 << 24,
    "windows": 5 << 24,
}
_SHARES = {"int8": 0.6, "windows": 0.4, "float32": 0.2, "int16": 0.2, "models": 0.2}  # of --cores
ANY = [(n, d) for n, (ds, _) in CASES.items() for d in ds]


def random_graph(seed: int, size: int, kinds: Sequence[tuple[str, str]] = ANY) -> Network:
    """A network of ``size`` random operators of random types, each with inputs of its own."""
    network = Network(seed, "int8", alone=True)
    for _ in range(size):
        name, network.dtype = kinds[int(network.random.integers(0, len(kinds)))]
        CASES[name][1](network)
    return network


def network_of(kind: str, seed: int) -> Network:
    """The network of a seed: of one type, or of operators of any type that don't feed each other."""
    number = _SEEDS[kind] + seed
    if kind == "rows":
        return random_rows(number)
    if kind == "windows":
        return random_windows(number)
    return random_graph(number, 40) if kind == "operators" else random_network(number, kind)


def check_host(kind: str, seeds: Sequence[int], drawn: Drawn, folder: Path) -> dict[str, Any]:
    """Check networks on the host, their kernels in one library; counts and faults."""
    examined, refused = _examined(kind, seeds, drawn, None)
    checks = [check for one in examined for check in one.checks]
    flags = ("-O2",) if seeds[0] % (8 * BATCH) == 0 else ("-O0",)
    library = KernelLibrary(checks, folder, flags)
    for one in examined:
        one.faults += [fault for check in one.checks for fault in library.faults(check)]
    return _result(kind, examined, refused, len(checks))


def check_core(kind: str, seeds: Sequence[int], drawn: Drawn, folder: Path, core: Core) -> dict[str, Any]:
    """Check networks on an emulated core, in as few images as their constants allow."""
    examined, refused = _examined(kind, seeds, drawn, core)
    labels = {check.label: one for one in examined for check in one.checks}
    for label, fault in core_faults([c for one in examined for c in one.checks], core, folder):
        labels[label].faults.append(fault)
    return _result(f"{kind} on {core.name}", examined, refused, len(labels))


def _examined(
    kind: str, seeds: Sequence[int], drawn: Drawn, core: Core | None
) -> tuple[list[Examined], list[str]]:
    found, refused = [], []
    for seed in seeds:
        chosen = core or CORES[seed % len(CORES)]
        try:
            found.append(_one(kind, seed, chosen, others=core is None))
        except Refused as error:
            refused.append(f"{kind} {seed}: TFLM: {error}")
        drawn.forget()
    return found, refused


def _one(kind: str, seed: int, core: Core, *, others: bool) -> Examined:
    if kind == "models":
        return examine_model(f"{kind} {seed}", drawn_model(seed), RUNS, core, others=others)
    return examine_network(f"{kind} {seed}", network_of(kind, seed), core, others=others)


def _result(kind: str, examined: list[Examined], refused: list[str], checks: int) -> dict[str, Any]:
    return {
        "kind": kind,
        "networks": len(examined),
        "operators": sum(one.operators for one in examined),
        "checks": checks,
        "streamed": sum(one.streamed for one in examined),
        "faults": {one.name: one.faults for one in examined if one.faults},
        "refused": refused,
    }


def asked_of_tflm(kind: str, seed: int) -> None:
    """Run TFLM alone on the network of a seed."""
    if kind != "models":
        network = network_of(kind, seed)
        complete = network.file(all_values=True)
        with contextlib.suppress(Refused):
            tflm_values(complete, [network.tensor(i).name for i in network.spec.outputs], inputs_of(network))


def worker(kind: str, first: int, count: int, core: str) -> None:
    """Check a run of seeds and print the result as one line of JSON; of none: only run TFLM on the first."""
    if not count:
        asked_of_tflm(kind, first)
        print(json.dumps({"died": ""}))
        return
    seeds = range(first, first + count)
    with tempfile.TemporaryDirectory() as folder, counted_makers() as drawn:
        started = time.process_time()
        if core:
            result = check_core(kind, seeds, drawn, Path(folder), core_named(core))
        else:
            result = check_host(kind, seeds, drawn, Path(folder))
        result |= {"first": first, "makers": drawn.names, "drawn": dict(drawn.counts)}
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        result["cpu_s"] = time.process_time() - started + children.ru_utime + children.ru_stime
    print(json.dumps(result))


def _started(job: tuple[str, int, int, str], branches: Path | None) -> list[dict[str, Any]]:
    """Result of a worker; where it dies, of one for each of its seeds, so that the seed is known."""
    kind, first, count, core = job
    command = [sys.executable, "-W", "ignore"]
    if branches:
        source = "mlf_sdk.compiler.kernels"
        data = f"--data-file={branches / '.coverage'}"
        command += ["-m", "coverage", "run", "--branch", "--parallel-mode", f"--source={source}", data]
    command += [__file__, "--worker", kind, str(first), str(count), core]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return [json.loads(done.stdout.splitlines()[-1])]
    if count > 1:
        return [r for seed in range(first, first + count) for r in _started((kind, seed, 1, core), branches)]
    name = f"{kind} {first}"
    if count and _started((kind, first, 0, core), branches=None)[0]["died"]:
        return [{"kind": kind, "first": first, "faults": {}, "refused": [f"{name}: TFLM dies of it"]}]
    said = (done.stderr.strip().splitlines() or [""])[-1]
    died = f"{name}: the worker died ({done.returncode}): {said}"
    return [{"kind": kind, "first": first, "died": died, "faults": {name: [died]}}]


def run(
    jobs: Sequence[tuple[str, int, int, str]], workers: int, branches: Path | None
) -> Iterator[dict[str, Any]]:
    """Results of jobs, as they come."""
    with ThreadPoolExecutor(workers) as pool:
        for results in pool.map(lambda job: _started(job, branches), jobs):
            yield from results


def print_branches(folder: Path) -> None:
    """Print the lines and branches that no worker reached, from the files that they left in ``folder``."""
    for command in (["combine", "--quiet"], ["report", "--show-missing", "--skip-covered"]):
        subprocess.run(
            [
                sys.executable,
                "-m",
                "coverage",
                *command,
                f"--data-file={folder / '.coverage'}",
                *([str(folder)] if command[0] == "combine" else []),
            ],
            check=False,
        )


def jobs_of(asked: argparse.Namespace) -> list[tuple[str, int, int, str]]:
    """Kind, first seed, number of seeds and core of each worker."""
    found = []
    for kind, count in (
        ("operators", -(-asked.operators // 40)),
        ("int8", asked.int8),
        ("float32", asked.float),
        ("int16", asked.int16),
        ("rows", asked.rows),
        ("windows", asked.windows),
        ("models", asked.operators // 50),
    ):
        size = 5 if kind == "operators" else BATCH
        found += [(kind, asked.seed + i, min(size, count - i), "") for i in range(0, count, size)]
    for core in map(core_named, asked.on):
        if MACHINES[core].missing:
            raise SystemExit(f"{core.name}: not installed: {', '.join(MACHINES[core].missing)}")
        for kind, share in _SHARES.items():
            count = round(asked.cores * share)
            found += [(kind, asked.seed + i, min(20, count - i), core.name) for i in range(0, count, 20)]
    return found


def keep(folder: Path, name: str) -> None:
    """Write the model of a seed."""
    kind, _, text = name.partition(" ")
    seed = int(text)
    folder.mkdir(parents=True, exist_ok=True)
    model = drawn_model(seed) if kind == "models" else network_of(kind, seed).file()
    (folder / f"{kind}-{seed}.tflite").write_bytes(model)


def main() -> int:
    """Check as many networks as are asked for; 1 where one is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for kind in ("int8", "float", "int16", "rows", "windows", "operators", "cores"):
        parser.add_argument(f"--{kind}", type=int, default=0)
    parser.add_argument("--on", nargs="+", choices=[c.name for c in MACHINES], default=list(_EMULATED))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--branches", action="store_true")
    parser.add_argument(
        "--worker", nargs=4, metavar=("KIND", "FIRST", "COUNT", "CORE"), help=argparse.SUPPRESS
    )
    asked = parser.parse_args()
    if asked.worker:
        worker(asked.worker[0], int(asked.worker[1]), int(asked.worker[2]), asked.worker[3])
        return 0
    totals: dict[str, Counter[str]] = {}
    drawn: Counter[str] = Counter()
    makers: dict[str, None] = {}
    wrong = 0
    measured = Path(tempfile.mkdtemp(prefix="branches-")) if asked.branches else None
    for result in run(jobs_of(asked), asked.jobs, measured):
        total = totals.setdefault(result["kind"], Counter())
        total.update({k: result.get(k, 0) for k in ("networks", "operators", "checks", "streamed", "cpu_s")})
        total.update(wrong=len(result["faults"]), refused=len(result.get("refused", ())))
        drawn.update(result.get("drawn", {}))
        makers.update(dict.fromkeys(result.get("makers", ())))
        for name, faults in result["faults"].items():
            wrong += 1
            print(*faults[:4], sep="\n", flush=True)
            if asked.keep:
                keep(asked.keep, name)
        for line in result.get("refused", ()):
            print(line, flush=True)
        print(f"{result['kind']} from seed {result['first']}: done", file=sys.stderr, flush=True)
    for kind, total in totals.items():
        print(
            f"{kind}: {total['networks']:,} networks of {total['operators']:,} operators, {total['checks']:,} kernels,"
            f" {total['streamed']:,} with their input by rows, {total['wrong']} wrong, {total['refused']} not run by TFLM, {total['cpu_s'] / max(1, total['networks']):.2f} s of CPU each"
        )
    print("makers never drawn:", ", ".join(m for m in makers if not drawn[m]) or "none")
    if measured:
        print_branches(measured)
        shutil.rmtree(measured)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
