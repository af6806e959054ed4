# SPDX-License-Identifier: Apache-2.0
"""Makes docs/onnx-models.md: whole ONNX models, from the file to a verified run on an emulated board.

Usage: models_table.py FOLDER [NAME...]: the models are written to FOLDER, and what was measured; a model that
was measured already, by the same compiler, is not run again.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from model_files import ModelFile, model_files, session_of

import mlf_sdk
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.errors import MlfError
from mlf_sdk.frontends.onnx.frontend import OnnxFrontend

PAGE = Path(__file__).resolve().parents[2] / "docs" / "onnx-models.md"
BOARD = "mps2-an386"
REAL = 1e-4  # of the largest value of an output
QUANTISED = 0.05  # the same, of models that compute with integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What was measured of a model; ``fault`` says why nothing could be."""

    name: str
    origin: str
    ok: bool
    fault: str = ""
    error: float = 0.0
    classes: str = ""
    flash_bytes: int = 0
    arena_bytes: int = 0
    least_bytes: int = 0
    instructions: int = 0


def digest(file: ModelFile) -> str:
    """Hash of what the model is compiled to; of the file where it can't be."""
    shapes = ";".join(f"{name}={','.join(map(str, shape))}" for name, shape in file.shapes.items())
    try:
        content = OnnxFrontend().compile(file.path, CompileOptions(core="cortex-m4", shapes=shapes))
    except MlfError as error:
        content = file.path.read_bytes() + str(error).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def measure(file: ModelFile, folder: Path) -> Row:
    """Compile a model, run it on the board, and compare it with ONNX Runtime."""
    session = session_of(file.path)
    inputs = file.inputs(session)
    wanted = [session.run(None, one) for one in inputs]
    given = {name: np.stack([one[name] for one in inputs]) for name in inputs[0]}
    shapes = tuple(f"{name}={','.join(map(str, shape))}" for name, shape in file.shapes.items())
    try:
        report = mlf_sdk.run(
            file.path, board=BOARD, inputs=given, twin=False, shape=shapes
        )  # fmt: skip
    except MlfError as error:
        said = " ".join(str(error).replace(str(file.path), file.path.name).split())
        return Row(name=file.name, origin=file.origin, ok=False, fault=said)
    error, same, classes = 0.0, 0, 0
    for found, columns in zip(report.outputs.values(), zip(*wanted, strict=True), strict=True):
        for got, want in zip(found, columns, strict=True):
            want = np.asarray(want, np.float64)
            got = np.asarray(got, np.float64).reshape(want.shape)
            error = max(error, float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-30)))
            if 1 < want.size == max(want.shape) and want.size <= 1000:
                classes += 1
                same += int(got.argmax() == want.argmax())
    limit = QUANTISED if file.quantised else REAL
    memory = report.memory
    return Row(
        name=file.name,
        origin=file.origin,
        ok=report.ok and error <= limit and same == classes,
        error=error,
        classes=f"{same} of {classes}" if classes else "",
        flash_bytes=sum(r.used_bytes for r in report.check.regions if r.name == "flash"),
        arena_bytes=memory.arena_bytes,
        least_bytes=memory.lower_bound_bytes,
        instructions=report.instructions or 0,
    )


def page(rows: list[Row]) -> str:
    """The table as a page of the documentation."""
    good = [row for row in rows if row.ok]
    lines = [
        "# Whole ONNX models",
        "",
        f"Made by `make onnx-models`: each model from its file to a run on {BOARD} (Cortex-M4F, emulated). {len(good)} of",
        f"{len(rows)} pass: every output is that of ONNX Runtime within the tolerance, and the memory that the board",
        "wrote is what was planned.",
        "",
        "The networks are small ones of every common kind, with random weights from a seed, exported by PyTorch; *QDQ* and",
        "*QOperator* are their int8 versions by ONNX Runtime's quantiser (*uint8*: its activations). Others are models that",
        "PyPI packages ship.",
        "",
        f"- error: the largest difference from ONNX Runtime, as a share of the output's largest value. Allowed are {REAL:g} for",
        f"  float models, {QUANTISED:g} for quantised ones (layers may round one step differently).",
        "- top class: in how many of the inputs it is the same; empty: the outputs are no classes.",
        "- flash: the whole image with the runtime and what talks to the host. arena: the model's RAM; bound: what no plan of",
        "  these kernels goes below.",
        "- instructions: of one inference; exact to 120.",
        "",
        "| model | from | error | top class | flash B | arena B | bound B | instructions | |",
        "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        if row.fault:
            lines.append(f"| {row.name} | {row.origin} | | | | | | | {row.fault.replace('|', '/')} |")
            continue
        figures = (row.flash_bytes, row.arena_bytes, row.least_bytes, row.instructions)
        cells = [row.name, row.origin, f"{row.error:.1e}", row.classes, *(f"{f:,}" for f in figures)]
        lines.append(f"| {' | '.join(cells)} | {'pass' if row.ok else 'FAIL'} |")
    return "\n".join(lines) + "\n"


def main(folder: Path, names: list[str]) -> int:
    """Measure the models; write the page when all were wanted."""
    warnings.simplefilter("ignore")
    kept = folder / "measured"
    kept.mkdir(parents=True, exist_ok=True)
    rows = []
    for file in model_files(folder, lambda name: not names or name in names):
        record = kept / f"{file.path.stem}-{digest(file)}.json"
        if record.is_file():
            rows.append(Row(**json.loads(record.read_text())))
        else:
            rows.append(measure(file, folder))
            record.write_text(json.dumps(asdict(rows[-1])))
        print(rows[-1], flush=True)
        if not names:
            PAGE.write_text(page(rows))
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
