# SPDX-License-Identifier: Apache-2.0
"""Resources of the SDK: its data, the user's cache, and parts of its own code that few runs need."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

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


@cache
def imported(place: str) -> Any:  # noqa: ANN401
    """Import the function or class at a place, ``package.module:name`` without ``mlf_sdk``.

    Tables of what few runs need hold places.
    """
    module, _, name = place.partition(":")
    return getattr(import_module(f"mlf_sdk.{module}"), name)
