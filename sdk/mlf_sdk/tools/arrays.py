# SPDX-License-Identifier: Apache-2.0
"""Arrays from npz files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mlf_sdk.errors import InputError

Array = npt.NDArray[np.generic]


def read_npz(path: Path) -> dict[str, Array]:
    """Read all arrays of an npz file; nothing is unpickled.

    Raises:
        InputError: the file is missing or damaged, or holds objects.
    """
    try:
        with path.open("rb") as file:
            kind = _kind_of(file.read(6))
            if kind:
                raise ValueError(kind)
            file.seek(0)
            loaded = np.load(file, allow_pickle=False)
            return {name: _array(loaded, name) for name in loaded.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(
            f"can't read the arrays: {getattr(error, 'strerror', None) or error}",
            where=str(path),
            hint="Make the file with numpy.savez(path, **{'input name': array}).",
        ) from error


def _kind_of(start: bytes) -> str:
    """Description of a file that is no npz file, by its first bytes; empty for one that may be."""
    if start.startswith(b"PK"):
        return ""
    return (
        "an npy file, which holds one array without its name" if start == b"\x93NUMPY" else "not an npz file"
    )


def _array(loaded: np.lib.npyio.NpzFile, name: str) -> Array:
    try:
        array: Array = loaded[name]
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise ValueError(f"'{name}' holds Python objects, not numbers") from None
        raise
    return array
