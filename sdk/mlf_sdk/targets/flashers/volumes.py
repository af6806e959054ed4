# SPDX-License-Identifier: Apache-2.0
"""Mounted volumes of boards that are flashed by copying a file."""

from __future__ import annotations

import re
from pathlib import Path

from mlf_sdk.targets.flashers.errors import NoProbeError

MOUNTS = Path("/proc/self/mounts")
_ESCAPE = re.compile(r"\\([0-7]{3})")
_MAX_INFO = 4096


def mounted_folders(mounts: Path = MOUNTS) -> list[Path]:
    """Return the mount points, in the system's order."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    fields = [line.split(" ") for line in lines]
    return [Path(_ESCAPE.sub(lambda m: chr(int(m[1], 8)), f[1])) for f in fields if len(f) > 1]


def find_volume(
    marker: str, *, label: str = "", board_id: str = "", given: str = "", mounts: Path = MOUNTS
) -> Path:
    """The volume that the file ``marker`` marks.

    Args:
        marker: a file at the top of such volumes, e.g. ``INFO_UF2.TXT``.
        label: of the volume; it is the last part of where desktops mount it.
        board_id: what ``Board-ID:`` in the marker must say; empty: anything.
        given: where the user says that it is mounted.

    Raises:
        NoProbeError: there is none, or there are several.
    """
    places = [Path(given)] if given else mounted_folders(mounts)
    result = [p for p in places if _is_volume(p, marker, board_id) and (given or label in ("", p.name))]
    if len(result) == 1:
        return result[0]
    if given:
        raise NoProbeError(
            f"it holds no {marker}" + (f" of a board '{board_id}'" if board_id else ""),
            where=f"--port {given}",
            hint="Give the folder where the board's volume is mounted.",
        )
    if result:
        raise NoProbeError(
            "several boards are mounted: " + ", ".join(map(str, result)),
            where=marker,
            hint="Say which with --port FOLDER.",
        )
    name = f" with the label {label}" if label else ""
    raise NoProbeError(
        f"no mounted volume{name} holds {marker}",
        hint="Connect the board, start its boot loader (often: press reset twice), and mount its volume; "
        "or say where it is mounted with --port FOLDER.",
    )


def _is_volume(folder: Path, marker: str, board_id: str) -> bool:
    path = folder / marker
    try:
        if not path.is_file():
            return False
        if not board_id:
            return True
        with path.open("rb") as file:
            text = file.read(_MAX_INFO).decode("utf-8", "replace")
    except OSError:
        return False
    return re.search(rf"^Board-ID:\s*{re.escape(board_id)}\s*$", text, re.MULTILINE) is not None
