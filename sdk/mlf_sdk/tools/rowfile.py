# SPDX-License-Identifier: Apache-2.0
"""Records that are decoded, in any thread; a small TOML file as a typed row, whose faults name the field."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from mlf_sdk.errors import InputError

_MAX_BYTES = 1 << 16

T = TypeVar("T")

_lock = threading.Lock()
_described: set[object] = set()


def described(kind: type[T]) -> type[T]:
    """A type, with all records in it, that any number of threads can decode from now on.

    What msgspec knows of a record it makes at the first use; version 0.22 may crash where two threads do.
    """
    with _lock:
        if kind not in _described:
            msgspec.json.Decoder(kind)
            _described.add(kind)
    return kind


def read_row(path: Path, kind: type[T]) -> T:
    """A TOML file as ``kind``.

    Raises:
        InputError: it can't be read, is no TOML, or holds something else; all that is wrong, by field.
    """
    row, faults = read_checked(path, kind)
    if faults or row is None:
        raise InputError(faults_text(faults), where=str(path))
    return row


def read_checked(path: Path, kind: type[T]) -> tuple[T | None, list[str]]:
    """A TOML file as ``kind``, with all that is wrong with it: lines ``<field>: <fault>``.

    Keys that are not known are left out of the row; with other faults there is no row.

    Raises:
        InputError: it can't be read, or is no TOML.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"it can't be read: {error.strerror}", where=str(path)) from error
    if len(data) > _MAX_BYTES:
        raise InputError(f"it is longer than {_MAX_BYTES:,} bytes", where=str(path))
    try:
        return cast("T", _decode(data, cast("Any", kind))), []
    except msgspec.ValidationError as error:
        row, faults = _faults(msgspec.toml.decode(data), cast("Any", kind))
        return cast("T | None", row), faults or [str(error)]
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InputError(f"{error}", where=str(path)) from error


def faults_text(faults: Sequence[str]) -> str:
    """One fault on a line by itself, several below each other."""
    if len(faults) == 1:
        return faults[0]
    return "\n  ".join((f"there are {len(faults)} faults:", *faults))


def _faults(values: Any, kind: type[Any]) -> tuple[Any, list[str]]:  # noqa: ANN401 (TOML values, a row)
    from mlf_sdk.tools.rowfaults import type_faults, without_unknown_keys

    faults = list(type_faults(values, kind))
    row = None
    if faults and all(fault.unknown_key for fault in faults):
        row = msgspec.convert(without_unknown_keys(values, kind), described(kind))
    return row, [str(fault) for fault in faults]


@lru_cache(maxsize=64)
def _decode(data: bytes, kind: type[Any]) -> Any:  # noqa: ANN401 (a cache loses the type)
    """Rows of the same bytes are decoded once a process: rows are immutable, and looked up often."""
    return msgspec.toml.decode(data, type=described(kind))
