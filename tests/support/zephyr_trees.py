# SPDX-License-Identifier: Apache-2.0
"""Pieces of Zephyr trees, for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.targets.zephyr.workspace import west_topdir

MakeTree = Callable[[str], Path]


def version_text(version: str) -> str:
    major, minor, patch = version.split(".")
    return (
        f"VERSION_MAJOR = {major}\nVERSION_MINOR = {minor}\nPATCHLEVEL = {patch}\n"
        "VERSION_TWEAK = 0\nEXTRAVERSION =\n"
    )


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def zephyr_options(setup: ZephyrSetup) -> dict[str, Any]:
    """Options of a request that name the same Zephyr as ``setup``."""
    options: dict[str, Any] = {"zephyr_modules": tuple(str(path) for path in setup.modules)}
    if setup.base is not None:
        options["zephyr_base"] = str(setup.base)
    if setup.use_west is not None:
        options["west"] = setup.use_west
    if setup.build_dir is not None:
        options["build_dir"] = str(setup.build_dir)
    return options | {"cmake_args": setup.cmake_args}


def arm_modules(setup: ZephyrSetup) -> tuple[str, ...]:
    """Modules that emulated Arm boards need, for builds outside the tree's own west workspace."""
    topdir = west_topdir(setup.tree().base)
    if setup.module_paths() or topdir is None:
        return setup.module_paths()
    found = (topdir / "modules/hal" / name for name in ("cmsis", "cmsis_6"))
    return tuple(str(path) for path in found if path.is_dir())
