# SPDX-License-Identifier: Apache-2.0
"""Definitions that keep the text of kernels within C99: extensions are used where a compiler has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mlf_sdk.compiler.microkernels.assembly import UNWIND


def _attribute(name: str, attribute: str) -> str:
    return f"""#if defined(__GNUC__)
#define {name} __attribute__(({attribute}))
#else
#define {name}
#endif
"""


_DEFINITIONS: Final = {
    "MLF_UNWIND": UNWIND,
    "MLF_INLINE": """#if defined(__GNUC__)
#define MLF_INLINE inline __attribute__((unused)) /* by what is compiled for another core */
#else
#define MLF_INLINE inline
#endif
""",
    "MLF_NOINLINE": _attribute("MLF_NOINLINE", "noinline"),
    "MLF_LAYER": """#if defined(__GNUC__) && !defined(__clang__)
#define MLF_LAYER __attribute__((noinline, no_icf)) /* its own function, for profiles and crash reports */
#elif defined(__GNUC__)
#define MLF_LAYER __attribute__((noinline))
#else
#define MLF_LAYER
#endif
""",
    "MLF_ALWAYS_INLINE": _attribute("MLF_ALWAYS_INLINE", "always_inline"),
    "MLF_MAY_ALIAS": _attribute("MLF_MAY_ALIAS", "may_alias"),
    "leading_zeros": """static MLF_INLINE int32_t leading_zeros(uint32_t v)
{
#if defined(__GNUC__)
    return __builtin_clz(v);
#else
    int32_t zeros = 0;
    for (uint32_t bit = (uint32_t)1 << 31; bit > v; bit >>= 1) {
        ++zeros;
    }
    return zeros;
#endif
}
""",
}
_WORD: Final = re.compile(r"\b(?:" + "|".join(_DEFINITIONS) + r")\b")


def definitions(texts: Iterable[str]) -> list[str]:
    """Definitions that texts of kernels need before them."""
    used = {word for text in texts for word in _WORD.findall(text)}
    used |= {word for name in used for word in _WORD.findall(_DEFINITIONS[name])}
    return [text for name, text in _DEFINITIONS.items() if name in used]


def without_assembly(text: str) -> str:
    """A text without the branches of its conditions that hold assembly: what is left is C."""
    return "".join(_kept(text.splitlines(keepends=True)))


def _kept(lines: list[str]) -> Iterator[str]:
    """Lines outside of conditions, and each condition without its branches in assembly."""
    depth, start = 0, 0
    for number, line in enumerate(lines):
        if line.startswith("#if"):
            start = number if depth == 0 else start
            depth += 1
        elif line.startswith("#endif"):
            depth -= 1
            if depth == 0:
                yield from _condition(lines[start : number + 1])
        elif depth == 0:
            yield line


def _condition(lines: list[str]) -> Iterator[str]:
    """A condition, from its #if to its #endif."""
    depth = 0
    branches: list[list[str]] = []
    for line in lines[:-1]:
        if line.startswith(("#if", "#elif", "#else")) and depth <= (not line.startswith("#if")):
            branches.append([line])
        else:
            branches[-1].append(line)
        depth += line.startswith("#if") - line.startswith("#endif")
    inner = [(head, list(_kept(body))) for head, *body in branches]
    clean = [(head, body) for head, body in inner if not any("__asm" in line for line in body)]
    if clean and len(clean) < len(branches) and clean[0][0].startswith("#else"):
        yield from clean[0][1]
        return
    for position, (head, body) in enumerate(clean):
        yield head.replace("#elif", "#if", 1) if position == 0 else head
        yield from body
    yield from lines[-1:] if clean else ()
