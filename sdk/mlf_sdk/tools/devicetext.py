# SPDX-License-Identifier: Apache-2.0
"""Text from a device: escaped where it enters, so that nothing that prints it can be driven by it."""

from __future__ import annotations

from typing import NewType

from mlf_sdk.tools.checks import printable

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
