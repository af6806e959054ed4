# SPDX-License-Identifier: Apache-2.0
"""Libraries of TVM's ``export_library`` on boards: both ABIs, sources and objects, several in one image."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archives
import mlf_sdk
from cli_helpers import Caller
from exported_libraries import ADD, adding, graph_files, relax_files, write_library
from image_runs import assert_promises, run_all
from mlf_sdk import frontends
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.ir.model import Model
from mlf_sdk.resources import data_dir

SHARED = Path(__file__).resolve().parents[3] / "shared"
EXPORTED = SHARED / "exported"
X = np.arange(4, dtype=np.float32).reshape(1, 4)

# The same sum with a workspace in between.
PADDED = ADD.replace("  for (int32_t i", '  void* pad = TVMBackendAllocWorkspace(1, 0, (uint64_t)40, 2, 32);\n'
    "  if (pad == NULL) {\n    return -1;\n  }\n  for (int32_t i = 0; i < 4; ++i) {\n"
    "    ((float*)pad)[i] = ((float*)(a->data))[i];\n  }\n  for (int32_t i").replace(
    "((float*)(a->data))[i] +", "((float*)pad)[i] +").replace(
    "  }\n  return 0;", "  }\n  if (TVMBackendFreeWorkspace(1, 0, pad) != 0) {\n    return -1;\n  }\n  return 0;")  # fmt: skip

# Kernels as LLVM makes them for a loader: the runtime is reached through a weak variable; no workspace.
POINTER = b"""#include <math.h>
__attribute__((weak)) void (*__TVMAPISetLastError)(const char*);
static float pool[10];
#define TVMBackendAllocWorkspace(type, device, size, code, bits) ((void*)pool)
#define TVMBackendFreeWorkspace(type, device, pad) ((*__TVMAPISetLastError)("freed"), 0)
"""


# A system library names its kernels before main.
SYSTEM = b"""#include <math.h>
static int counted;
__attribute__((constructor)) static void startup(void) {
  counted = TVMBackendRegisterSystemLibSymbol("kernel", &counted);
}
"""


def with_source(source: str, folder: Path) -> Path:
    return write_library(relax_files(adding().build(), source), folder)


@pytest.mark.toolchain
def test_libraries_of_both_abis(tmp_path: Path, needs_host: None) -> None:
    """Bytecode twice, with kernels of one name, one of them with a workspace, and a graph, in one image."""
    assert PADDED.count("pad)[i]") == 2
    made = graph_files()
    made["lib0.c"] = made["lib0.c"].replace(b"#include <math.h>", SYSTEM)
    paths = [
        with_source(ADD, tmp_path / "plain.tar"),
        with_source(PADDED, tmp_path / "padded.tar.gz"),
        write_library(made, tmp_path / "tiny.tar"),
    ]
    mlf_sdk.generate(paths, tmp_path / "app", board="host")
    lock = read_lock(tmp_path / "app")
    plain, padded, _ = lock.models
    assert (plain.arena_bytes, padded.arena_bytes) == (32, 80)
    spec = archives.Spec()
    sample = archives.sample(spec)
    done = run_all(tmp_path / "app", [[X], [X], [sample]])
    for execution in done[:2]:
        np.testing.assert_array_equal(execution.outputs[0][0], X + 2)
    np.testing.assert_allclose(done[2].outputs[0][0], archives.reference(spec, sample), rtol=1e-5)
    assert_promises(tmp_path / "app", lock, done)


def compiled(folder: Path, name: str, source: bytes) -> bytes:
    """An object for the Cortex-M4F of sources in C."""
    folder.mkdir()
    (folder / name).write_bytes(source)
    flags = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-O1"]
    include = data_dir("crt") / "include"
    subprocess.run(
        ["arm-none-eabi-gcc", *flags, f"-I{include}", "-c", name, "-o", "lib0.o"], cwd=folder, check=True
    )
    return (folder / "lib0.o").read_bytes()


@pytest.mark.qemu
def test_objects_of_the_old_layout(tmp_path: Path, needs_qemu: None) -> None:
    """Two libraries with the same kernels and variables, in one of which a kernel asks for workspace."""
    made, paths = graph_files(), []
    plain = made.pop("lib0.c")
    for name, source in (
        ("a", plain.replace(b"#include <math.h>", POINTER)),
        ("b", plain),
    ):
        objects = {"lib0.o": compiled(tmp_path / name, "kernels.c", source)}
        paths.append(write_library(made | objects, tmp_path / f"{name}.tar"))
    assert [len(frontends.load(path).units) for path in paths] == [2, 1]
    mlf_sdk.generate(paths, tmp_path / "app", board="mps2-an386")
    spec = archives.Spec()
    sample = archives.sample(spec)
    done = run_all(tmp_path / "app", [[sample], [sample]])
    for execution in done:
        np.testing.assert_allclose(execution.outputs[0][0], archives.reference(spec, sample), rtol=1e-5)
    assert_promises(tmp_path / "app", read_lock(tmp_path / "app"), done)
    with pytest.raises(ArchiveError, match="machine code for ARM"):
        mlf_sdk.generate(paths[0], tmp_path / "host", board="host")


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What can be inspected only is shown, refused elsewhere, and damage is one error."""
    call = Caller(capsys)
    files = relax_files(adding().build())
    files.pop("lib0.c")
    path = write_library(files, tmp_path / "net.tar")
    shown = call("inspect", path, "--json").value
    assert shown["blocked"].startswith("the file has no code")
    assert "bytecode" in shown["contents"]
    assert "deploy     no: the file has no code" in call("inspect", path).out
    for command in ("generate", "run", "proof"):
        more = ("-o", tmp_path / "app") if command == "generate" else ()
        refused = call(command, path, "--board", "mps2-an386", *more)
        assert refused.code in (1, 2), command
    assert not (tmp_path / "app").exists()
    damaged = files["devc.c"].replace(b"{\n  0x", b"{\n  0x7", 1)
    broken = call("inspect", write_library({"devc.c": damaged}, tmp_path / "bad.tar"), "--json").value[
        "error"
    ]
    assert broken["exit_code"] == 2


# ---- libraries beside the repository ----


def libraries() -> list[Path]:
    return sorted(p for p in EXPORTED.rglob("*") if p.suffix in (".tar", ".so"))


def vectors(name: str, prefix: str) -> list[Any]:
    """Arrays of one inference, by the number of input or output."""
    folder = EXPORTED / "tvm0.27" if name == "net" else SHARED / "mlf"
    with np.load(folder / f"{name}.npz") as file:
        found = [file[key] for key in file.files if key.startswith(f"{prefix}::")]
    return [array[0] for array in found] if name == "net" else found


def line(model: Model, label: str, index: int) -> str:
    return dict(model.contents)[label][index]


@pytest.mark.shared
@pytest.mark.parametrize("path", libraries(), ids=lambda path: path.name)
def test_every_library_is_read(path: Path) -> None:
    """Tree, kinds, parameters; the graph is that of the same model's archive, the bytecode's plan is known."""
    model = frontends.load(path)
    kind = "relax.VMExecutable" if path.name.startswith("net") else "GraphExecutorFactory"
    assert line(model, "modules", 1).startswith(kind)
    assert line(model, "modules", 2) == "  _lib: the library's own code"
    assert bool(model.blocked) == (path.suffix == ".so" or path.name.startswith("two_in_two_out-llvm"))
    assert path.suffix != ".so" or "x86-64 machine code" in model.blocked
    if kind == "relax.VMExecutable":
        assert [s.name for s in model.steps] == ["conv2d", "add", "relu", "matmul", "add1"]
        assert model.summary.workspace_bytes == 1192
        assert sum(t.size_bytes for t in model.constants) == 3060
        return
    name = path.name.partition("-")[0]
    version = "0.8.0" if "0.8.0" in path.name else "0.11.1"
    twin = frontends.load(SHARED / "mlf" / f"{name}-graph-tvm{version}.tar")
    assert model.io_names == twin.io_names
    assert [t.data for t in model.constants] == [t.data for t in twin.constants]
    assert [(s.inputs, s.outputs) for s in model.steps] == [(s.inputs, s.outputs) for s in twin.steps]


@pytest.mark.shared
@pytest.mark.qemu
def test_libraries_reproduce_their_vectors(tmp_path: Path, needs_qemu: None) -> None:
    """C of three releases and Cortex-M4 code of today in one image, with the outputs of their vectors."""
    if not EXPORTED.is_dir():
        pytest.skip(f"no exported libraries: {EXPORTED} is missing")
    names = [
        f"{name}-c-exportlib-tvm{v}" for name in ("conv1d", "two_in_two_out") for v in ("0.8.0", "0.11.1")
    ]
    names += ["tvm0.27/net-c-exportlib-tvm0.27.0", "tvm0.27/net-llvm-m4hf-exportlib-tvm0.27.0"]
    mlf_sdk.generate([EXPORTED / f"{name}.tar" for name in names], tmp_path / "app", board="mps2-an386")
    lock = read_lock(tmp_path / "app")
    models = [name.rpartition("/")[2].partition("-")[0] for name in names]
    done = run_all(tmp_path / "app", [vectors(name, "in") for name in models])
    for name, execution in zip(models, done, strict=True):
        for got, expected in zip(execution.outputs, vectors(name, "out"), strict=True):
            np.testing.assert_allclose(got[0], expected, rtol=1e-5, atol=1e-5)
    assert_promises(tmp_path / "app", lock, done)
    assert [model.arena_bytes for model in lock.models] == [1920, 1920, 4688, 4688, 1152, 1152]


@pytest.mark.shared
@pytest.mark.toolchain
def test_objects_with_soft_floats_are_refused(tmp_path: Path, needs_arm: None) -> None:
    path = EXPORTED / "tvm0.27" / "net-llvm-m4-exportlib-tvm0.27.0.tar"
    if not path.is_file():
        pytest.skip(f"{path} is missing")
    with pytest.raises(
        ArchiveError, match="it passes floats in integer registers; the board's float ABI is hard"
    ):
        mlf_sdk.generate(path, tmp_path / "app", board="mps2-an386")
    with pytest.raises(InputError, match="64-bit x86-64 file, not a 32-bit"):
        mlf_sdk.generate(
            EXPORTED / "conv1d-llvm-exportlib-tvm0.8.0.tar", tmp_path / "app", board="mps2-an386"
        )
    assert not (tmp_path / "app").exists()


@pytest.mark.shared
@pytest.mark.toolchain
def test_x86_objects_run_on_the_host(tmp_path: Path, needs_host: None) -> None:
    path = EXPORTED / "conv1d-llvm-exportlib-tvm0.11.1.tar"
    if not path.is_file():
        pytest.skip(f"{path} is missing")
    mlf_sdk.generate([path, path], tmp_path / "app", board="host")
    done = run_all(tmp_path / "app", [vectors("conv1d", "in")] * 2)
    for execution in done:
        np.testing.assert_allclose(execution.outputs[0][0], vectors("conv1d", "out")[0], rtol=1e-5, atol=1e-5)
