# SPDX-License-Identifier: Apache-2.0
"""Reserved words of C and C++."""

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
"""What nothing in a generated file is called: words of C and C++, and ``main``."""

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
