# SPDX-License-Identifier: Apache-2.0
"""Glow bundles on boards: private kernels of two that never meet, other cores, functions that are missing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from cli_helpers import Caller
from exported_libraries import ADD, adding, relax_files, write_library
from glow_bundles import make_scaler, scaled
from image_runs import assert_promises, run_all
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import ArchiveError, InputError, UndecidedError
from mlf_sdk.pipeline.run import RunReport

SHARED = Path(__file__).resolve().parents[3] / "shared" / "glow"
FETCHED = Path(os.environ.get("MLF_GLOW_BUNDLES", SHARED))
X = np.arange(8, dtype=np.float32).reshape(1, 8) / 8


@pytest.mark.qemu
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_bundles_in_one_image(tmp_path: Path, needs_qemu: None, order: tuple[int, int]) -> None:
    """Both have a kernel of the same name that computes something else, and even the same entry."""
    scales = [(1, 3)[number] for number in order]
    folders = [make_scaler(tmp_path / f"b{scale}", scale=scale) for scale in scales]
    mlf_sdk.generate(folders, tmp_path / "app", board="mps2-an386")
    done = run_all(tmp_path / "app", [[X], [X]])
    for scale, execution in zip(scales, done, strict=True):
        np.testing.assert_array_equal(execution.outputs[0][0], scaled(X, scale))
    assert_promises(tmp_path / "app", read_lock(tmp_path / "app"), done)


@pytest.mark.toolchain
def test_functions_that_nothing_defines(tmp_path: Path, needs_arm: None) -> None:
    """They are named before anything is written; a source that defines them completes the project."""
    more = "#include <stdlib.h>\nfloat *kept; float twice(float); void use(void) { kept = malloc(4); *kept = twice(1); }\n"
    folder = make_scaler(tmp_path / "b", more=more)
    with pytest.raises(InputError, match="needs functions that nothing defines: malloc, twice"):
        mlf_sdk.generate(folder, tmp_path / "app", board="mps2-an386")
    assert not (tmp_path / "app").exists()
    source = tmp_path / "more.c"
    source.write_text(
        "float twice(float x) { return 2 * x; }\nvoid *malloc(unsigned n) { static char pool[64]; return n <= sizeof pool ? pool : 0; }\n"
    )
    mlf_sdk.generate(folder, tmp_path / "app", board="mps2-an386", more_sources=(str(source),))
    assert (tmp_path / "app/model/scaler/supplied/more.c").is_file()
    with pytest.raises(InputError, match=r"'.bin' is no kind of source"):
        mlf_sdk.load(folder, more_sources=(str(folder / "scaler.weights.bin"),))


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("core", "board", "what"),
    [
        ("m4", "mps2-an500", ""),
        ("m4", "mps2-an505", ""),
        ("m4", "mps3-an547", ""),
        ("m3", "mps2-an385", ""),
        ("m7", "mps2-an386", "FPU instructions"),
        ("m4", "mps2-an385", "code for ARMv7E-M"),
        ("m4", "mps2-an521", "the board has no FPU"),
        ("m3", "mps2-an386", "integer registers"),
        ("m4", "host", "machine code for ARM"),
        ("m3", "qemu-virt-rv32", "32-bit ARM file, not a 32-bit little-endian RISC-V object"),
    ],
)
def test_cores(tmp_path: Path, needs_arm: None, core: str, board: str, what: str) -> None:
    """Code runs where its instructions do; else it is refused before anything is built."""
    folder = make_scaler(tmp_path / "b", core=core)
    if not what:
        assert mlf_sdk.generate(folder, tmp_path / "app", board=board).lock.board == board
        return
    with pytest.raises(ArchiveError, match=what):
        mlf_sdk.generate(folder, tmp_path / "app", board=board)
    assert not (tmp_path / "app").exists()


@pytest.mark.qemu
def test_objects_of_risc_v(tmp_path: Path, needs_riscv_qemu: None) -> None:
    """They run beside C of an exported library on a board of their architecture; others refuse them by name."""
    folder = make_scaler(tmp_path / "b", scale=3, core="rv32imac")
    exported = write_library(relax_files(adding().build(), ADD), tmp_path / "adding.tar")
    mlf_sdk.generate([folder, exported], tmp_path / "app", board="qemu-virt-rv32")
    done = run_all(tmp_path / "app", [[X], [X[:, :4]]])
    np.testing.assert_array_equal(done[0].outputs[0][0], scaled(X, 3))
    np.testing.assert_array_equal(done[1].outputs[0][0], X[:, :4] + 2)
    assert_promises(tmp_path / "app", read_lock(tmp_path / "app"), done)
    for board, what in (("mps2-an386", "32-bit RISC-V file"), ("host", "machine code for RISC-V")):
        with pytest.raises(ArchiveError, match=what):
            mlf_sdk.generate(folder, tmp_path / "no", board=board)


@pytest.mark.toolchain
def test_commands_on_the_host(tmp_path: Path, needs_host: None, capsys: pytest.CaptureFixture[str]) -> None:
    """A bundle for this machine through the commands, named by its folder, its object and its header."""
    call = Caller(capsys)
    folder = make_scaler(tmp_path / "b", core="host")
    cases, app = tmp_path / "cases.npz", tmp_path / "app"
    np.savez(cases, x=X, y=scaled(X, 1))
    assert call("inspect", folder / "scaler.o", "--json").value["format"] == "Glow bundle"
    assert call("doctor", folder / "scaler.h", "--json").value["ok"]
    assert call("generate", folder, "-o", app, "--board", "host").code == 0
    assert call("build", app).code == 0
    ran = call("run", folder, "--board", "host", "--inputs", cases, "--expect", cases, "--json")
    assert (ran.code, ran.value["ok"]) == (0, True)
    assert call("test", folder, "--board", "host", "--cases", cases, "--json").value["counts"]["passed"] == 1
    assert call("sbom", app, "-o", tmp_path / "sbom.json").code == 0
    refused = call("run", folder, "--board", "host", "--output-name", "z", "--json").value["error"]
    assert (refused["exit_code"], "no placeholder 'z'" in refused["what"]) == (2, True)


@pytest.mark.toolchain
def test_directions_by_running_it(tmp_path: Path, needs_host: None) -> None:
    """Where nothing states them, two runs on painted memory do; where those fail, the user is asked."""
    folder = make_scaler(tmp_path / "b", core="host", version="")
    with pytest.raises(UndecidedError, match="which tensors are outputs"):
        mlf_sdk.generate(folder, tmp_path / "app", board="labgrid:none")
    model = mlf_sdk.load(folder, board="host")
    assert model.io_names == (("x",), ("y",))
    failing = make_scaler(tmp_path / "c", core="host", version="", result="t[0] > -1e30f")
    with pytest.raises(UndecidedError, match="which tensors are outputs"):
        mlf_sdk.load(failing, board="host")
    partly = make_scaler(tmp_path / "d", core="host", version="", writes=3)
    with pytest.raises(UndecidedError):
        mlf_sdk.load(partly, board="host")


# ---- bundles beside the repository ----

BOARDS = {"m3": "mps2-an385", "m4": "mps2-an386", "m7": "mps2-an500", "m33": "mps2-an505", "host": "host"}
STATED: dict[str, dict[str, Any]] = {
    "syn-dense-2019": {"tensor_types": ("input=float32[1,8]", "save_output=float32[1,4]")},
    "syn-names-2019": {"output_names": ("output",)},
    "syn-mixed-static": {"output_names": ("scores", "any_positive")},
    "syn-two-entries": {"module": "mul_entry", "output_names": ("sum", "product")},
    "syn-wants-heap": {"more_sources": ("heap.c",)},
}
HEAP = """\
#include <stddef.h>
static float memory[64];
int posix_memalign(void **p, size_t alignment, size_t size) {
  (void)alignment;
  *p = memory;
  return size > sizeof memory;
}
void free(void *p) { (void)p; }
int printf(const char *text, ...) { (void)text; return 0; }
"""


def bundles() -> list[Path]:
    return sorted(facts.parent for facts in FETCHED.glob("*/facts.json") if list(facts.parent.glob("*.o")))


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.qemu
@pytest.mark.parametrize("folder", bundles(), ids=lambda folder: folder.name)
def test_bundles_reproduce_their_vectors(folder: Path, tmp_path: Path, needs_qemu: None) -> None:
    """Integers bit for bit, floats within 1e-6; activations as declared, but for less than 128 bytes."""
    facts = json.loads((folder / "facts.json").read_text())
    core = facts.get("cpu") or facts["object"]["members"][0]["attributes"]["CPU_NAME"].replace("cortex-", "")
    with np.load(folder / "vectors.npz") as file:
        inputs = {name[4:]: file[name] for name in file.files if name.startswith("in::")}
        expected = {name[5:]: file[name] for name in file.files if name.startswith("out::")}
    options = dict(STATED.get(folder.name, {}))
    if options.get("module"):
        del expected["sum"]
    if options.get("more_sources"):
        (tmp_path / "heap.c").write_text(HEAP)
        options["more_sources"] = (str(tmp_path / "heap.c"),)
    report: RunReport = mlf_sdk.run(
        folder, board=BOARDS[core], inputs=inputs, expect=expected, rtol=0.0, atol=1e-6, twin=False, **options
    )
    assert report.compare is not None and report.compare.ok
    # Its allocator is the user's, and is seen all the same.
    allowed = {"heap"} if folder.name == "syn-wants-heap" else set()
    assert {row.item for row in report.check.rows if row.state == "failed"} == allowed
    measured = report.memory.arena_high_water_bytes
    if core != "host":
        assert measured is not None
        assert 0 <= report.memory.arena_bytes - measured < 128 + 64
