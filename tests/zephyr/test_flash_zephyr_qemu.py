# SPDX-License-Identifier: Apache-2.0
"""With a Zephyr tree: ``west flash`` into QEMU through its debug server, proven by what the board answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mlf_sdk
from archives import Spec, build, write
from mlf_sdk.cli.main import main
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.flash import flash
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.targets.flashers.errors import FlashNotProvenError, NoProbeError, NoRunnerError
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.targets.zephyr.sign import SigningError
from zephyr_flash_helpers import empty_machine, make_workspace
from zephyr_trees import arm_modules, zephyr_options

ROOT = Path(__file__).resolve().parents[2]
SLOTS = """/ { chosen { zephyr,code-partition = &slot0_partition; }; };
&flash0 {
	write-block-size = <4>;
	erase-block-size = <1024>;
	partitions {
		compatible = "fixed-partitions";
		#address-cells = <1>;
		#size-cells = <1>;
		slot0_partition: partition@8000 { label = "image-0"; reg = <0x8000 0x30000>; };
	};
};
"""
RUNNER = "set(MLF_GDB_SERVER localhost:{port})\ninclude(crt/zephyr/gdb_runner.cmake)\n"
NOBODY = 9  # the discard service: nothing listens there

pytestmark = [pytest.mark.zephyr, pytest.mark.qemu, pytest.mark.slow]


@pytest.fixture(scope="module")
def app(real_setup: ZephyrSetup, once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """A project of the model tiny in a west workspace, with a runner of its own.

    It is built by CMake: in a workspace whose tree is a link, Zephyr's build finds no modules.
    """
    missing = [
        name
        for name in ("west", "cmake", "ninja", "dtc", "qemu-system-arm", "gdb-multiarch")
        if shutil.which(name) is None
    ]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")

    def make(folder: Path) -> None:
        top = make_workspace(folder / "top", real_setup.tree().base, ROOT, "west")
        archive = write(build(Spec()), folder / "tiny.tar")
        options = zephyr_options(real_setup)
        mlf_sdk.generate(archive, top / "app", board="mps2_an385", platform="zephyr", **options)
        (top / "app/runner.cmake").write_text(RUNNER.format(port=NOBODY))
        options |= {"zephyr_modules": arm_modules(real_setup), "west": False}
        mlf_sdk.build(top / "app", **options)

    return once("zephyr-flash", make) / "top/app"


class Watch(Progress):
    """What the runner wrote."""

    shows_log = True

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, line: str) -> None:
        self.lines.append(line)


def sha(folder: Path) -> str:
    return read_lock(folder).models[0].archive_sha256


def test_the_runner_is_the_builds_own(app: Path):
    assert "flash-runner: misc-flasher" in (app / "build/zephyr/runners.yaml").read_text()
    assert (app / "../.west/config").is_file()


@pytest.mark.parametrize("use_west", [None, False], ids=["workspace", "no-workspace"])
def test_an_empty_board_is_flashed_and_proven(
    app: Path, real_setup: ZephyrSetup, tmp_path: Path, use_west: bool | None
):
    setup = ZephyrSetup(use_west=use_west)
    watched = Watch()
    with empty_machine(tmp_path) as machine:
        report = flash(
            app,
            console=machine.console,
            extra=(machine.gdb,),
            **zephyr_options(setup),
            timeout_s=120,
            progress=watched,
        )
    assert report.proven
    assert report.runner.name == "misc-flasher"
    assert report.device is not None
    assert [(m.name, m.archive_sha256) for m in report.device.models] == [("tiny", sha(app))]
    assert sum("matched." in line for line in watched.lines) > 3
    assert "gdb_runner: done" in watched.lines


@pytest.fixture
def of_another_model(app: Path) -> Iterator[Path]:
    """The same project, as if it had been made from another archive after it was built."""
    lock = app / "mlf-project.json"
    text = lock.read_text()
    lock.write_text(text.replace(sha(app), "0" * 64))
    yield app
    lock.write_text(text)


def test_the_board_runs_another_model(of_another_model: Path, tmp_path: Path):
    """The runner is content, the device is not."""
    with empty_machine(tmp_path) as machine, pytest.raises(FlashNotProvenError) as caught:
        flash(of_another_model, console=machine.console, extra=(machine.gdb,), timeout_s=120)
    assert "misc-flasher claims success, but the board runs something else" in caught.value.what
    assert caught.value.exit_code == 4


def test_nobody_listens(app: Path):
    with pytest.raises(NoProbeError, match="no debug server answers there") as caught:
        flash(app, unproven_ok=True, timeout_s=60)
    assert caught.value.exit_code == 4


def test_a_board_without_a_runner(app: Path, tmp_path: Path):
    """Zephyr writes no runners.yaml for this board; west itself says the same."""
    bare = Path(shutil.copytree(app, tmp_path / "bare", symlinks=True))
    (bare / "build/zephyr/runners.yaml").unlink()
    with pytest.raises(NoRunnerError, match="no flash runner for this board"):
        flash(bare, timeout_s=60)


def test_west_says_that_there_is_no_such_runner(app: Path, tmp_path: Path):
    other = Path(shutil.copytree(app, tmp_path / "other", symlinks=True))
    path = other / "build/zephyr/runners.yaml"
    path.write_text(
        path.read_text().replace("- misc-flasher", "- no-such").replace("  misc-flasher:", "  no-such:")
    )
    path.write_text(path.read_text().replace("flash-runner: misc-flasher", "flash-runner: no-such"))
    with pytest.raises(NoRunnerError, match="no such runner"):
        flash(other, unproven_ok=True, timeout_s=60)


def test_signing_needs_mcuboot_and_slots(app: Path, tmp_path: Path):
    """The real west sign; this board has no slots for MCUboot."""
    key = tmp_path / "key.pem"
    key.write_text("key")
    with pytest.raises(InputError, match="MCUboot"):
        flash(app, sign=key, unproven_ok=True, timeout_s=60)
    forced = Path(shutil.copytree(app, tmp_path / "forced", symlinks=True))
    config = forced / "build/zephyr/.config"
    added = 'CONFIG_BOOTLOADER_MCUBOOT=y\nCONFIG_MCUBOOT_IMGTOOL_SIGN_VERSION="0.0.0+0"\n'
    config.write_text(config.read_text() + added)
    with pytest.raises(SigningError) as caught:
        flash(forced, sign=key, unproven_ok=True, timeout_s=60)
    said = caught.value.what + caught.value.hint
    assert "imgtool" in said if shutil.which("imgtool") is None else "slot0_partition" in said


def test_a_signed_build(real_setup: ZephyrSetup, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The real imgtool signs, and verifies what it signed."""
    missing = [name for name in ("west", "imgtool", "cmake", "ninja", "dtc") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    archive = write(build(Spec()), tmp_path / "tiny.tar")
    app, key = tmp_path / "app", tmp_path / "key.pem"
    options: dict[str, Any] = {"app": "standalone"}
    mlf_sdk.generate(
        archive, app, board="qemu_cortex_m3", platform="zephyr", **options, **zephyr_options(real_setup)
    )
    (app / "boards").mkdir(exist_ok=True)
    (app / "boards/qemu_cortex_m3.overlay").write_text(SLOTS)
    with (app / "prj.conf").open("a") as file:
        file.write("CONFIG_BOOTLOADER_MCUBOOT=y\nCONFIG_BUILD_OUTPUT_HEX=y\n")
    subprocess.run(["imgtool", "keygen", "-k", key, "-t", "ecdsa-p256"], check=True, timeout=60)
    assert main(["build", str(app), "--sign", str(key), "--json"]) == 0
    signed = app / "build/zephyr/zephyr.signed.hex"  # this board's build writes no binary file
    assert json.loads(capsys.readouterr().out)["signed"] == [str(signed)]
    done = subprocess.run(
        ["imgtool", "verify", "-k", key, signed], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_west_mlf_flash(app: Path, tmp_path: Path):
    """Inside west from beginning to end."""
    program = tmp_path / "bin/mlf-sdk"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "sdk"} exec {sys.executable} -m mlf_sdk "$@"\n')
    program.chmod(0o755)
    environ = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    with empty_machine(tmp_path) as machine:
        argv = ["west", "mlf", "flash", str(app), "--console", machine.console, "--", machine.gdb]
        done = subprocess.run(argv, cwd=app.parent, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gdb_runner: done" in done.stderr
    assert sha(app)[:12] in done.stdout
    assert "PASS" in done.stdout
