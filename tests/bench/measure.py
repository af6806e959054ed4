# SPDX-License-Identifier: Apache-2.0
"""Measures one archive: a project with production settings, built, counted and weighed."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counted import count
from linkmap import Piece, read_map
from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.ir.model import Model
from mlf_sdk.judge.counting import (
    Counts,
    WindowCount,
    build_plugin,
)
from mlf_sdk.judge.windows import Window, function_window, kernel_window
from mlf_sdk.pipeline.api import build, generate, load
from mlf_sdk.planner import PlanProblem, plan_memory
from mlf_sdk.planner.layout import plan_problem
from mlf_sdk.targets.boards.load import find_board

BOARD = "mps2-an386"
RUNS = 3  # the first one shows whether it differs from the others
ALLOCATOR = ("TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace", "mlf_refuse")
EXECUTOR_SOURCES = ("/crt/src/mlf.c", "/crt/src/mlf_backend.c")
_INCLUDES_CODE = re.compile(r'^#include ".*\.c"', re.MULTILINE)

MAIN = """\
/* SPDX-License-Identifier: Apache-2.0 */
#include <mlf/mlf_platform.h>
#include <string.h>

#include "{name}.h"
#include "{name}_sample.h"

static const uint8_t good[] = "mlf: done 0\\r\\n";
static const uint8_t bad[] = "mlf: done 1\\r\\n";

int main(void) {{
  const mlf_model_t *const model = &{name}_model;
  int32_t failed = 0;
  uint32_t run, i;

  mlf_uart_init();
  for (run = 0; run < {runs}u; ++run) {{
    for (i = 0; i < model->num_inputs; ++i) {{
      memcpy(model->inputs[i].data, {name}_samples[i], model->inputs[i].size_bytes);
    }}
    failed |= mlf_run(model) != MLF_OK;
  }}
  mlf_uart_write(failed ? bad : good, sizeof good - 1u);
  mlf_platform_exit(failed);
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A built project of one model, and what was promised about it."""

    folder: Path
    model: Model
    lock: LockModel
    image: Image


class BenchError(Exception):
    """Something could not be measured, or what was measured contradicts itself."""


def build_bench(archive: Path, folder: Path, *, main: str = MAIN, runs: int = RUNS) -> Built:
    """A project of ``archive`` as a user in production would have it, whose main() runs it ``runs`` times."""
    options: dict[str, Any] = {"app": "standalone"}
    project = generate(archive, folder, board=BOARD, **options)
    lock = project.lock.models[0]
    (folder / "src" / "main.c").write_text(main.format(name=lock.c_name, runs=runs), encoding="ascii")
    built = build(folder)
    return Built(folder=folder, model=load(archive), lock=lock, image=read_image(built.elf))


def sequence_of(built: Built) -> str:
    """Function that calls the kernels of a model one by one; empty where the executor's loop calls them."""
    name = f"{built.lock.c_name}_sequence"
    return "" if built.image.find(name) is None else name


def step_windows(built: Built) -> tuple[Window, ...]:
    """Windows of the steps: ``step``, or one for each kernel that a sequence calls, under its name."""
    if not sequence_of(built):
        return (kernel_window(built.image),)
    symbols = dict.fromkeys(step.symbol for step in built.lock.steps)
    return tuple(function_window(built.image, symbol, window=symbol) for symbol in symbols)


def count_bench(built: Built, tools: Path) -> Counts:
    """Count the windows ``boot`` (reset to the first run), ``run`` and those of `step_windows`."""
    image = built.image
    windows = (
        Window(name="boot", begin=image.address_of("mlf_reset_handler"), ends=(image.address_of("mlf_run"),)),
        function_window(image, "mlf_run"),
        *step_windows(built),
    )
    done = count(image, find_board(BOARD), windows, plugin=build_plugin(tools), until=b"\r\n")
    if done.console.strip() != "mlf: done 0":
        raise BenchError(f"the model did not run: {done.console.strip()!r}")
    return done.counts


def measure_archive(archive: Path, folder: Path, tools: Path) -> dict[str, Any]:
    """All figures of one archive.

    Raises:
        MlfError, BenchError, LookupError: it could not be measured.
    """
    built = build_bench(archive, folder)
    counts = count_bench(built, tools)
    return {
        "executor": built.lock.executor,
        "steps": len(built.lock.steps),
        **instruction_figures(built, counts),
        "code": code_figures(built),
        "memory": memory_figures(built),
    }


# ---- instructions ----


def instruction_figures(built: Built, counts: Counts) -> dict[str, Any]:
    """Instructions of an inference in the steady state: all, each step's, and what is not a kernel's."""
    runs, names = counts.of("run"), [step.symbol for step in built.lock.steps]
    if len(runs) != RUNS:
        raise BenchError(f"{len(runs)} runs were counted, not {RUNS}")
    last, sequence = runs[-1], sequence_of(built)
    steps = _steps_of_sequence(counts, names) if sequence else _steps_of_loop(counts, names)
    own = ("mlf_run", *(("run_sequence", sequence) if sequence else ()))
    if sum(steps) + last.instructions(*own) != last.total:
        raise BenchError("executor and kernels are not the whole run")
    adapters = [] if sequence else _adapters(built)
    overhead = last.instructions(*own, "mlf_stack_begin", *adapters)
    return {
        "instructions": last.total,
        "runs_equal": len({run.total for run in runs}) == 1,
        "executor_instructions": overhead,
        "executor_per_step": overhead / max(len(names), 1),
        "adapters_counted": bool(adapters or sequence) or built.lock.executor == "graph",
        "workspace": _workspace(last),
        "startup_instructions": _startup(built, counts.of("boot")[0]),
        "boot_instructions": counts.of("boot")[0].total,
        "per_step": [{"symbol": name, "instructions": step} for name, step in zip(names, steps, strict=True)],
    }


def _steps_of_loop(counts: Counts, names: list[str]) -> list[int]:
    """Instructions of each step of the last run, which the executor's loop calls."""
    # A step's window begins with the call, which is the executor's.
    steps = [step.total - step.instructions("mlf_run") for step in counts.of("step")]
    return _of_last_run(steps, len(names), "steps")


def _steps_of_sequence(counts: Counts, names: list[str]) -> list[int]:
    """Instructions of each step of the last run; steps of one kernel are called in their order."""
    calls = {
        name: iter(_of_last_run([call.total for call in counts.of(name)], names.count(name), name))
        for name in names
    }
    return [next(calls[name]) for name in names]


def _of_last_run(counted: list[int], in_a_run: int, of: str) -> list[int]:
    if len(counted) != RUNS * in_a_run:
        raise BenchError(f"{len(counted)} windows of {of} were counted, not {RUNS * in_a_run}")
    return counted[-in_a_run:] if in_a_run else []


def _adapters(built: Built) -> list[str]:
    """The functions that give entries of other kinds the shape of a kernel.

    None where such a function holds the archive's code as well: it can't be told apart.
    """
    sources = (built.folder / "model" / built.lock.c_name).glob("*_entry_*.c")
    if any(_INCLUDES_CODE.search(source.read_text(encoding="utf-8")) for source in sources):
        return []
    pieces = [
        p for p in _pieces(built) if p.linked and "_entry_" in p.source and p.section.startswith(".text.")
    ]
    return [piece.section.removeprefix(".text.") for piece in pieces]


def _workspace(run: WindowCount) -> dict[str, Any]:
    pairs = run.calls("TVMBackendAllocWorkspace")
    if pairs != run.calls("TVMBackendFreeWorkspace"):
        raise BenchError("workspace requests and releases are not in pairs")
    total = run.instructions(*ALLOCATOR)
    return {"pairs": pairs, "instructions": total, "per_pair": total / pairs if pairs else None}


def _startup(built: Built, boot: WindowCount) -> int:
    """Instructions before the first run that are a model's or the executor's."""
    sections = [piece.section for piece in _model_pieces(built) if piece.section.startswith(".text.")]
    own = {section.removeprefix(".text.").removeprefix("startup.") for section in sections}
    return boot.instructions(*(name for name in boot.tallies if name in own))


# ---- code and memory ----


def _pieces(built: Built) -> tuple[Piece, ...]:
    return read_map(built.folder / "build" / "app.map")


def _model_pieces(built: Built) -> list[Piece]:
    """Of the executor, the model's tables, and its kernels."""
    owners = (*EXECUTOR_SOURCES, f"model/{built.lock.c_name}/")
    return [piece for piece in _pieces(built) if any(owner in piece.source for owner in owners)]


def code_figures(built: Built) -> dict[str, int]:
    """Bytes of the executor's code and constants, and of RAM that is neither arena nor parameters."""
    pieces = _pieces(built)
    executor = [p for p in pieces if any(s in p.source for s in EXECUTOR_SOURCES) and p.is_code]
    ram = [p for p in _model_pieces(built) if p.linked and p.is_ram and "mlf_arena" not in p.section]
    in_kernels = [p for p in ram if "/codegen/" in p.source]
    tables = [p for p in pieces if f"/{built.lock.c_name}_model.dir/" in p.source and p.is_code and p.linked]
    return {
        "executor_text_bytes": sum(p.size_bytes for p in executor if p.linked),
        "executor_text_all_bytes": sum(p.size_bytes for p in executor),
        "ram_outside_arena_bytes": sum(p.size_bytes for p in ram if p not in in_kernels),
        "ram_of_kernels_bytes": sum(p.size_bytes for p in in_kernels),
        "model_tables_bytes": sum(p.size_bytes for p in tables if "mlf_params" not in p.section),
    }


def memory_figures(built: Built) -> dict[str, int]:
    """Bytes of the plan, and of a plan for the same steps when the caller holds inputs and outputs."""
    lock = built.lock
    apart = plan_memory(_without_io(plan_problem(built.model, keep_inputs=False)))
    return {
        "arena_bytes": lock.arena_bytes,
        "lower_bound_bytes": lock.lower_bound_bytes,
        "io_bytes": lock.io_bytes,
        "arena_without_io_bytes": apart.arena_bytes,
        "params_bytes": lock.params_bytes,
    }


def _without_io(problem: PlanProblem) -> PlanProblem:
    """The same steps without room for the inputs, the outputs, and their aliases."""
    parents = {tensor.id: tensor.alias_of for tensor in problem.tensors}

    def root(tensor: int) -> int:
        while (parent := parents[tensor]) is not None:
            tensor = parent
        return tensor

    apart = {root(tensor) for tensor in (*problem.inputs, *problem.outputs)}
    steps = tuple(
        dataclasses.replace(
            step,
            reads=tuple(access for access in step.reads if root(access.tensor) not in apart),
            writes=tuple(access for access in step.writes if root(access.tensor) not in apart),
            overlaps=tuple(o for o in step.overlaps if apart.isdisjoint((root(o.input), root(o.output)))),
        )
        for step in problem.steps
    )
    tensors = tuple(tensor for tensor in problem.tensors if root(tensor.id) not in apart)
    return dataclasses.replace(problem, tensors=tensors, inputs=(), outputs=(), steps=steps)
