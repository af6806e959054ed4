# SPDX-License-Identifier: Apache-2.0
"""Zephyr trees: stand-ins that hold a version and boards, and the real one of this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from archives import Spec, build, write
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.targets.zephyr.tree import ZephyrTree, find_tree
from mlf_sdk.targets.zephyr.workspace import west_topdir
from zephyr_bench import Bench
from zephyr_trees import MakeTree, put, version_text


@pytest.fixture
def make_tree(tmp_path: Path) -> MakeTree:
    """``make_tree("3.2.0")``: a folder with what the SDK reads of a tree of that version."""

    def make(version: str) -> Path:
        base = tmp_path / f"zephyr-{version}"
        put(base / "VERSION", version_text(version))
        boards = base / "boards"
        if tuple(map(int, version.split("."))) >= (3, 6, 99):
            put(boards / "arm/mps2/board.yml")
            for name, identifier in (
                ("mps2_an385", "mps2/an385"),
                ("mps2_an521_cpu0", "mps2/an521/cpu0"),
            ):
                put(boards / f"arm/mps2/{name}.yaml", f"identifier: {identifier}\nname: x\n")
            soc = "/corstone300" if version >= "4.1" else ""
            for end in ("", "/ns"):
                name = f"mps3{soc}/an547{end}"
                put(boards / f"arm/mps3/{name.replace('/', '_')}.yaml", f"identifier: {name}\n")
            put(boards / "nordic/nrf52840dk/board.yml")
            put(boards / "nordic/nrf52840dk/nrf52840dk_nrf52840.yaml", "identifier: nrf52840dk/nrf52840\n")
            put(boards / "native/native_sim/board.yml")
        else:
            known = ("mps2_an385", "mps2_an521", "mps3_an547", "nrf52840dk_nrf52840", "qemu_cortex_m3")
            for name in known:
                put(boards / f"arm/{name}/{name}_defconfig")
        return base

    return make


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A PATH with stand-ins of cmake and a compiler."""
    return Bench(tmp_path, monkeypatch)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A tiny archive."""
    return write(build(Spec()), tmp_path / "tiny.tar")


@pytest.fixture(scope="session")
def real_setup() -> ZephyrSetup:
    """How to get at the tree of this machine; skips where there is none."""
    home = Path.home()
    if not os.environ.get("ZEPHYR_BASE") and not (home / "zephyrproject" / "zephyr").is_dir():
        pytest.skip("no Zephyr tree: set ZEPHYR_BASE, or make ~/zephyrproject (Zephyr's Getting Started)")
    setup = ZephyrSetup()
    base = setup.tree().base
    if west_topdir(base) is None and not os.environ.get("ZEPHYR_MODULES"):
        pytest.skip(f"{base} lies in no west workspace, and ZEPHYR_MODULES names no modules")
    return setup


@pytest.fixture(scope="session")
def zephyr_tools() -> None:
    """Skips where Zephyr's images can't be built and started."""
    programs = ("cmake", "ninja", "dtc", "qemu-system-arm")
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@pytest.fixture(scope="session")
def real_tree(real_setup: ZephyrSetup) -> ZephyrTree:
    return find_tree(None, real_setup.environ, real_setup.home)


@pytest.fixture(scope="session")
def workspace(real_tree: ZephyrTree) -> Path:
    """The west workspace of the tree of this machine; skips where there is none."""
    topdir = west_topdir(real_tree.base)
    if topdir is None:
        pytest.skip(f"{real_tree.base} lies in no west workspace")
    if shutil.which("west") is None:
        pytest.skip("west is not installed")
    return topdir
