# SPDX-License-Identifier: Apache-2.0
"""Inputs in memory of the caller: not in the arena, read in place, never written, wherever they lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from agreement import random_inputs
from ccode import call, compiler
from cli_helpers import Caller
from emulated import need_board
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import InputError, NotPossibleError
from mlf_sdk.pipeline.opentarget import OpenTarget
from mlf_sdk.tools.process import run_process
from row_networks import camera, flattened, moved, pooled, residual, separable, whole_network
from tflite_models import Maker

NETWORKS = {one.__name__: one for one in (separable, residual, pooled, moved, flattened)}
IMAGE_BYTES = 16 * 16 * 4


def written(folder: Path, name: str, build: object) -> Path:
    m = Maker(7)
    path = folder / f"{name}.tflite"
    path.write_bytes(m.finish(build(m)))  # type: ignore[operator]
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("callers")
    return {name: written(folder, name, build) for name, build in NETWORKS.items()}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("callers"), "whole", whole_network)


@pytest.fixture(scope="module")
def project(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All networks in one image for this machine."""
    folder = tmp_path_factory.mktemp("callers") / "project"
    mlf_sdk.generate([*models.values()], folder, board="host", caller_inputs=True, goal="ram")
    mlf_sdk.build(folder)
    return folder


@pytest.fixture(params=NETWORKS)
def session(project: Path, request: pytest.FixtureRequest) -> Iterator[tuple[str, OpenTarget]]:
    with mlf_sdk.open_session(project, module=request.param) as opened:
        yield request.param, opened


def test_outputs_are_those_of_the_reference(models: dict[str, Path], session: tuple[str, OpenTarget]) -> None:
    """Regions of rows, residuals, two inputs; what was written once is there for the next run."""
    name, opened = session
    graph = load_tflite(models[name])
    for seed in range(3):
        inputs = random_inputs(graph, np.random.default_rng(seed))
        wanted = [y.tobytes() for y in Interpreter(graph).run(inputs)]
        assert [y.tobytes() for y in opened.infer(inputs)] == wanted
        assert [y.tobytes() for y in opened.infer(inputs)] == wanted


def test_the_arena_has_no_room_for_them(models: dict[str, Path], project: Path, tmp_path: Path) -> None:
    mlf_sdk.generate([*models.values()], tmp_path / "usual", board="host", goal="ram")
    for one, before in zip(read_lock(project).models, read_lock(tmp_path / "usual").models, strict=True):
        inputs = [node for node, tensor in enumerate(one.tensors) if tensor.kind == "input"]
        assert one.inputs_kept and not [b for b in one.buffers if b.tensor in inputs]
        assert one.input_bytes > sum(tensor.size_bytes for tensor in one.inputs) == one.caller_inputs_bytes
        assert one.arena_bytes <= before.arena_bytes
        assert before.input_bytes == before.caller_inputs_bytes == 0


def test_an_archive_keeps_the_option(model: Path, tmp_path: Path) -> None:
    archive = tmp_path / "whole.tar"
    mlf_sdk.compile(model, archive, caller_inputs=True)
    loaded = mlf_sdk.load(archive)
    assert loaded.caller_inputs == frozenset(loaded.inputs) and loaded.caller_inputs_bytes == IMAGE_BYTES
    assert not mlf_sdk.load(model).caller_inputs
    result = mlf_sdk.run(archive, board="host", model_file=str(model))
    assert result.ok and str(result.verdict) == "PASS"


MAIN = """
#include <stdio.h>
#include <string.h>
#include "whole.h"

static const int8_t image[WHOLE_INPUT_SIZE + 4] __attribute__((aligned(16))) = { IMAGE };

int main(void) {
  if (whole_run(image + 2) != MLF_E_ARGUMENT || whole_run(NULL) != MLF_E_ARGUMENT) { return 2; }
  if (mlf_input(&whole_model, 0)->data != NULL || WHOLE_INPUT_ALIGNMENT != 4) { return 3; }
  for (int i = 0; i < 2; i++) {
    memset(whole_arena, 0x5A, WHOLE_ARENA_BYTES);
    if (whole_run(image + 4) != MLF_OK) { return 4; }
    for (unsigned k = 0; k < WHOLE_OUTPUT_ELEMENTS; k++) { printf("%d ", whole_output()[k]); }
  }
  return 0;
}
"""


def test_a_library_reads_constants_in_place(model: Path, tmp_path: Path) -> None:
    """An image in read-only memory, at no better an address than is promised, under sanitizers."""
    folder = tmp_path / "library"
    mlf_sdk.generate(model, folder, board="host", app="library", caller_inputs=True, goal="ram")
    graph = load_tflite(model)
    (image,) = random_inputs(graph, np.random.default_rng(3))
    (wanted,) = Interpreter(graph).run([image])
    values = ",".join(map(str, [0] * 4 + image.ravel().tolist()))
    (tmp_path / "main.c").write_text(MAIN.replace("IMAGE", values))
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
    flags += ["-fno-sanitize-recover=all", "-fno-strict-aliasing"]
    sources = [*(folder / "model").rglob("*.[cS]"), *(folder / "crt/src").glob("*.c")]
    includes = [f"-I{folder / path}" for path in ("crt/include", "model/whole", "model/whole/kernels")]
    call(compiler("gcc"), *flags, *includes, "main.c", *sources, "-o", "main", "-lm", cwd=tmp_path)
    printed = call(tmp_path / "main").split()
    assert list(map(int, printed)) == wanted.ravel().tolist() * 2


def test_the_standalone_application_reads_its_sample_in_flash(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "project"
    mlf_sdk.generate(model, out, board="host", caller_inputs=True, app="standalone", sample_outputs=True)
    printed = run_process([str(mlf_sdk.build(out).elf)], timeout_s=30).stdout.replace("\r", "").splitlines()
    assert printed[-2:] == ["mlf: output 0 as expected", "mlf: done 0"]
    assert not read_lock(out).models[0].input_bytes


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stream": True}, "copied to the model's own memory"),
        ({"frames": True}, "copied to the model's own memory"),
        ({"executor": "graph"}, "read their inputs where the caller has them"),
    ],
)
def test_what_needs_inputs_of_its_own_is_refused(
    options: dict[str, object], said: str, model: Path, tmp_path: Path
) -> None:
    with pytest.raises((InputError, NotPossibleError), match=said):
        mlf_sdk.generate(model, tmp_path / "project", board="mps2-an386", caller_inputs=True, **options)
    assert not (tmp_path / "project").exists()


def test_a_bundle_is_refused(model: Path, tmp_path: Path) -> None:
    archive = tmp_path / "whole.tar"
    mlf_sdk.compile(model, archive, caller_inputs=True)
    with pytest.raises(InputError, match="inputs lie in memory of the caller, and those of a bundle"):
        mlf_sdk.convert(archive, tmp_path / "bundle", to="bundle")


def test_inspect_and_generate_say_so(model: Path, tmp_path: Path, call: Caller) -> None:
    said = "inputs of 1,024 B in memory of the caller"
    found = call("inspect", model, "--caller-inputs", "--for", "ram")
    assert said in " ".join(found.out.split())
    found = call("generate", model, "--caller-inputs", "-o", tmp_path / "app", "--board", "mps2-an386")
    assert said in " ".join(found.out.split())


@pytest.fixture(name="call")
def caller(capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(capsys)


@pytest.mark.qemu
def test_strips_on_a_board(tmp_path: Path) -> None:
    """A core that takes no word at an odd address; arena by paint, buffer and guards as planned.

    The bound is far from what whole rows take.
    """
    need_board("microbit")
    model = written(tmp_path, "camera", camera)
    result = mlf_sdk.run(model, board="microbit", caller_inputs=True, max_arena="3000")
    rows = {row.item: row for row in result.check.rows}
    assert result.ok and str(result.verdict) == "PASS"
    assert result.memory.arena_high_water_bytes == rows["arena"].planned <= 3000
    assert rows["inputs"].planned == rows["inputs"].image == 24 * 48 * 3 + 4
    assert [
        step.layer.detail for step in result.model.steps if step.layer and "strip 2 of" in step.layer.detail
    ]
