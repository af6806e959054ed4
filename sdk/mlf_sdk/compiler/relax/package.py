# SPDX-License-Identifier: Apache-2.0
"""The package ``tvm``: whether it is there, and of a version that was tried."""

from __future__ import annotations

from importlib import metadata
from typing import Any, Final

from mlf_sdk.errors import InputError

TRIED: Final = ("0.27.0",)
INSTALL: Final = "pip install 'mlf-sdk[tvm]'"
TvmObject = Any  # objects of TVM, which states no types


def tvm_version() -> str:
    """Version of TVM that is installed; empty for none."""
    try:
        return metadata.version("apache-tvm")
    except metadata.PackageNotFoundError:
        return ""


def tvm_fault() -> str:
    """Reason why TVM can't be used, and what to do; empty where it can."""
    result = tvm_version()
    if not result:
        return f"TVM is not installed. Install it: {INSTALL}"
    if result not in TRIED:
        return f"TVM {result} is installed; {', '.join(TRIED)} was tried. Install that: {INSTALL}"
    return ""


def require_tvm(where: str) -> TvmObject:
    """The package ``tvm``.

    Args:
        where: what needs it, for the message.

    Raises:
        InputError: it is not installed, or of a version that was not tried.
    """
    what, _, hint = tvm_fault().partition(". ")
    if what:
        raise InputError(what, where=where, hint=f"{hint}.")
    try:
        import tvm
    except (ImportError, OSError) as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(
            f"TVM can't be loaded: {said}", where=where, hint=f"Install it: {INSTALL}."
        ) from None
    return tvm
