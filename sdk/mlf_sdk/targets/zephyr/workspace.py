# SPDX-License-Identifier: Apache-2.0
"""West workspaces: found from a folder upwards, as west does, with the Zephyr tree that each names."""

from __future__ import annotations

import configparser
from collections.abc import Iterable
from pathlib import Path

_CONFIG = ".west/config"
_IS_TREE = "Kconfig.zephyr"  # beside VERSION


def west_topdir(start: Path) -> Path | None:
    """The west workspace that ``start`` lies in: the nearest folder above with ``.west``; None: none."""
    path = start.resolve()
    return next((p for p in (path, *path.parents) if (p / _CONFIG).is_file()), None)


def west_options(topdir: Path, section: str) -> dict[str, str]:
    """Options of a section of the workspace's configuration (``west config``); empty where there are none."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(topdir / _CONFIG, encoding="utf-8")
    except (OSError, configparser.Error, UnicodeDecodeError):
        return {}
    return dict(parser.items(section)) if parser.has_section(section) else {}


def tree_of(topdir: Path) -> Path | None:
    """The Zephyr tree of a workspace: the one that its configuration names, else where there is one."""
    named = [base] if (base := west_options(topdir, "zephyr").get("base")) else []
    candidates = [topdir / name for name in (*named, "zephyr")]
    for depth in ("*", "*/*"):
        candidates += [path.parent for path in sorted(topdir.glob(f"{depth}/{_IS_TREE}"))]
    return next((path for path in candidates if (path / "VERSION").is_file()), None)


def workspace_of(tree: Path, places: Iterable[Path]) -> Path | None:
    """The workspace to build in: that of the first place whose own tree is ``tree``, else the first of any.

    Args:
        tree: the tree that is used.
        places: folders to look from, the most wanted first: the current one, the project's.
    """
    result = [topdir for place in (*places, tree) if (topdir := west_topdir(place)) is not None]
    own = (t for t in result if (base := tree_of(t)) is not None and base.resolve() == tree.resolve())
    return next(own, result[0] if result else None)
