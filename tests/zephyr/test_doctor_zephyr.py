# SPDX-License-Identifier: Apache-2.0
"""What doctor says of Zephyr: trees, modules, toolchains, west, and what would be built with what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlf_sdk.cli.main import main
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.targets.zephyr.doctor import ZephyrExamination, examine_zephyr, module_name
from zephyr_trees import MakeTree, put


def which_of(*names: str):
    return lambda name: f"/usr/bin/{name}" if name in names else None


def examine(home: Path, *names: str, here: Path | None = None, **changes) -> ZephyrExamination:
    environ = changes.pop("environ", {})
    setup = ZephyrSetup(environ=environ, home=home, here=here or home, **changes)
    return examine_zephyr(setup, which=which_of(*names))


def test_nothing_at_all(tmp_path: Path):
    found = examine(tmp_path)
    assert (found.trees, found.modules, found.west, found.topdir) == ((), (), None, None)
    assert found.builds == "there is no Zephyr tree on this machine"
    assert not found.ok


def test_every_tree_with_its_version_or_fault(make_tree: MakeTree, tmp_path: Path):
    home = tmp_path / "home"
    put(home / "zephyrproject/zephyr/VERSION", (make_tree("3.7.1") / "VERSION").read_text())
    given, named = make_tree("4.1.0"), make_tree("2.6.0")
    found = examine(home, "arm-none-eabi-gcc", base=given, environ={"ZEPHYR_BASE": str(named)})
    assert [(t.source, t.version) for t in found.trees] == [
        ("--zephyr-base", "4.1.0"),
        ("ZEPHYR_BASE", ""),
        ("~/zephyrproject/zephyr", "3.7.1"),
    ]
    assert "too old" in found.trees[1].fault
    assert found.builds == f"Zephyr 4.1.0 in {given}, built by CMake and Ninja, toolchain gnuarmemb (/usr)"
    assert found.ok


def test_a_workspace_and_its_modules(make_tree: MakeTree, tmp_path: Path):
    top = tmp_path / "work"
    put(top / ".west/config")
    put(top / "modules/hal/cmsis/zephyr/module.yml", "name: cmsis\n")
    put(top / "modules/hal/cmsis/inner/zephyr/module.yml", "name: not_counted\n")
    put(top / "modules/lib/own/zephyr/module.yaml", "build:\n  cmake: .\n")
    base = top / "zephyr"
    put(base / "VERSION", (make_tree("4.1.0") / "VERSION").read_text())
    put(base / "modules/x/zephyr/module.yml")
    environ = {"ZEPHYR_BASE": str(base), "ZEPHYR_MODULES": "/m/one;/m/two"}
    found = examine(tmp_path, "west", "arm-none-eabi-gcc", environ=environ)
    assert found.topdir == top
    assert [module_name(path) for path in found.modules] == ["one", "two", "cmsis", "own"]
    assert f"built by west in {top}" in found.builds
    without = examine(tmp_path, "arm-none-eabi-gcc", environ=environ)
    assert "built by CMake and Ninja" in without.builds
    assert without.west is None


def test_toolchains_and_the_one_that_is_used(make_tree: MakeTree, tmp_path: Path):
    base = make_tree("4.1.0")
    found = examine(tmp_path, "arm-none-eabi-gcc", "cc", base=base)
    assert [(t.variant, str(t.path)) for t in found.toolchains] == [
        ("gnuarmemb", "/usr"),
        ("host", "/usr/bin/cc"),
    ]
    put(tmp_path / "zephyr-sdk-0.17.0/sdk_version", "0.17.0\n")
    found = examine(tmp_path, "arm-none-eabi-gcc", base=base)
    assert (found.toolchains[0].variant, found.toolchains[0].version) == ("zephyr", "0.17.0")
    assert found.builds.endswith("toolchain zephyr")
    environ = {"ZEPHYR_TOOLCHAIN_VARIANT": "gnuarmemb", "GNUARMEMB_TOOLCHAIN_PATH": "/opt/arm"}
    found = examine(tmp_path, "arm-none-eabi-gcc", base=base, environ=environ)
    assert found.builds.endswith("toolchain gnuarmemb (/opt/arm)")
    assert [str(t.path) for t in found.toolchains if t.variant == "gnuarmemb"] == ["/opt/arm", "/usr"]


def test_a_tree_without_a_toolchain(make_tree: MakeTree, tmp_path: Path):
    found = examine(tmp_path, base=make_tree("4.1.0"))
    assert (found.builds, found.ok) == ("there is no toolchain", False)


def test_the_command_line(
    make_tree: MakeTree, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    for name in ("ZEPHYR_BASE", "ZEPHYR_MODULES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    base = make_tree("4.1.0")
    main(["doctor", "--zephyr-base", str(base), "--json"])
    zephyr = json.loads(capsys.readouterr().out)["zephyr"]
    assert zephyr["trees"] == [
        {"source": "--zephyr-base", "path": str(base), "version": "4.1.0", "fault": ""}
    ]
    main(["doctor"])
    assert "there is no Zephyr tree on this machine" in capsys.readouterr().out
