# SPDX-License-Identifier: Apache-2.0
"""Writes the cost models of ``board_templates/costs``: ``python docs/layer_costs.py --keep FOLDER MODEL...``.

Each model is compiled for each core, and each of its layers counted on an emulated board: instructions, and
cycles by the timing of the core. For each family of kernels, costs are then a sum of three terms that are
not negative and keep the relative error small: for each multiply-accumulate, for each element of the
output, and for each call. A model that has other families of kernels for speed is counted for speed as
well, and gives the samples of those. A model's error is that of its own cost where the terms come from the
other models. Measurements are kept in the folder of --keep, for another fit; rows list the models by the
names of their files. With --core or --rtl BOARD only that row is written; the board's simulated core counts
both.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.cores import Core, core_named, cores
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.judge.memorymap import Contents, memory_maps
from mlf_sdk.judge.simulated import read_passes, window_argument
from mlf_sdk.judge.windows import kernel_window
from mlf_sdk.pipeline.execution import execute
from mlf_sdk.pipeline.options import ProfileOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.profile import profile_request
from mlf_sdk.pipeline.project import TargetProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.tune import measuring_request
from mlf_sdk.targets.boards.load import find_board

ROOT = Path(__file__).resolve().parents[1]
COSTS = ROOT / "board_templates" / "costs"
BALANCED, SPEED = Goal.BALANCED.value, Goal.SPEED.value
_OF_MODEL = ("kernels", "tables")
_NOT_RUNTIME = (*_OF_MODEL, "params", "server", "statics", "data", "bss", "stack", "arena")
_SERVES = {
    "cortex-m55": ("cortex-m85",),
    "cortex-m3": ("cortex-m33+nodsp",),
    "rv32imac": ("rv32imc",),
}  # by analogy
_LEAST = 100  # instructions of a kernel that is worth a coefficient


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A layer that was counted."""

    kernel: str
    macs: int
    elements: int
    instructions: int
    cycles: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A model on a core: its layers, and what its image holds.

    Attributes:
        goal: that its kernels are chosen for.
        functions: kernels that differ.
        kernel_bytes: of their code and of the tables that call them.
        runtime_bytes: flash beside kernels, parameters and the server.
    """

    model: str
    core: str
    total: int
    cycles: int | None
    functions: int
    kernel_bytes: int
    runtime_bytes: int
    samples: tuple[Sample, ...]
    goal: str = BALANCED

    @property
    def name(self) -> str:
        """Name of the model and, where it is not the usual one, its goal."""
        return self.model if self.goal == BALANCED else f"{self.model}, for {self.goal}"


def measure(path: Path, core: Core, goal: str) -> Measured:
    """Count the layers of a model on the emulated board of a core."""
    base = Request(source=(str(path),), core=core.name, goal=goal)
    with measuring_request(base) as counting:
        pipeline = Pipeline()
        request = counting.replace(core=None, trace=False)
        found = profile_request(request, ProfileOptions(), pipeline)
        project = pipeline.project(request)
        image = read_image(pipeline.build(request).elf)
        pipeline.close()
    counts = [(step.cost, step.cycles) for step in found.steps]
    return dataclasses.replace(_measured(path.stem, core.name, project, image, counts), goal=goal)


def measure_on_rtl(path: Path, board: str, goal: str) -> Measured:
    """Count the layers of a model on a board with a simulated core, in one inference."""
    request = Request(source=(str(path),), board=board, trace=False, goal=goal)
    pipeline = Pipeline()
    project = pipeline.project(request)
    image = read_image(pipeline.build(request).elf)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "counts"
        arguments = (f"out={out}", window_argument(kernel_window(image)))
        with pipeline.open(request, emulator=arguments) as target:
            execute(request, target, pipeline.batch(request))
        counts = [(one.instructions, one.cycles) for one in read_passes(out)][-len(project.model.steps) :]
    return dataclasses.replace(_measured(path.stem, board, project, image, counts), goal=goal)


def _measured(
    model: str, core: str, project: TargetProject, image: Image, counts: Sequence[tuple[int, int | None]]
) -> Measured:
    """A measurement of the instructions and cycles of each step."""
    board = project.target.board
    maps = memory_maps(Contents(project.lock, image), image, board.regions)
    parts = [part for one in maps if one.name == board.flash.name for part in one.parts]
    cycles = [count for _, count in counts if count is not None]
    return Measured(
        model=model,
        core=core,
        total=sum(instructions for instructions, _ in counts),
        cycles=sum(cycles) if len(cycles) == len(counts) else None,
        functions=len({step.symbol for step in project.model.steps}),
        kernel_bytes=sum(part.size_bytes for part in parts if part.kind in _OF_MODEL),
        runtime_bytes=sum(part.size_bytes for part in parts if part.kind not in _NOT_RUNTIME),
        samples=tuple(
            Sample(
                kernel=step.layer.kernel,
                macs=step.layer.macs,
                elements=sum(math.prod(project.model.tensors[i].shape) for i in step.outputs),
                instructions=instructions,
                cycles=cycles_of_step,
            )
            for step, (instructions, cycles_of_step) in zip(project.model.steps, counts, strict=True)
            if step.layer is not None
        ),
    )


def kept(path: Path, name: str, goal: str, folder: Path, measured: Callable[[], Measured]) -> Measured:
    """The measurement of a model on a core or board, from the folder where it is there."""
    file = folder / f"{name}-{path.stem}{'' if goal == BALANCED else f'-{goal}'}.json"
    if file.is_file():
        values = json.loads(file.read_text(encoding="utf-8"))
        return Measured(**{**values, "samples": tuple(Sample(**one) for one in values["samples"])})
    sys.stderr.write(f"{path.stem} on {name}, {goal}\n")
    found = measured()
    file.write_text(json.dumps(dataclasses.asdict(found)), encoding="utf-8")
    return found


def families(path: Path, core: Core, goal: str) -> set[str]:
    """Families of the kernels that a model has for a goal."""
    compiled = compile_graph(load_tflite(path), Choice(core=core, goal=Goal(goal)))
    return {one.kernel.family for one in compiled.operators if one.kernel}


def measured_goals(
    path: Path, name: str, core: Core, folder: Path, how: Callable[..., Measured]
) -> Iterator[Measured]:
    """Measurements of a model: balanced and, where it has other families then, for speed."""
    usual = kept(path, name, BALANCED, folder, partial(how, path, goal=BALANCED))
    yield usual
    if families(path, core, SPEED) - families(path, core, BALANCED):
        yield kept(path, name, SPEED, folder, partial(how, path, goal=SPEED))


# ---- the fit ----

Terms = tuple[float, float, float]


def fit(samples: Sequence[Sample], what: str) -> Terms:
    """Terms of a cost (a MAC, an element, a call) that keep the relative error small, none negative."""
    points = [(s.macs, s.elements, 1.0, getattr(s, what)) for s in samples if getattr(s, what)]
    if not points:
        return 0.0, 0.0, 0.0
    table = np.array([[m / c, e / c, one / c] for m, e, one, c in points])
    best, terms = math.inf, (0.0, 0.0, 0.0)
    for count in (1, 2, 3):
        for columns in itertools.combinations(range(3), count):
            chosen = table[:, columns]
            if not chosen.any(axis=0).all():
                continue
            found = np.linalg.lstsq(chosen, np.ones(len(points)), rcond=None)[0]
            error = float(np.abs(chosen @ found - 1).sum())
            if (found >= 0).all() and error < best - 1e-9:
                best = error
                values = dict(zip(columns, map(float, found), strict=True))
                terms = values.get(0, 0.0), values.get(1, 0.0), values.get(2, 0.0)
    return terms


def cost(terms: Terms, sample: Sample) -> float:
    """Cost of a layer by the terms of its kernel."""
    return terms[0] * sample.macs + terms[1] * sample.elements + terms[2]


def by_kernel(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """Samples by the family of their kernel; '' holds all."""
    found: dict[str, list[Sample]] = {"": []}
    for sample in samples:
        if sample.instructions >= _LEAST:
            found.setdefault(sample.kernel, []).append(sample)
            found[""].append(sample)
    return found


def samples_of(measured: Iterable[Measured]) -> dict[str, list[Sample]]:
    """Samples by family; of a model for speed, those of families only speed has. '': all balanced ones."""
    usual = {(m.model, s.kernel) for m in measured if m.goal == BALANCED for s in m.samples}
    found = by_kernel(
        s for m in measured for s in m.samples if m.goal == BALANCED or (m.model, s.kernel) not in usual
    )
    found[""] = by_kernel(s for m in measured if m.goal == BALANCED for s in m.samples)[""]
    return found


def errors(measured: Sequence[Measured], what: str) -> dict[str, float]:
    """Relative error of each model's cost, with the coefficients of the others."""
    found = {}
    for left in measured:
        others = samples_of([m for m in measured if m.model != left.model])
        terms = {kernel: fit(samples, what) for kernel, samples in others.items()}
        real = sum(getattr(s, what) or 0 for s in left.samples)
        estimate = sum(cost(terms.get(s.kernel, terms[""]), s) for s in left.samples)
        if real:
            found[left.name] = estimate / real - 1
    return found


def row_text(core: str, measured: Sequence[Measured]) -> str:
    """TOML of a core's cost model."""
    samples = samples_of(measured)
    timed = all(m.cycles is not None for m in measured)
    what = "cycles" if timed else "instructions"
    left_out = errors(measured, what)
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        "# Written by docs/layer_costs.py: terms for each MAC, element of the output, and call.",
        f'core = "{core}"',
        f"analogous = {json.dumps(_SERVES.get(core, ()))}",
        f"runtime_bytes = {round(median(m.runtime_bytes for m in measured))}",
        f"kernel_bytes = {round(median(m.kernel_bytes / m.functions for m in measured))}",
        "",
        f"[error] # of {what} of a whole model, estimated from the other models",
        *(f'"{model}" = {error:.3f}' for model, error in sorted(left_out.items())),
    ]
    for kernel, found in sorted(samples.items()):
        lines += ["", "[[kernels]]", f'kernel = "{kernel}"', f"samples = {len(found)}"]
        lines += [f"instructions = {_terms(fit(found, 'instructions'))}"]
        lines += [f"cycles = {_terms(fit(found, 'cycles'))}"] if timed else []
    return "\n".join(lines) + "\n"


def _terms(terms: Terms) -> str:
    return "[" + ", ".join(f"{value:.4g}" for value in terms) + "]"


def main(arguments: Sequence[str]) -> int:
    """Measure, fit, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--keep", type=Path, required=True, help="folder of measurements")
    parser.add_argument("--core", help="the row of this core alone")
    parser.add_argument("--rtl", metavar="BOARD", help="a board with a simulated core")
    chosen = parser.parse_args(arguments)
    chosen.keep.mkdir(parents=True, exist_ok=True)
    COSTS.mkdir(exist_ok=True)
    measures: dict[str, tuple[Core, Callable[..., Measured]]] = {
        core.name: (core, partial(measure, core=core))
        for core in cores().values()
        if core.counted_on and chosen.core in (None, core.name)
    }
    if chosen.rtl is not None:
        core = core_named(find_board(chosen.rtl).cpu)
        measures = {chosen.rtl: (core, partial(measure_on_rtl, board=chosen.rtl))}
    for name, (core, how) in measures.items():
        measured = [
            one for path in chosen.models for one in measured_goals(path, name, core, chosen.keep, how)
        ]
        (COSTS / f"{name}.toml").write_text(row_text(name, measured), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
