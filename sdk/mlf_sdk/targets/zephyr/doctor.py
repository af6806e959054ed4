# SPDX-License-Identifier: Apache-2.0
"""Examination of this machine for Zephyr: trees, modules, toolchains, west."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mlf_sdk.errors import MlfError
from mlf_sdk.targets.zephyr.build import Which, ZephyrSetup, build_environment, installed_sdks
from mlf_sdk.targets.zephyr.tree import HOME_TREE, ZephyrTree, find_tree
from mlf_sdk.targets.zephyr.workspace import tree_of, west_topdir, workspace_of
from mlf_sdk.tools.files import file_text
from mlf_sdk.tools.isas import fallback_isa

_DEPTH = 4  # of a module below the top of its workspace
_NAME = re.compile(r"^name:\s*['\"]?([A-Za-z0-9_.-]+)", re.MULTILINE)


class FoundTree(msgspec.Struct, frozen=True, kw_only=True):
    """A Zephyr tree, or a path that was named as one.

    Attributes:
        source: what names it: an option, a variable, or the usual place.
        fault: why it can't be used; empty: it can.
    """

    source: str
    path: Path
    version: str = ""
    fault: str = ""


class FoundToolchain(msgspec.Struct, frozen=True, kw_only=True):
    """A toolchain: Zephyr's name of its kind, where it is, and its version where it says one."""

    variant: str
    path: Path
    version: str = ""


class ZephyrExamination(msgspec.Struct, frozen=True, kw_only=True):
    """Zephyr on this machine.

    Attributes:
        trees: the first that has no fault is used.
        modules: folders of modules that a build would see beside the project's own.
        west: path of west; None: not installed.
        topdir: the west workspace of the tree; None: it lies in none.
        builds: what a project would be built with, one sentence.
        ok: a project can be built.
    """

    trees: tuple[FoundTree, ...]
    modules: tuple[Path, ...]
    toolchains: tuple[FoundToolchain, ...]
    west: str | None
    topdir: Path | None
    builds: str
    ok: bool


def examine_zephyr(setup: ZephyrSetup, *, which: Which = shutil.which) -> ZephyrExamination:
    """Examine the Zephyr installation; no program is run.

    Args:
        setup: how to get at Zephyr; tree and workspace are found as a build finds them.
        which: looks for a program.
    """
    trees = _trees(setup)
    try:
        tree = setup.tree()
    except MlfError as error:
        tree, fault = None, error.what
    else:
        fault = ""
    west = which("west")
    topdir = workspace_of(tree.base, (setup.here,)) if tree else west_topdir(setup.here)
    modules = _modules(setup, topdir)
    toolchains = _toolchains(setup, which)
    ok = tree is not None and bool(toolchains)
    builds = fault
    if tree is not None:
        builds = _sentence(setup, tree, topdir if west else None, which) if ok else "there is no toolchain"
    return ZephyrExamination(
        trees=trees, modules=modules, toolchains=toolchains, west=west, topdir=topdir, builds=builds, ok=ok
    )


def _trees(setup: ZephyrSetup) -> tuple[FoundTree, ...]:
    named = setup.environ.get("ZEPHYR_BASE", "")
    places = [("--zephyr-base", setup.base), ("ZEPHYR_BASE", Path(named) if named else None)]
    topdir = west_topdir(setup.here)
    if topdir is not None:
        places.append((f"west workspace {topdir}", tree_of(topdir)))
    if (setup.home / HOME_TREE).is_dir():
        places.append((f"~/{HOME_TREE}", setup.home / HOME_TREE))
    result = []
    for source, path in places:
        if path is None:
            continue
        try:
            tree = find_tree(path, {}, setup.home)
        except MlfError as error:
            result.append(FoundTree(source=source, path=path, fault=error.what))
        else:
            result.append(FoundTree(source=source, path=tree.base, version=str(tree.version)))
    return tuple(result)


def _modules(setup: ZephyrSetup, topdir: Path | None) -> tuple[Path, ...]:
    result = [*setup.modules, *map(Path, setup.named_modules())]
    if topdir is not None:
        result += _modules_below(topdir, _DEPTH)
    return tuple(dict.fromkeys(result))


def _modules_below(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the modules of a workspace; folders inside a module are not searched."""
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
    except OSError:
        return
    for path in inside:
        if (path / "zephyr" / "module.yml").is_file() or (path / "zephyr" / "module.yaml").is_file():
            yield path
        elif depth > 1 and not (path / "VERSION").is_file():  # a tree holds none
            yield from _modules_below(path, depth - 1)


def _toolchains(setup: ZephyrSetup, which: Which) -> tuple[FoundToolchain, ...]:
    environ, home = setup.environ, setup.home
    result = []
    named = environ.get("ZEPHYR_SDK_INSTALL_DIR", "")
    sdks = [*([Path(named)] if named else []), *installed_sdks(home)]
    for path in dict.fromkeys(sdks):
        version = file_text(path / "sdk_version").strip()
        result.append(FoundToolchain(variant="zephyr", path=path, version=version))
    gnuarmemb = environ.get("GNUARMEMB_TOOLCHAIN_PATH", "")
    if gnuarmemb:
        result.append(FoundToolchain(variant="gnuarmemb", path=Path(gnuarmemb)))
    compiler = which(fallback_isa().tools.c)
    if compiler is not None and Path(compiler).parent.parent != Path(gnuarmemb or "-"):
        result.append(FoundToolchain(variant="gnuarmemb", path=Path(compiler).parent.parent))
    native = which("cc")
    if native is not None:
        result.append(FoundToolchain(variant="host", path=Path(native)))
    return tuple(result)


def _sentence(setup: ZephyrSetup, tree: ZephyrTree, topdir: Path | None, which: Which) -> str:
    by = f"west in {topdir}" if topdir is not None and setup.use_west is not False else "CMake and Ninja"
    environment = build_environment(tree, setup, is_native=False, which=which)
    variant = environment.get("ZEPHYR_TOOLCHAIN_VARIANT", "")
    where = environment.get("GNUARMEMB_TOOLCHAIN_PATH", "") if variant == "gnuarmemb" else ""
    chosen = " ".join(filter(None, [variant or "zephyr", f"({where})" if where else ""]))
    return f"Zephyr {tree.version} in {tree.base}, built by {by}, toolchain {chosen}"


def module_name(folder: Path) -> str:
    """Return the name in a module's ``module.yml``, else that of its folder."""
    for name in ("module.yml", "module.yaml"):
        match = _NAME.search(file_text(folder / "zephyr" / name))
        if match:
            return match[1]
    return folder.name
