# SPDX-License-Identifier: Apache-2.0
"""``make bench``: instructions, memory and times of the MLPerf Tiny models and of the example.

Instructions are counted in the emulator: the same on every machine with the same compiler. Seconds
are this machine's. Prints a table and writes all figures as JSON. Exits with 1 when something that
is there could not be measured; a target that is missed is reported, and is no failure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))

import goals
import seconds as times
import simulated
import sweeps
from bench_line import line_figures
from core_images import MACHINES, run_on_core
from measure import BenchError, measure_archive
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import MlfError
from mlf_sdk.judge.counting import missing_plugin_support
from mlf_sdk.tools.discovery import find_tools
from peers import (
    LIMITS,
    PEERS,
    SOURCES,
    TVM_ALLOCATOR_PAIR,
    TVM_DISPATCH_STEP,
    TVM_USMP_WORKSPACE,
)

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "digits"
ARCHIVES = ROOT.parent / "shared" / "mlf"
MODELS = ("resnet8", "kws", "vww", "ad")
NEEDS_CMSIS_NN = ("graphm7", "aotcm7", "cmsisnn")
COLD_RUN, LARGE = "resnet8_int8-graph-tvm0.11.1.tar", "ad_int8-aotc-tvm0.11.1.tar"


class Bench:
    """Collects figures, targets, and what was left out."""

    def __init__(self, folder: Path, archives: Path) -> None:
        self.folder = folder
        self.archives = archives
        self.models: dict[str, Any] = {}
        self.compiled: dict[str, Any] = {}
        self.goals: dict[str, Any] = {}
        self.simulated: dict[str, dict[str, int]] = {}
        self.seconds: dict[str, float] = {}
        self.growth: dict[str, float] = {}
        self.line: dict[str, Any] = {}
        self.sweeps: dict[str, Any] = {}
        self.targets: list[dict[str, Any]] = []
        self.skipped: dict[str, str] = {}
        self.failed: dict[str, str] = {}

    def measure_models(self) -> None:
        """Instructions, code and memory of every archive."""
        for archive in self._archives():
            name = archive.stem
            print(f"measuring {name}", file=sys.stderr, flush=True)
            try:
                self.models[name] = measure_archive(archive, self.folder / name, self.folder / "tools")
            except (MlfError, BenchError, LookupError, OSError) as error:
                self.failed[name] = str(error)
            else:
                self._model_targets(name, self.models[name])

    def measure_compiled(self) -> None:
        """Instructions of the compiler's kernels on each core; each is compared with the reference."""
        jobs = [(model, *key, limit) for key, limits in LIMITS.items() for model, limit in limits.items()]
        for model, core, goal, limit in jobs:
            path = self._model(model)
            if not path.is_file():
                continue
            name = f"{model} compiled for {core}{'' if goal is Goal.BALANCED else f' for {goal.value}'}"
            if missing := MACHINES[core_named(core)].missing:
                self.skipped[name] = f"not installed: {', '.join(missing)}"
                continue
            print(f"measuring {name}", file=sys.stderr, flush=True)
            folder = self.folder / name.replace(" ", "-")
            folder.mkdir()
            try:
                graph = compile_graph(load_tflite(path), Choice(core=core_named(core), goal=goal))
                counts = run_on_core(graph, core_named(core), folder)
            except (MlfError, AssertionError, ValueError, OSError, subprocess.SubprocessError) as error:
                self.failed[name] = str(error) or type(error).__name__
                continue
            total = sum(count for _, count in counts)
            self.compiled[name] = {"instructions": total, "per_step": counts}
            self._below(f"{name}: instructions", total, limit)

    def measure_goals(self) -> None:
        """Cycles and instructions of each goal of the compiler."""
        for core in goals.BOARDS:
            for path in filter(Path.is_file, map(self._model, MODELS)):
                name = f"{path.stem} on {core}"
                print(f"estimating cycles of {name}", file=sys.stderr, flush=True)
                try:
                    self.goals[name] = goals.figures(path, core, self.folder)
                except (MlfError, LookupError, OSError) as error:
                    self.failed[f"goals: {name}"] = str(error)
                    continue
                for what, value, limit in goals.limits(self.goals[name]):
                    self._below(f"{name}: {what}", value, limit)

    def measure_simulated(self) -> None:
        """Cycles of a simulated core."""
        if why := simulated.missing():
            self.skipped[f"cycles on {simulated.BOARD}"] = why
            return
        for path in filter(Path.is_file, map(self._model, MODELS)):
            name = f"{path.stem} on {simulated.BOARD}"
            print(f"counting cycles of {name}", file=sys.stderr, flush=True)
            try:
                one = self.simulated[name] = simulated.figures(path)
            except (MlfError, LookupError, OSError) as error:
                self.failed[name] = str(error)
                continue
            ratio = round(one["cycles"] / one["instructions"], 3)
            self._below(f"{name}: cycles an instruction", ratio, simulated.MOST_CYCLES)

    def _model(self, name: str) -> Path:
        """Path of a model's file."""
        return self.archives.parent / "tflite" / f"{name}_int8.tflite"

    def measure_seconds(self) -> None:
        """The times that people wait for."""
        large, cold = self.archives / LARGE, self.archives / COLD_RUN
        small = EXAMPLES / "digits-graph-tvm0.11.1.tar"
        jobs: tuple[tuple[str, Path, float | None, Callable[[Path], float]], ...] = (
            ("cold run, compared with the host", cold, 10.0, lambda at: times.cold_run_seconds(cold, at)),
            ("cold run", cold, 10.0, lambda at: times.cold_run_seconds(cold, at, "--no-twin")),
            ("generate", large, 0.5, lambda at: times.generate_seconds(large, at)),
            ("generate, whole command", large, None, lambda at: times.generate_command_seconds(large, at)),
            ("rebuild after touching main.c", small, 1.0, lambda at: times.rebuild_seconds(small, at)),
        )
        for name, archive, target, job in jobs:
            if not archive.is_file():
                self.skipped[name] = f"{archive.name} is not there"
                continue
            print(f"timing {name}", file=sys.stderr, flush=True)
            try:
                self.seconds[name] = round(job(self.folder / "seconds"), 3)
            except (MlfError, OSError) as error:
                self.failed[name] = str(error)
                continue
            if target is not None:
                self._below(f"seconds: {name} ({archive.name})", self.seconds[name], target)

    def measure_growth(self) -> None:
        """Growth of the SDK's own work with the number of steps."""
        print("timing chains of 2,000 and 10,000 steps", file=sys.stderr, flush=True)
        try:
            self.growth = times.growth_with_steps(self.folder / "growth")
        except (MlfError, OSError) as error:
            self.failed["growth"] = str(error)
            return
        for name, ratio in self.growth.items():
            self._below(f"{name}: five times the steps, times the CPU time", ratio, 6)

    def measure_line(self) -> None:
        """Throughput of a paced line, goodput of a bad one, size of the RPC server."""
        print("measuring the line", file=sys.stderr, flush=True)
        try:
            self.line = line_figures()
        except (MlfError, AssertionError, RuntimeError, OSError, subprocess.SubprocessError) as error:
            self.failed["line"] = str(error)
            return
        for figures in self.line["throughput"]:
            if figures["window_bytes"]:
                lost = 1 - min(figures["write_share"], figures["read_share"])
                self._below(f"line at {figures['baud']:,} baud: share that is lost", round(lost, 4), 0.1)
        for figures in self.line["bad_line"]:
            self._below(f"line with faults of {figures['fault_rate']:g}: wrong results", figures["wrong"], 0)

    def measure_sweeps(self) -> None:
        """Overhead of sweeps, and a simulated farm."""
        print("measuring sweeps", file=sys.stderr, flush=True)
        try:
            self.sweeps = sweeps.figures()
        except (MlfError, ImportError, RuntimeError, OSError, subprocess.SubprocessError) as error:
            self.failed["sweeps"] = str(error)
            return
        for name, target in sweeps.TARGETS.items():
            if self.sweeps[name] is not None:  # no browser is installed
                self._below(f"sweeps: {name}", self.sweeps[name], target)

    def report(self) -> dict[str, Any]:
        """Everything, as it goes into the JSON file."""
        return {
            "machine": machine(),
            "models": self.models,
            "compiled": self.compiled,
            "goals": self.goals,
            "simulated": self.simulated,
            "seconds": self.seconds,
            "growth": self.growth,
            "line": self.line,
            "sweeps": self.sweeps,
            "targets": self.targets,
            "peers": {
                "sources": SOURCES,
                "tvm_dispatch_per_step": TVM_DISPATCH_STEP,
                "tvm_allocator_per_pair": TVM_ALLOCATOR_PAIR,
                "tvm_usmp_workspace_bytes": TVM_USMP_WORKSPACE,
                "models": PEERS,
            },
            "skipped": self.skipped,
            "failed": self.failed,
        }

    def _archives(self) -> Iterator[Path]:
        yield from sorted(EXAMPLES.glob("*.tar"))
        if not self.archives.is_dir():
            self.skipped["MLPerf Tiny models"] = f"there is no folder {os.path.relpath(self.archives, ROOT)}"
        for model in MODELS:
            for archive in sorted(self.archives.glob(f"{model}_int8-*.tar")):
                if archive.stem.split("-")[1] in NEEDS_CMSIS_NN:
                    self.skipped[archive.stem] = "its code needs CMSIS-NN"
                else:
                    yield archive

    def _model_targets(self, name: str, figures: dict[str, Any]) -> None:
        code, memory = figures["code"], figures["memory"]
        if figures["executor"] == "graph":
            self._below(f"{name}: executor, instructions a step", figures["executor_per_step"], 20)
        if figures["workspace"]["pairs"]:
            self._below(f"{name}: workspace, instructions a pair", figures["workspace"]["per_pair"], 15)
        self._below(f"{name}: start-up, instructions", figures["startup_instructions"], 0)
        self._below(f"{name}: executor, bytes of code", code["executor_text_bytes"], 1024)
        self._below(f"{name}: RAM outside the arena, bytes", code["ram_outside_arena_bytes"], 64)
        self._below(f"{name}: arena = lower bound, bytes", memory["arena_bytes"], memory["lower_bound_bytes"])
        model, kind = name.split("_int8")[0], name.split("-")[1]
        if model in TVM_USMP_WORKSPACE and kind == "graph":
            limit = TVM_USMP_WORKSPACE[model]
            self._below(
                f"{name}: arena without inputs and outputs, bytes", memory["arena_without_io_bytes"], limit
            )

    def _below(self, name: str, value: float, target: float) -> None:
        self.targets.append({"name": name, "value": value, "target": target, "ok": value <= target})


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    versions = {status.tool.name: status.version for status in find_tools()}
    return {
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "gcc": versions.get("arm-none-eabi-gcc"),
        "qemu": versions.get("qemu-system-arm"),
        "python": platform.python_version(),
        "board": "mps2-an386, -icount shift=0",
    }


# ---- the table ----


def print_report(report: dict[str, Any]) -> None:
    """The figures for people."""
    head = f"{'archive':34}{'instructions':>13}{'steps':>6}{'a step':>8}{'a pair':>8}"
    print(f"\n{head}{'code':>6}{'RAM':>5}{'arena':>9}{'bound':>9}{'no i/o':>9}")
    for name, figures in report["models"].items():
        print(_model_row(name, figures))
    print("\nTVM 0.11.1's own runtime on the graph archives, for comparison (constants, not run here):")
    for model in MODELS:
        peer = PEERS[model]["tvm graph executor"]
        tflm = PEERS[model]["tflm reference"]["instructions"]
        print(
            f"  {model:10}{peer['instructions']:>12,} instructions, init {peer['init']:,}; "
            f"USMP workspace {TVM_USMP_WORKSPACE[model]:,}; TFLM's reference kernels {tflm:,}"
        )
    low, high = TVM_DISPATCH_STEP
    print(f"  dispatch {low} to {high} instructions a step, allocator {TVM_ALLOCATOR_PAIR} a pair\n")
    for name, figures in report["compiled"].items():
        print(f"{name:36}{figures['instructions']:>13,} instructions")
    for name, found in report["goals"].items():
        print(f"{name:36}" + "".join(f"{g:>14}{f['cycles']:>13,} cycles" for g, f in found.items()))
    for name, one in report["simulated"].items():
        print(f"{name:36}{one['instructions']:>13,} instructions{one['cycles']:>13,} cycles")
    for name, value in report["seconds"].items():
        print(f"{name:36}{value:>8.2f} s")
    print_line(report["line"])
    for name, value in report["sweeps"].items():
        print(f"sweeps: {name.replace('_', ' '):36}{value}")
    missed = [target for target in report["targets"] if not target["ok"]]
    print(f"\ntargets: {len(report['targets']) - len(missed)} of {len(report['targets'])} met")
    for target in missed:
        print(f"  missed: {target['name']}: {target['value']:,} (target {target['target']:,})")
    for kind in ("skipped", "failed"):
        for name, reason in report[kind].items():
            print(f"{kind}: {name}: {reason.splitlines()[0]}")


def print_line(line: dict[str, Any]) -> None:
    """The figures of the line for people."""
    for figures in line.get("throughput", []):
        window = f"window {figures['window_bytes']:,}" if figures["window_bytes"] else "no window"
        print(
            f"line at {figures['baud']:,} baud, payload {figures['max_payload']:,}, {window}: "
            f"{figures['write_share']:.1%} of the rate to the device, {figures['read_share']:.1%} to the host"
        )
    for figures in line.get("bad_line", []):
        print(
            f"line with flips, drops and doublings of {figures['fault_rate']:g} each: {figures['wrong']} of "
            f"{figures['inferences']} results wrong, goodput {figures['goodput_share']:.1%}"
        )
    if line:
        trip, server = line["round_trip"], line["server"]
        print(
            f"empty request {trip['request_bytes']} bytes, its reply {trip['reply_bytes']}; server on a Cortex-M4 "
            f"{server['flash_bytes']:,} bytes of flash, {server['ram_bytes']:,} of RAM "
            f"(payload {server['max_payload']})"
        )


def _model_row(name: str, figures: dict[str, Any]) -> str:
    code, memory, pair = figures["code"], figures["memory"], figures["workspace"]["per_pair"]
    step = f"{figures['executor_per_step']:.1f}" + ("" if figures["adapters_counted"] else "+")
    return (
        f"{name:34}{figures['instructions']:>13,}{figures['steps']:>6}{step:>8}"
        f"{'-' if pair is None else f'{pair:.1f}':>8}"
        f"{code['executor_text_bytes']:>6}{code['ram_outside_arena_bytes']:>5}{memory['arena_bytes']:>9,}"
        f"{memory['lower_bound_bytes']:>9,}{memory['arena_without_io_bytes']:>9,}"
    )


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="Instructions, memory and times, as a table and as JSON.")
    parser.add_argument("--output", type=Path, default=Path("build/bench.json"), help="JSON file to write")
    parser.add_argument("--archives", type=Path, default=ARCHIVES, help="folder of the MLPerf Tiny archives")
    parser.add_argument("--no-seconds", action="store_true", help="leave the times out")
    arguments = parser.parse_args()
    missing = missing_plugin_support()
    if missing:
        print(f"instructions can't be counted: {missing}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="mlf-bench-") as folder:
        bench = Bench(Path(folder), arguments.archives)
        bench.measure_models()
        bench.measure_compiled()
        bench.measure_goals()
        bench.measure_simulated()
        if not arguments.no_seconds:
            bench.measure_seconds()
            bench.measure_growth()
            bench.measure_line()
            bench.measure_sweeps()
        report = bench.report()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print_report(report)
    print(f"all figures: {arguments.output}")
    return 1 if report["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
