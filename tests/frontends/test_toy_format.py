# SPDX-License-Identifier: Apache-2.0
"""A format that is added by one class: loaded, planned and generated like any other."""

from __future__ import annotations

import dataclasses
import io
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import mlf_sdk
from mlf_sdk import frontends
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.ir.model import TensorKind
from mlf_sdk.planner.layout import lay_out
from mlf_sdk.reporting.model import model_parts
from toy_format import SCALE, scale, toy_frontend, write_toy


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    with toy_frontend():
        yield


def test_model(tmp_path: Path) -> None:
    model = frontends.load(write_toy(tmp_path / "scale.toy"))
    assert model.provenance.format_text == "Toy 3"
    assert model.io_names == (("x",), ("y",))
    assert [t.name for t in model.states] == ["runs"]
    with pytest.raises(ArchiveError, match="there is no function"):
        frontends.load(write_toy(tmp_path / "bad.toy", "toy 3\n---\n"))


def test_plan(tmp_path: Path) -> None:
    """Input, output and scratch lie in the arena; the state beside it."""
    model = frontends.load(write_toy(tmp_path / "scale.toy"))
    layout = lay_out(model)
    assert layout.arena_bytes == layout.plan.lower_bound_bytes == 64
    assert (layout.params_bytes, layout.state_bytes, layout.state_blob()) == (16, 4, bytes(4))
    assert {b.kind for b in layout.plan.buffers if b.size_bytes} == {"tensor", "workspace"}
    (state,) = (t.id for t in model.tensors if t.kind is TensorKind.STATE)
    assert layout.offset(state) == 0


def test_generated_files(tmp_path: Path) -> None:
    path = write_toy(tmp_path / "scale.toy", SCALE.replace("runs int32 1", "runs int32 2 = 7 258"))
    mlf_sdk.generate(path, tmp_path / "app", board="host")
    lock = read_lock(tmp_path / "app").models[0]
    assert (lock.format_text, lock.compiler_text, lock.archive) == ("Toy 3", "hand", "scale.toy")
    assert (lock.state_bytes, lock.params_bytes) == (8, 16)
    assert lock.kernel_symbols == lock.code_symbols == ("scale",)
    entry = (tmp_path / "app" / "model" / "scale" / "scale_entry_0.c").read_text()
    assert "extern int scale(void *, void *, void *, void *, void *);" in entry
    (state,) = re.findall(r"#define (\w+) MLF_ABI_POINTER\(scale_state \+ 0\)", entry)
    assert re.search(rf"scale\([^;]*\b{state}\b", entry)
    tables = (tmp_path / "app" / "model" / "scale" / "scale.c").read_text()
    assert "uint8_t scale_state[8]" in tables
    assert "0x07, 0x00, 0x00, 0x00, 0x02, 0x01, 0x00, 0x00," in tables


@pytest.mark.parametrize(("initial", "plan"), [(0, "shared"), (3, "shared"), (3, "none")])
def test_state_and_shared_code_on_the_host(initial: int, plan: str, tmp_path: Path) -> None:
    """Three runs of the built model: the state counts them; after a reset it counts from the start."""
    text = SCALE.replace("runs int32 1", f"runs int32 1 = {initial}" if initial else "runs int32 1")
    mlf_sdk.generate(write_toy(tmp_path / "scale.toy", text), tmp_path / "app", board="host", plan=plan)
    app = tmp_path / "app"
    main = (
        '#include <stdio.h>\n#include <string.h>\n#include <mlf/mlf.h>\n#include "scale.h"\n'
        "int main(void) {\n  const float x[4] = {1, 2, 3, 4};\n"
        "  for (int run = 0; run < 5; ++run) {\n"
        "    if (run == 3) { scale_reset(); }\n"
        "    memcpy(mlf_input(&scale_model, 0)->data, x, sizeof x);\n"
        "    if (mlf_run(&scale_model) != MLF_OK) { return 1; }\n"
        "    const float *y = mlf_output(&scale_model, 0)->data;\n"
        '    printf("%g %g %g %g\\n", y[0], y[1], y[2], y[3]);\n  }\n  return 0;\n}\n'
    )
    (app / "src" / "main.c").write_text(main)
    sources = [
        *(app / "crt" / "src").glob("*.c"),
        *(app / "model" / "scale").rglob("*.[cS]"),
        app / "src" / "main.c",
    ]
    folders = [app / "crt" / "include", app / "model" / "scale", app / "crt"]
    subprocess.run(
        ["cc", "-std=c11", "-w", "-o", "run", *map(str, sources), *(f"-I{folder}" for folder in folders)],
        cwd=tmp_path / "app",
        check=True,
    )
    said = subprocess.run(["./run"], cwd=app, check=True, capture_output=True, text=True).stdout
    x = np.asarray([1, 2, 3, 4], np.float32)
    assert [[float(v) for v in line.split()] for line in said.splitlines()] == [
        scale(x, initial + run).tolist() for run in (0, 1, 2, 0, 1)
    ]


def test_inputs_that_the_model_writes_can_not_be_kept(tmp_path: Path) -> None:
    model = frontends.load(write_toy(tmp_path / "scale.toy"))
    assert lay_out(model, keep_inputs=True).inputs_kept
    (step,) = model.steps
    writes = dataclasses.replace(model, steps=(dataclasses.replace(step, writes=(1, 2)),))
    assert lay_out(writes).plan.arena_bytes == 64
    with pytest.raises(InputError, match="writes to its input 'x'"):
        lay_out(writes, keep_inputs=True)


def test_format_and_state_are_shown(tmp_path: Path) -> None:
    model = frontends.load(write_toy(tmp_path / "scale.toy"))
    console = Console(file=io.StringIO(), width=200)
    for part in model_parts(model, lay_out(model)):
        console.print(part)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Toy 3, hand, sha256" in shown
    assert "4 B kept from one run to the next" in shown
