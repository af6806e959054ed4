# SPDX-License-Identifier: Apache-2.0
"""With a Zephyr tree: the SDK on a build folder that a user configured with west, in west's own place."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import mlf_sdk
from archives import Spec, build, write
from mlf_sdk.cli.main import main
from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.targets.zephyr.build import ZephyrSetup, build_environment
from mlf_sdk.targets.zephyr.files import zephyr_board, zephyr_naming
from mlf_sdk.targets.zephyr.output import has_option
from mlf_sdk.targets.zephyr.tree import ZephyrTree, ZephyrVersion
from zephyr_trees import zephyr_options

pytestmark = [pytest.mark.zephyr, pytest.mark.qemu, pytest.mark.slow, pytest.mark.usefixtures("zephyr_tools")]
BOARD = "mps2_an385"


def test_what_a_user_configured_with_west(
    workspace: Path,
    real_setup: ZephyrSetup,
    real_tree: ZephyrTree,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Found in west's place, checked, run, flashed and built with his options, and those that he adds."""
    archive = write(build(Spec()), tmp_path / "tiny.tar")
    app, folder = tmp_path / "app", tmp_path / "build"
    mlf_sdk.generate(archive, app, board=BOARD, platform="zephyr", **zephyr_options(real_setup))
    mine = app / "mine.conf"
    mine.write_text("CONFIG_THREAD_NAME=y\n")
    board = zephyr_naming(zephyr_board(BOARD), real_tree).board
    variable = "EXTRA_CONF_FILE" if real_tree.version >= ZephyrVersion(3, 4, 0) else "OVERLAY_CONFIG"
    argv = ["west", "build", "-b", board, "-d", folder, app, "--", f"-D{variable}=mine.conf"]
    environment = build_environment(real_tree, real_setup, is_native=False)
    done = subprocess.run(argv, cwd=workspace, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    monkeypatch.chdir(tmp_path)  # west's default is the folder build in the current one
    options = zephyr_options(real_setup)

    assert mlf_sdk.check(app).ok
    assert mlf_sdk.run(app, **options).memory.arena_high_water_bytes is not None
    with pytest.raises(InputError, match="no flash runner"):
        mlf_sdk.flash(app)
    with (app / "src/main.c").open("a") as file:
        file.write("\n#error rebuilt\n")
    with pytest.raises(ToolError, match="rebuilt"):
        mlf_sdk.build(app, **options)
    (app / "src/main.c").write_text((app / "src/main.c").read_text().replace("#error rebuilt\n", ""))

    zephyr = ["--zephyr-base", str(real_tree.base)]
    assert main(["build", str(app), *zephyr, "--", "-DCONFIG_THREAD_MONITOR=y"]) == 0
    applied = (folder / "CMakeCache.txt").read_text()
    assert mlf_sdk.build(app).elf == folder / "zephyr/zephyr.elf"
    assert has_option(folder, "THREAD_NAME") and has_option(folder, "THREAD_MONITOR")
    assert (folder / "CMakeCache.txt").read_text() == applied

    mine.write_text("CONFIG_THREAD_NAME=y\nCONFIG_NO_SUCH=y\n")
    with pytest.raises(ToolError, match="undefined symbol NO_SUCH") as caught:
        mlf_sdk.build(app)
    assert (caught.value.where, caught.value.hint) == (f"{mine}:2", f"Correct {mine}:2.")
    mine.write_text("CONFIG_THREAD_NAME=y\n")
    assert main(["build", str(app), "--", "-DCONFIG_NO_SUCH=y"]) == 3
    assert "drop it: -- -UCONFIG_NO_SUCH" in capsys.readouterr().err
    assert main(["build", str(app), "--", "-UCONFIG_NO_SUCH"]) == 0
    assert has_option(folder, "THREAD_NAME") and has_option(folder, "THREAD_MONITOR")
    assert not (app / "build").exists()
