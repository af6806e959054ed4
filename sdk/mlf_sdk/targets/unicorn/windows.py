# SPDX-License-Identifier: Apache-2.0
"""Windows between marks of the code, whose instructions are written as QEMU's plugin writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Windows:
    """Instructions between marks, written as QEMU's plugin writes them (qemu/plugin/README.md)."""

    def __init__(self, argument: str) -> None:
        parts = [part.partition("=") for part in argument.split(",")[1:]]
        self.out = Path(next(value for key, _, value in parts if key == "out"))
        self.begins, self.ends = (
            {
                int(value.rpartition(":")[2], 0): value.rpartition(":")[0]
                for key, _, value in parts
                if key == kind
            }
            for kind in ("begin", "end")
        )
        self.open: dict[str, int] = {}
        self.index: dict[str, int] = {}
        self.out.touch()

    def reach(self, address: int, count: int) -> None:
        """Note that an instruction is reached before which so many were executed."""
        window = self.ends.get(address)
        if window is not None and window in self.open:
            total = count - self.open.pop(window)
            line = {"window": window, "index": self._number(window), "counts": {}, "outside": total}
            self._write({**line, "total": total})
        window = self.begins.get(address)
        if window is not None:
            if window in self.open:
                self._write({"window": window, "index": self._number(window), "given_up": True})
            self.open[window] = count

    def _number(self, window: str) -> int:
        self.index[window] = self.index.get(window, -1) + 1
        return self.index[window]

    def _write(self, line: dict[str, Any]) -> None:
        with self.out.open("a", encoding="ascii") as stream:
            stream.write(json.dumps(line, separators=(",", ":")) + "\n")
