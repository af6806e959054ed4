# SPDX-License-Identifier: Apache-2.0
"""Makes docs/tflite-models.md: models with recorded outputs, each from its file to a verified run.

Usage: tflite_table.py FOLDER [NAME...] [--jobs N] [--boards BOARD...] [--cases N] [--for GOAL]

What was measured is kept in FOLDER: a model that was measured already, with the same kernels, runtime and number
of cases, is not run again. The page is of all models on all boards, compiled as usual: with a name, a board or a
goal it is not written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tflite_page import page

import mlf_sdk
from corpus import RECORDED, REFUSED, RecordedModel, recorded_model
from mlf_sdk.compiler.options import GOALS, Asm
from mlf_sdk.errors import DoesNotFitError, MlfError
from mlf_sdk.resources import data_dir

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tflite-models.md"
BOARD = "mps2-an386"
RISCV = "qemu-virt-rv32"
PLAIN = "plain"
_PLAIN_FLAGS = "-O2 -ffp-contract=off"
# The models of MLPerf Tiny, by their names among the recorded ones.
NAMED = {
    "resnet8": "tiny_trained_models_pretrainedresnet_quant",
    "kws": "tiny_trained_models_kws_ref_model",
    "vww": "tiny_trained_models_vww_96_int8",
    "ad": "tiny_model_model_toycar_quant_fullint_micro_intio",
    "streaming wake word": "tiny_trained_models_str_ww_ref_model",
}
BOARDS = ("host", "microbit", "mps2-an385", BOARD, "mps2-an500", "mps2-an505", "mps3-an547", RISCV)
ZEPHYR = "zephyr mps2/an385"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One model on one board; ``fault`` says why there is nothing else."""

    ok: bool
    result: str
    fault: str = ""
    arena_bytes: int = 0
    least_bytes: int = 0
    flash_bytes: int = 0
    instructions: int = 0


def options_of(board: str) -> dict[str, Any]:
    """Options of a run."""
    if board == PLAIN:
        return {"board": BOARD, "cflags": _PLAIN_FLAGS}
    if board == ZEPHYR:
        return {"board": board.partition(" ")[2], "platform": "zephyr"}
    return {"board": board}


@cache
def runtime_digest() -> bytes:
    """Hash of what an image holds beside the kernels."""
    found = hashlib.sha256()
    for folder in (data_dir("crt"), data_dir("board_templates")):
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and "tests" not in p.parts):
            found.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return found.digest()


def measure(name: str, board: str, folder: Path, goal: str, most: int | None) -> Measured:
    """Run the cases of a model, on a board at most so many of layers with products; or take what is kept in ``folder``."""
    model = recorded_model(name)
    options = options_of(board)
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / f"{model.path.stem}.tar"
        try:
            asm = Asm.NO if board == PLAIN else Asm.INLINE
            compiled = mlf_sdk.compile(model.path, archive, goal=goal, asm=asm.value, **options)
        except MlfError as error:
            return Measured(ok=name in REFUSED, result="refused", fault=told(error, model))
        cases = cases_of(model, board, most)
        content = archive.read_bytes() + runtime_digest() + str(cases).encode()
        digest = hashlib.sha256(content).hexdigest()[:16]
        record = folder / f"{name}-{board.replace('/', '_').replace(' ', '_')}-{digest}.json"
        if record.is_file():
            return Measured(**json.loads(record.read_text()))
        names = [compiled.model.tensors[i].name for i in compiled.model.inputs]
        return run_archive(model, archive, names, compiled.model.output_names, options, cases, record)


def cases_of(model: RecordedModel, board: str, most: int | None) -> int | None:
    """Cases that are run; None: all, as of a model with states, whose cases follow each other."""
    if board == "host" or model.stateful or not model.macs:
        return None
    return 1 if board == PLAIN else most  # instructions of layers with products hardly depend on their inputs


def run_archive(
    model: RecordedModel,
    archive: Path,
    inputs: list[str],
    outputs: tuple[str, ...],
    options: dict[str, Any],
    cases: int | None,
    record: Path,
) -> Measured:
    """Run a compiled model and keep what was measured."""
    try:
        found = run(model, archive, inputs, outputs, options, cases)
    except DoesNotFitError as error:
        found = Measured(ok=False, result="", fault=told(error, model))
    except MlfError as error:  # such as a board that did not answer in time: measured again the next time
        return Measured(ok=False, result="", fault=told(error, model))
    record.write_text(json.dumps(asdict(found)))
    return found


def run(
    model: RecordedModel,
    archive: Path,
    inputs: list[str],
    outputs: tuple[str, ...],
    options: dict[str, Any],
    cases: int | None,
) -> Measured:
    """Run a model and compare it with its vectors: integers exactly, real numbers within 1e-5.

    Raises:
        MlfError: it could not be run.
    """
    report = mlf_sdk.run(
        archive,
        inputs=dict(zip(inputs, (x[:cases] for x in model.inputs), strict=True)),
        expect=dict(zip(outputs, (y[:cases] for y in model.outputs), strict=True)),
        twin=False, rtol=1e-5, timeout_s=900.0, **options,
    )  # fmt: skip
    compared = report.compare
    assert compared is not None
    if not compared.ok:
        result = f"{compared.mismatches} of {sum(o.elements for o in compared.outputs)} values differ"
    elif not compared.max_abs:
        result = "equal"
    else:
        result = f"within {compared.max_rel:.0e}"
    return Measured(
        ok=report.ok,
        result=result if report.ok or not compared.ok else "memory is not as planned",
        arena_bytes=report.memory.arena_bytes,
        least_bytes=report.memory.lower_bound_bytes,
        flash_bytes=sum(r.used_bytes for r in report.check.regions if r.name == "flash"),
        instructions=report.instructions or 0,
    )


def told(error: MlfError, model: RecordedModel) -> str:
    """An error in one line, without paths."""
    text = " ".join(str(error).replace(str(model.path), model.path.name).split())
    text = text.partition(" What would help:")[0]
    return (
        f"does not fit{text.partition('it does not fit')[2]}"
        if isinstance(error, DoesNotFitError)
        else text[:300]
    )


def jobs_of(names: list[str]) -> list[tuple[str, str]]:
    """Models and boards to run them on: whole ones first, long ones before others."""
    models = [recorded_model(name) for name in names]
    models.sort(key=lambda m: (not m.whole, -m.macs))
    whole = [m.name for m in models if m.whole]
    single = [m.name for m in models if not m.whole]
    others = [board for board in BOARDS if board not in ("host", BOARD, RISCV)]
    others += [ZEPHYR] if "ZEPHYR_BASE" in os.environ else []
    found = [
        (name, board)
        for name in whole
        for board in (BOARD, "host", *([] if name in REFUSED else [PLAIN, RISCV]))
    ]
    found += [(name, board) for name in NAMED.values() if name in names for board in others]
    return found + [(name, board) for board in (BOARD, "host") for name in single]


def measure_all(
    jobs: list[tuple[str, str]],
    folder: Path,
    count: int,
    goal: str,
    most: int | None,
    done: Callable[[dict[tuple[str, str], Measured]], None],
) -> dict[tuple[str, str], Measured]:
    """Measure in several processes; ``done`` is called with all results after each."""
    found: dict[tuple[str, str], Measured] = {}
    with ProcessPoolExecutor(max_workers=count) as pool:
        futures = {
            pool.submit(measure, name, board, folder, goal, most): (name, board) for name, board in jobs
        }
        for future in as_completed(futures):
            found[futures[future]] = future.result()
            print(len(found), "of", len(jobs), *futures[future], future.result(), flush=True)
            done(found)
    return found


def share_objects() -> None:
    """Let the builds of all models take the runtime's objects from ccache, where it is installed."""
    if shutil.which("ccache") and "CMAKE_C_COMPILER_LAUNCHER" not in os.environ:
        os.environ |= {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CCACHE_BASEDIR": "/", "CCACHE_NOHASHDIR": "1"}


def main() -> int:
    """Measure the models; write the page when all were wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--boards", nargs="+", choices=[*BOARDS, ZEPHYR, PLAIN])
    parser.add_argument("--cases", type=int, help="of a model on a board, at most; all on the host")
    parser.add_argument("--for", dest="goal", choices=GOALS, default="balanced")
    asked = parser.parse_args()
    if not RECORDED:
        print("no models with recorded outputs beside the project", file=sys.stderr)
        return 2
    share_objects()
    kept = asked.folder / "measured"
    kept.mkdir(parents=True, exist_ok=True)
    models = [recorded_model(name) for name in RECORDED]

    def write(found: dict[tuple[str, str], Measured]) -> None:
        if not (asked.names or asked.boards or asked.goal != "balanced"):
            PAGE.write_text(page(models, found, NAMED, (*BOARDS, ZEPHYR), asked.cases))

    jobs = [job for job in jobs_of(asked.names or RECORDED) if job[1] in (asked.boards or job[1])]
    found = measure_all(jobs, kept, asked.jobs, asked.goal, asked.cases, write)
    bad = [
        key for key, row in found.items() if not row.ok and key[1] in ("host", BOARD, RISCV) and not row.fault
    ]
    print(f"{len(found)} runs, {len(bad)} differ: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
