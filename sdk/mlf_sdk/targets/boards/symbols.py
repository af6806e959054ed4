# SPDX-License-Identifier: Apache-2.0
"""Functions that every image has for the objects of a model: of runtime, compiler and C library."""

from __future__ import annotations

import re
from typing import Final

_COMPILER: Final = re.compile(
    r"__aeabi_\w+|__(?:add|sub|mul|div|neg|cmp|eq|ne|lt|le|gt|ge|unord)[sdt]f[23]|"
    r"__(?:fix|fixuns|float|floatun|extend|trunc)\w{4,6}|"
    r"__(?:u?div|u?mod|u?divmod|mul|ashl|ashr|lshr|neg|clz|ctz|popcount|bswap|cmp|ucmp|ffs)[sdt]i[234]|"
    r"__gnu_(?:h2f|f2h)_ieee|__stack_chk_\w+|_GLOBAL_OFFSET_TABLE_"
)
_RUNTIME: Final = re.compile(r"TVM\w+|mlf_\w+|tvm_runtime_\w+")
_STRING: Final = frozenset(
    {
        "memcpy",
        "memset",
        "memmove",
        "memcmp",
        "memchr",
        "strlen",
        "strcmp",
        "strncmp",
        "strcpy",
        "strncpy",
        "abs",
    }
)
_MATH: Final = re.compile(
    r"(?:"
    r"acos|acosh|asin|asinh|atan|atan2|atanh|cbrt|ceil|copysign|cos|cosh|erf|erfc|exp|exp2|"
    r"expm1|fabs|fdim|floor|fma|fmax|fmin|fmod|frexp|hypot|ilogb|ldexp|lgamma|llrint|llround|"
    r"log|log10|log1p|log2|logb|lrint|lround|modf|nearbyint|nextafter|pow|remainder|rint|round|"
    r"scalbn|sin|sinh|sqrt|tan|tanh|tgamma|trunc"
    r")f?"
)
"""Of each there is one for double and, with an ``f`` behind it, one for float."""


def is_provided(name: str) -> bool:
    """Return whether an image has the function ``name`` without the model's own code."""
    return name in _STRING or any(p.fullmatch(name) for p in (_MATH, _COMPILER, _RUNTIME))
