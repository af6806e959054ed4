# SPDX-License-Identifier: Apache-2.0
"""Runs random archives by the SDK's plan and compares each with the executor of ``attack_cases``.

Many models share one image: the files that the SDK renders for the host, with the plan that the target gets,
are compiled by one call of the compiler, with an application that runs every model. Where an image of the
SDK is asked for (``board``), the SDK itself builds and runs it.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import mlf_sdk
from archives import write
from attack_cases import RUNS, Case, archive_of, expected, make_case
from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.ir.model import Model
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.project import ProjectPlan
from mlf_sdk.pipeline.request import Request
from planning import plan_project

_RUNTIME = ("crt/src/mlf.c", "crt/src/mlf_backend.c", "crt/src/mlf_crc32.c", "crt/src/mlf_observe.c")
_FLAGS = ("-std=gnu99", "-O0", "-w", "-fno-strict-aliasing", "-DMLF_TRACE=0", "-DMLF_OBSERVE=0")
_SLOTS = ("-DMLF_WORKSPACE_SLOTS=1", "-DMLF_WORKSPACE_STACK=1")
_MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <mlf/mlf.h>
{declared}
static const mlf_model_t *const models[] = {{{named}}};

/* Each run of each model from number argv[1] on: its inputs from stdin; a status byte and outputs to stdout. */
int main(int argc, char **argv) {{
  size_t i = (size_t)atoi(argv[1]);
  size_t end = (size_t)atoi(argv[2]);
  for (; i < end; i++) {{
    for (int run = 0; run < {runs}; run++) {{
      const mlf_model_t *m = models[i];
      for (uint32_t k = 0; k < m->num_inputs; k++) {{
        if (fread((void *)m->inputs[k].data, 1, m->inputs[k].size_bytes, stdin) != m->inputs[k].size_bytes) {{
          return 2;
        }}
      }}
      fputc(mlf_run(m) == MLF_OK, stdout);
      for (uint32_t k = 0; k < m->num_outputs; k++) {{
        fwrite((const void *)m->outputs[k].data, 1, m->outputs[k].size_bytes, stdout);
      }}
      fflush(stdout);
    }}
  }}
  return 0;
}}
"""


@dataclass(slots=True)
class Findings:
    """What the archives of some seeds did.

    Attributes:
        equal: outputs were right.
        refused: archives that the SDK did not take, by its reason.
        wrong: by seed, what went wrong.
    """

    equal: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: dict[int, str] = field(default_factory=dict)


def attack(seeds: Iterable[int], folder: Path, *, most_nodes: int = 99) -> Findings:
    """Plan, compile and run the archives of some seeds in one image for this machine."""
    found = Findings()
    cases: list[Case] = []
    models: list[Model] = []
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        case = make_case(seed, most_nodes)
        path = write(archive_of(case), folder / f"{case.name}.tar")
        try:
            models += Pipeline().models(Request(source=(str(path),)))
            cases.append(case)
        except (ArchiveError, InputError) as error:
            found.refused[error.what.splitlines()[0]] += 1
    try:
        plan = plan_project(models, board="host") if models else None
    except (ArchiveError, InputError):
        cases, models = _taken(cases, models, found)
        plan = plan_project(models, board="host") if models else None
    if plan is not None:
        image = _compile(plan, folder)
        for case, outputs in zip(cases, _run(image, cases), strict=True):
            why = outputs if isinstance(outputs, str) else difference(case, outputs)
            if why:
                found.wrong[case.seed] = why
            found.equal += not why
    return found


def _taken(cases: Sequence[Case], models: Sequence[Model], found: Findings) -> tuple[list[Case], list[Model]]:
    """Those that can be planned."""
    taken: list[tuple[Case, Model]] = []
    for case, model in zip(cases, models, strict=True):
        try:
            plan_project([model], board="host")
            taken.append((case, model))
        except (ArchiveError, InputError) as error:
            found.refused[error.what.splitlines()[0]] += 1
    return [case for case, _ in taken], [model for _, model in taken]


def _compile(plan: ProjectPlan, folder: Path) -> Path:
    for path, data in plan.files().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    names = [model.c_name for model in plan.lock.models]
    units = [f"model/{name}/{name}.c" for name in names]
    units += [f"model/{n}/codegen/host/src/{n}_lib1.c" for n in names]
    units += [str(p.relative_to(folder)) for n in names for p in (folder / "model" / n).glob(f"{n}_entry*.c")]
    text = "".join(f'#include "{unit}"\n' for unit in units)
    text += _MAIN.format(declared="", named=", ".join(f"&{name}_model" for name in names), runs=RUNS)
    (folder / "attack.c").write_text(text)
    assembly = [str(p.relative_to(folder)) for n in names for p in (folder / "model" / n).glob("*.S")]
    include = ["-I.", "-Icrt/include", *(f"-Imodel/{name}" for name in names)]
    argv = ["cc", *_FLAGS, *_SLOTS, *include, "attack.c", *_RUNTIME, *assembly, "-o", "attack"]
    subprocess.run(argv, cwd=folder, check=True, timeout=600)
    return folder / "attack"


def _run(image: Path, cases: Sequence[Case]) -> list[list[list[np.ndarray]] | str]:
    """Outputs of each case; a reason where it crashed or stopped. A crash does not end the others."""
    results: list[list[list[np.ndarray]] | str] = []
    while len(results) < len(cases):
        rest = cases[len(results) :]
        data = b"".join(v.tobytes() for case in rest for run in case.values() for v in run)
        done = subprocess.run(
            [image, str(len(results)), str(len(cases))], input=data, capture_output=True, timeout=600
        )
        at = 0
        for case in rest:
            outputs, at = _parse(case, done.stdout, at)
            if outputs is None:
                results.append(f"the image stopped with code {done.returncode}")
                break
            results.append(outputs)
    return results


def _parse(case: Case, data: bytes, at: int) -> tuple[list[list[np.ndarray]] | str | None, int]:
    runs: list[list[np.ndarray]] = []
    failed = False
    for _ in range(RUNS):
        if at >= len(data):
            return None, at
        failed = failed or data[at] != 1
        at += 1
        runs.append([])
        for t in (case.tensors[o] for o in case.outputs):
            size = t.count * np.dtype(t.dtype).itemsize
            if at + size > len(data):
                return None, at
            runs[-1].append(np.frombuffer(data[at : at + size], t.dtype))
            at += size
    return "mlf_run reports an error" if failed else runs, at


def difference(case: Case, outputs: list[list[np.ndarray]]) -> str:
    """The first output that is not the executor's; empty: all are."""
    for number, (got, right) in enumerate(zip(outputs, expected(case), strict=True)):
        for tensor, mine, theirs in zip(case.outputs, got, right, strict=True):
            bad = np.flatnonzero(mine != theirs)
            if bad.size:
                at = int(bad[0])
                return (
                    f"run {number}, output '{case.tensors[tensor].name}': {bad.size} of {theirs.size} elements "
                    f"differ; [{at}] is {mine[at]}, not {theirs[at]}"
                )
    return ""


def attack_board(seed: int, folder: Path, board: str) -> str:
    """Run one archive on a board through the SDK; why it is wrong or ``refused``, empty: it is right."""
    case = make_case(seed)
    path = write(archive_of(case), folder / f"{case.name}.tar")
    inputs = {
        case.tensors[t].name: np.stack([run[i] for run in case.values()]) for i, t in enumerate(case.inputs)
    }
    right = {str(i): np.stack([run[i] for run in expected(case)]) for i in range(len(case.outputs))}
    try:
        report = mlf_sdk.run(path, board=board, inputs=inputs, expect=right, twin=False, timeout_s=60)
    except (ArchiveError, InputError) as error:
        return f"refused: {error.what}"
    if report.compare is None or not report.compare.ok:
        return "the outputs differ"
    bad = [f"{row.item}: {row.note}" for row in report.check.rows if row.state != "proven"]
    return "; ".join(bad)


def smallest(seed: int, folder: Path) -> tuple[int, str]:
    """The fewest nodes of a seed's graph with which it is still wrong, and what is wrong then."""
    for nodes in range(1, len(make_case(seed).nodes) + 1):
        found = attack([seed], folder / str(nodes), most_nodes=nodes)
        if found.wrong:
            return nodes, found.wrong[seed]
    return 99, "only beside others"
