# SPDX-License-Identifier: Apache-2.0
"""Words of C, values of templates, and escaping of text from an archive for C comments and strings."""

from __future__ import annotations

import math
import struct
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


def _nearest(value: float) -> float:
    """The single-precision number nearest to ``value``; an infinity beyond the largest."""
    try:
        result: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return result


def c_exact(value: float) -> str:
    """Literal of the single-precision number nearest to a finite one, in hexadecimal."""
    return f"{_nearest(value).hex()}f"


def c_real(value: float) -> str:
    """Expression of a single-precision number, exact; of infinities and NaN those of ``math.h``."""
    result = _nearest(value)
    if not math.isfinite(result):
        return "NAN" if math.isnan(result) else "INFINITY" if result > 0 else "-INFINITY"
    return f"({c_exact(result)})"


def byte_rows(data: bytes) -> list[str]:
    """Elements of a C array with the bytes of ``data``, 16 in a row."""
    rows = (data[at : at + 16] for at in range(0, len(data), 16))
    return [", ".join(f"0x{byte:02x}" for byte in row) for row in rows]


def c_comment(text: str, *, max_length: int = 100) -> str:
    """Make ``text`` safe for a C comment: printable, one line, bounded, never ending the comment."""
    clean = "".join(c if c.isprintable() and c not in "\\?" else "_" for c in text)
    clean = clean.replace("*/", "*_").replace("/*", "/_")
    return clean if len(clean) <= max_length else clean[: max_length - 3] + "..."


_C99 = """
auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
"""
_C11_AND_GNU = """
_Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert _Thread_local asm typeof
"""
_CXX = """
alignas alignof and and_eq atomic bitand bitor bool catch class compl constexpr delete explicit export false
friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public template
this throw true try typename using virtual wchar_t xor xor_eq
"""

KEYWORDS = frozenset(_C99.split())
"""Keywords of C99, those that begin with an underscore apart."""

C_RESERVED = KEYWORDS | frozenset(_C11_AND_GNU.split())
"""Words of C that no function of an archive can be called."""

RESERVED = C_RESERVED | frozenset(_CXX.split()) | {"main"}
"""Names that nothing in a generated file has: words of C and C++, and ``main``."""

SCALAR_TYPES = frozenset(
    [f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    + ["float", "double", "char", "short", "int", "long", "signed", "unsigned", "_Bool", "bool"]
    + ["size_t", "uintptr_t", "intptr_t", "half", "__fp16", "_Float16", "const", "volatile"]
)
"""Words of which the type of a plain number is made."""

ALLOCATE = "TVMBackendAllocWorkspace"
"""TVM's function that gives a kernel workspace."""

FREE = "TVMBackendFreeWorkspace"
"""TVM's function that takes it back."""

_NOTING = """
TVMAPISetLastError TVMFFIErrorSetRaisedFromCStr TVMFFIErrorSetRaisedFromCStrParts
TVMBackendRegisterSystemLibSymbol TVMFFIEnvModRegisterSystemLibSymbol
"""

REPORTS = frozenset(_NOTING.split())
"""TVM's functions that take note of an error or a name, and call nothing."""
