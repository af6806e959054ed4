# SPDX-License-Identifier: Apache-2.0
"""Folders of the SDK: its data, and the user's cache."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from mlf_sdk.errors import ToolError

DataName = Literal["board_templates", "crt", "qemu"]

_PACKAGE = Path(__file__).resolve().parent


def data_dir(name: DataName, *, package: Path = _PACKAGE) -> Path:
    """The folder ``name``: inside the installed package, or at the top of a source checkout.

    Args:
        name: one of the SDK's data folders.
        package: the folder of the package ``mlf_sdk``.

    Raises:
        ToolError: it is in neither place; the installation is broken.
    """
    installed = package / "_data" / name
    checkout = package.parent.parent
    if installed.is_dir():
        return installed
    if (checkout / "pyproject.toml").is_file() and (checkout / name).is_dir():
        return checkout / name
    raise ToolError(
        f"the SDK's data folder '{name}' is missing",
        where=str(installed),
        hint="Install mlf-sdk again: pip install --force-reinstall mlf-sdk.",
    )


def cache_dir(name: str = "") -> Path:
    """The folder ``name`` of what is kept between runs: ``$XDG_CACHE_HOME/mlf-sdk/NAME`` on Linux.

    Args:
        name: of one kind; empty: the folder of all.
    """
    import platformdirs  # takes time to load

    return Path(platformdirs.user_cache_dir("mlf-sdk")) / name
