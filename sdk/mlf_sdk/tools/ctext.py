# SPDX-License-Identifier: Apache-2.0
"""Values of templates, and escaping of text from an archive for C comments and strings."""

from __future__ import annotations

from typing import Any

Values = dict[str, Any]
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-.,:;+=()[]<>/@#!~^&|'")


def c_string(text: str) -> str:
    """Quote ``text`` as a C string literal of its UTF-8 bytes; other than plain characters are octal."""
    parts = []
    for byte in text.encode("utf-8", "surrogatepass"):
        char = chr(byte)
        parts.append(char if char in _PLAIN else f"\\{byte:03o}")
    return '"' + "".join(parts) + '"'


def c_float(value: float) -> str:
    """Literal of a single-precision number that reads back as the same one."""
    text = f"{value:.9g}"
    return f"{text}{'' if '.' in text or 'e' in text else '.0'}f"


def byte_rows(data: bytes) -> list[str]:
    """Elements of a C array with the bytes of ``data``, 16 in a row."""
    rows = (data[at : at + 16] for at in range(0, len(data), 16))
    return [", ".join(f"0x{byte:02x}" for byte in row) for row in rows]


def c_comment(text: str, *, max_length: int = 100) -> str:
    """Make ``text`` safe for a C comment: printable, one line, bounded, never ending the comment."""
    clean = "".join(c if c.isprintable() and c not in "\\?" else "_" for c in text)
    clean = clean.replace("*/", "*_").replace("/*", "/_")
    return clean if len(clean) <= max_length else clean[: max_length - 3] + "..."
