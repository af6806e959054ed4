# SPDX-License-Identifier: Apache-2.0
"""Files of results: written whole, or not at all."""

from __future__ import annotations

from pathlib import Path

from mlf_sdk.errors import InputError


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path``; what was there before stays when that fails.

    Raises:
        InputError: the file can't be written.
    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"can't write the file: {error.strerror}", where=str(path)) from error
