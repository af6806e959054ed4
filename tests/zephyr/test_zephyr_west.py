# SPDX-License-Identifier: Apache-2.0
"""With a Zephyr tree: what Zephyr's own tools make of a generated project: west build, sysbuild, twister."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import mlf_sdk
from archives import Spec, build, write
from mlf_sdk.codegen.options import App
from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.targets.zephyr.build import ZephyrSetup, build_environment
from mlf_sdk.targets.zephyr.files import zephyr_board, zephyr_naming
from mlf_sdk.targets.zephyr.tree import ZephyrTree
from zephyr_trees import zephyr_options

pytestmark = [pytest.mark.zephyr, pytest.mark.qemu, pytest.mark.slow, pytest.mark.usefixtures("zephyr_tools")]
BOARD = "mps2_an385"


def make_app(folder: Path, setup: ZephyrSetup, app: App, **more: bool) -> Path:
    archive = write(build(Spec()), folder / "tiny.tar")
    options: dict[str, Any] = {"app": app, **more}
    mlf_sdk.generate(
        archive, folder / "app", board=BOARD, platform="zephyr", **options, **zephyr_options(setup)
    )
    return folder / "app"


def run(argv: list[object], cwd: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_a_run_in_a_workspace_is_built_by_west(workspace: Path, real_setup: ZephyrSetup, tmp_path: Path):
    app = make_app(tmp_path, real_setup, "rpc")
    report = mlf_sdk.run(app, **zephyr_options(real_setup))
    assert report.ok
    assert report.memory.arena_high_water_bytes == report.memory.arena_bytes
    assert "WEST_PYTHON" in (app / "build/CMakeCache.txt").read_text()


def test_west_build_by_hand(workspace: Path, real_setup: ZephyrSetup, real_tree: ZephyrTree, tmp_path: Path):
    """As the README of the project says; the SDK then checks what west built."""
    app = make_app(tmp_path, real_setup, "rpc")
    board = zephyr_naming(zephyr_board(BOARD), real_tree).board
    environment = build_environment(real_tree, real_setup, is_native=False)
    run(["west", "build", "-b", board, "-d", app / "build", app], workspace, environment)
    assert mlf_sdk.check(app).ok


def test_west_build_with_sysbuild(
    workspace: Path, real_setup: ZephyrSetup, real_tree: ZephyrTree, tmp_path: Path
):
    if not (real_tree.base / "share/sysbuild").is_dir():
        pytest.skip(f"Zephyr {real_tree.version} has no sysbuild")
    app = make_app(tmp_path, real_setup, "rpc")
    board = zephyr_naming(zephyr_board(BOARD), real_tree).board
    environment = build_environment(real_tree, real_setup, is_native=False)
    run(["west", "build", "--sysbuild", "-b", board, "-d", app / "build", app], workspace, environment)
    assert (app / "build/app/zephyr/zephyr.elf").is_file()
    with pytest.raises(InputError, match="built with sysbuild"):
        mlf_sdk.check(app)


def twister(app: Path, out: Path, setup: ZephyrSetup, tree: ZephyrTree) -> dict[str, Any]:
    """Run twister on the sample of a project; return its test suite."""
    environment = build_environment(tree, setup, is_native=False)
    if modules := setup.module_paths():
        environment["ZEPHYR_MODULES"] = ";".join(modules)
    program = tree.base / "scripts/twister"
    tried = subprocess.run(["python3", program, "--help"], env=environment, capture_output=True, text=True)
    if "ModuleNotFoundError" in tried.stderr:
        pytest.skip(f"twister can't start: {tried.stderr.strip().splitlines()[-1]}")
    board = zephyr_naming(zephyr_board(BOARD), tree).board
    argv = ["python3", program, "-T", app, "-p", board, "-O", out]
    done = subprocess.run(argv, cwd=out.parent, env=environment, capture_output=True, text=True, timeout=600)
    # Not its exit code: an old one fails on its last report when the tree is no git repository.
    assert (out / "twister.json").is_file(), done.stdout[-4000:] + done.stderr[-4000:]
    (suite,) = json.loads((out / "twister.json").read_text())["testsuites"]
    found: dict[str, Any] = suite
    return found


def test_twister_compares_the_outputs_of_the_sample(
    real_setup: ZephyrSetup, real_tree: ZephyrTree, tmp_path: Path
):
    app = make_app(tmp_path, real_setup, "standalone", sample_outputs=True)
    (app / "sample.yaml").write_text((app / "sample.yaml").read_text() + "    timeout: 20\n")
    suite = twister(app, tmp_path / "good", real_setup, real_tree)
    assert (suite["name"].rpartition("/")[2], suite["status"]) == ("mlf.tiny_app.standalone", "passed")
    blob = app / "model/tiny/tiny_params.bin"
    blob.write_bytes(
        bytes(byte ^ 0x40 for byte in blob.read_bytes())
    )  # it runs as before, with other results
    assert twister(app, tmp_path / "bad", real_setup, real_tree)["status"] == "failed"
    log = next((tmp_path / "bad").rglob("handler.log")).read_text()
    assert "mlf: model tiny ok" in log and "mlf: output 0 differs from element" in log


def test_an_undeclared_function_ends_the_build(real_setup: ZephyrSetup, tmp_path: Path):
    app = make_app(tmp_path, real_setup, "rpc")
    code = next((app / "model/tiny/codegen").rglob("*_lib1.c"))
    code.write_text(code.read_text() + "\nfloat extra(float x) { return nosuchf(x); }\n")
    with pytest.raises(ToolError, match=r"implicit declaration of function .nosuchf"):
        mlf_sdk.build(app, **zephyr_options(real_setup))
