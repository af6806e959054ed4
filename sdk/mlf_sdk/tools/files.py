# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from mlf_sdk.errors import InputError


def write_whole(path: str | Path, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically; on failure the former file stays.

    A link is followed; a device or a pipe is written to.

    Raises:
        InputError: the file can't be written.
    """
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        try:
            part.write_bytes(content)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"can't write the file: {error.strerror}", where=str(path), hint="Give another path."
        ) from error
