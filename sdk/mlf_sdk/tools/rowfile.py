# SPDX-License-Identifier: Apache-2.0
"""Read a small TOML file into a typed row; faults name the field."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from mlf_sdk.errors import InputError

_MAX_BYTES = 1 << 16

T = TypeVar("T")


def read_row(path: Path, kind: type[T]) -> T:
    """A TOML file as ``kind``.

    Raises:
        InputError: it can't be read, is no TOML, or holds something else; with the field's path.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"it can't be read: {error.strerror}", where=str(path)) from error
    if len(data) > _MAX_BYTES:
        raise InputError(f"it is longer than {_MAX_BYTES:,} bytes", where=str(path))
    try:
        return cast("T", _decode(data, cast("Any", kind)))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InputError(f"{error}", where=str(path)) from error


@lru_cache(maxsize=64)
def _decode(data: bytes, kind: type[Any]) -> Any:  # noqa: ANN401 (a cache loses the type)
    """Rows of the same bytes are decoded once a process: rows are immutable, and looked up often."""
    return msgspec.toml.decode(data, type=kind)
