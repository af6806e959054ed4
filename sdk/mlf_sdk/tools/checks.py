# SPDX-License-Identifier: Apache-2.0
"""Checks of what comes from outside: names, identifiers, a bound on faults, text of devices escaped."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import NewType

from mlf_sdk.errors import FaultCollector
from mlf_sdk.tools.ctext import C_RESERVED

MAX_FAULTS = 100
"""Faults kept of one archive: enough to repair it, bounded for a hostile one."""

MAX_MODULE_NAME = 128
"""Characters in a module name."""

MAX_TENSOR_NAME = 1024
"""Bytes of UTF-8 in a tensor name."""

MAX_FUNCTION_NAME = 1024
"""Characters in a function name (fused names of real models run past 120)."""

_C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class BoundedFaults(FaultCollector):
    """A collector that keeps the first ``MAX_FAULTS`` faults, so that a hostile archive stays cheap."""

    def add(self, member: str, what: str, *, field: str = "") -> None:
        """Record one fault while there is room."""
        if len(self.faults) < MAX_FAULTS:
            super().add(member, what, field=field)


def shown(text: str, limit: int = 80) -> str:
    """Quote ``text`` for a message: no raw control characters, at most about ``limit`` characters."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}..."


def text_problem(text: str, limit_bytes: int) -> str | None:
    """Return the reason why ``text`` is not a readable name, or None.

    A name is printable Unicode (no control, format or surrogate characters), not empty, and at
    most ``limit_bytes`` bytes of UTF-8.
    """
    if not text:
        return "is empty"
    if len(text) > limit_bytes:
        return f"is longer than {limit_bytes} bytes: {shown(text)}"
    if not text.isprintable():
        return f"has control or unprintable characters: {shown(text)}"
    if len(text.encode("utf-8")) > limit_bytes:
        return f"is longer than {limit_bytes} bytes: {shown(text)}"
    return None


def module_name_problem(name: str) -> str | None:
    """Return the problem of a module name, or None: printable, at most 128 characters, no slashes."""
    if len(name) > MAX_MODULE_NAME:
        return f"is longer than {MAX_MODULE_NAME} characters: {shown(name)}"
    if "/" in name or "\\" in name or name in (".", ".."):
        return f"has a path separator: {shown(name)}"
    return text_problem(name, 4 * MAX_MODULE_NAME)


def tensor_name_problem(name: str) -> str | None:
    """Return the problem of a tensor name, or None: printable, at most 1024 bytes of UTF-8."""
    return text_problem(name, MAX_TENSOR_NAME)


def function_name_problem(name: str) -> str | None:
    """Return the reason why ``name`` cannot be a C function of an archive, or None."""
    if len(name) > MAX_FUNCTION_NAME:
        return f"is longer than {MAX_FUNCTION_NAME} characters: {shown(name)}"
    if not _C_IDENTIFIER.fullmatch(name):
        return f"is not a C identifier: {shown(name)}"
    if name in C_RESERVED:
        return f"is reserved in C: {shown(name)}"
    return None


def name_hint(name: str, known: Iterable[str]) -> str:
    """Hint for a name that is not known: those that are close to it, else all that are known."""
    names = list(known)
    close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.6)
    return f"Did you mean {' or '.join(close)}?" if close else f"Known: {', '.join(names)}."


def printable(text: str, *, keep: str = "") -> str:
    """Escape terminal control: control characters and marks of text direction, except ``keep``."""
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


DeviceText = NewType("DeviceText", str)
"""Text that a device sent, escaped; only `device_text` makes it, which the type checker enforces."""


def device_text(data: bytes | bytearray | str, *, keep: str = "") -> DeviceText:
    """Escape all of a device's text that could drive a terminal or deceive a reader.

    Args:
        data: as the device sent it; bytes that are not UTF-8 are shown as ``\\xff``, control characters, C1
            controls, line ends and marks of text direction as ``\\n``, ``\\x1b`` or ``\\u202e``.
        keep: control characters that stay, such as the line feeds of a console.
    """
    text = data if isinstance(data, str) else data.decode("utf-8", "backslashreplace")
    return DeviceText(printable(text, keep=keep))


def console_text(data: bytes | bytearray) -> DeviceText:
    """Escape console output but for line feeds and tabs; a carriage return before a line feed goes."""
    return device_text(data.replace(b"\r\n", b"\n").removesuffix(b"\r"), keep="\n\t")
