# SPDX-License-Identifier: Apache-2.0
"""C source of a compiled model: one function for all operators that share their code.

The text is C99: extensions are used where a compiler has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from mlf_sdk.compiler.kernels.kernel import Kernel, Role
from mlf_sdk.compiler.microkernels.function import UNWIND
from mlf_sdk.compiler.options import Asm


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


_HEAD: Final = """// SPDX-License-Identifier: Apache-2.0
// Kernels of {name}, made by mlf-sdk compile for this model alone.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "{header}"

"""
_HEADER: Final = """// SPDX-License-Identifier: Apache-2.0
// Kernels of {name}: inputs x, constants p, states s, outputs y, workspace b.
#ifndef {macro}
#define {macro}

{includes}
#ifdef __cplusplus
extern "C" {{
#endif
{prototypes}
#ifdef __cplusplus
}}
#endif

#endif
"""
_INLINE: Final = re.compile(r"^(MLF_ALWAYS_INLINE )?static inline ", re.MULTILINE)
_HEADER_END: Final = "_kernels.h"


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """C texts of a model's kernels.

    Attributes:
        header: prototypes of all functions; the sources include it by ``header_name``.
        own: functions of this compiler, which build without a warning.
        foreign: functions of other generators; empty for none.
        symbols: the function of each kernel.
        assembly: source of the functions in assembly that stand apart; empty for none.
        assembly_symbols: those functions.
    """

    header: str
    header_name: str
    own: str
    foreign: str
    symbols: tuple[str, ...]
    assembly: str = ""
    assembly_symbols: tuple[str, ...] = ()


def emit(name: str, kernels: Sequence[Kernel], notes: Sequence[str] = (), *, asm: Asm = Asm.INLINE) -> Code:
    """Functions of kernels; those of equal code share one.

    Args:
        name: prefix of all functions, a C identifier.
        notes: a text about each kernel for the comment before its function: its layer. Empty: there is none.
        asm: form of what is in assembly.

    Raises:
        ValueError: two kernels have different helper functions of one name, a defect of the compiler.
    """
    symbols: dict[str, str] = {}
    counts: dict[str, int] = {}
    about: dict[str, list[str]] = {}
    different: dict[str, Kernel] = {}
    keys = [kernel.key for kernel in kernels]
    for key, kernel, note in zip(keys, kernels, notes or [""] * len(kernels), strict=True):
        if key not in symbols:
            number = counts[kernel.family] = counts.get(kernel.family, -1) + 1
            symbols[key] = f"{name}_{kernel.family}_{number}"
            different[key] = kernel
        about.setdefault(key, []).append(note)
    texts = {False: "", True: ""}
    assembly, moved = "", tuple[str, ...]()
    head = _HEAD.format(name=name, header=f"{name}{_HEADER_END}")
    for foreign in texts:
        mine = {key: kernel for key, kernel in different.items() if bool(kernel.origin) is foreign}
        functions = [_comment(about[key]) + _function(symbols[key], k) for key, k in mine.items()]
        if mine or not foreign:
            users = _users(mine, about)
            parts = [*_helpers(mine.values(), users), *functions]
            if asm is Asm.NO:
                parts = [without_assembly(part) for part in parts]
            elif asm is Asm.FILE and not foreign:
                from mlf_sdk.compiler.apart import apart  # few models are compiled so

                parts, assembly, moved = apart(name, parts, users)
            parts = [_INLINE.sub(r"\1static MLF_INLINE ", part) for part in parts]
            texts[foreign] = head + "\n".join([*definitions(parts), *parts])
    return Code(
        header=_header(name, [(symbols[key], kernel) for key, kernel in different.items()]),
        header_name=f"{name}{_HEADER_END}",
        own=texts[False],
        foreign=texts[True],
        symbols=tuple(symbols[key] for key in keys),
        assembly=assembly,
        assembly_symbols=moved,
    )


def _users(kernels: Mapping[str, Kernel], about: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Lines about the layers that each function is called for, without those about parameters of kernels."""
    result: dict[str, list[str]] = {}
    for key, kernel in kernels.items():
        lines = [line for note in dict.fromkeys(about[key]) for line in note.splitlines()[:2]]
        for helper in kernel.helpers:
            result.setdefault(helper, []).extend(lines)
    return result


def _helpers(kernels: Iterable[Kernel], users: Mapping[str, Sequence[str]]) -> list[str]:
    """Texts of the functions that kernels call, each once; those in assembly say for which layers."""
    result: dict[str, str] = {}
    for kernel in kernels:
        for helper, text in kernel.helpers.items():
            if result.setdefault(helper, text) != text:
                raise ValueError(f"{kernel.family}: another kernel has a different helper '{helper}'")
    return [
        (_comment(["Assembly for", *users[name]]) if users[name] and "__asm" in text else "") + text
        for name, text in result.items()
    ]


def _comment(notes: Sequence[str]) -> str:
    """Comment before a function: its layers."""
    lines = [line for note in notes for line in note.splitlines()]
    return "/* " + "\n * ".join(lines) + " */\n" if lines else ""


def _header(name: str, kernels: Sequence[tuple[str, Kernel]]) -> str:
    booleans = any(p.type == "bool" for _, kernel in kernels for p in kernel.parameters)
    return _HEADER.format(
        name=name,
        macro=f"{name}_kernels_h".upper(),
        includes="#include <stdbool.h>\n" * booleans + "#include <stdint.h>\n",
        prototypes="".join(
            f"void {symbol}({', '.join(p.declaration for p in kernel.parameters)});\n"
            for symbol, kernel in kernels
        ),
    )


def _function(symbol: str, kernel: Kernel) -> str:
    shared = (Role.INPUT, Role.OUTPUT) if kernel.overlaps else ()
    declarations = [
        p.declaration if p.role in shared else p.declaration.replace("*", "*restrict ")
        for p in kernel.parameters
    ]
    return f"void {symbol}({', '.join(declarations)})\n{{\n{kernel.body}}}\n"
