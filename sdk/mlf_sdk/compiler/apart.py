# SPDX-License-Identifier: Apache-2.0
"""Functions in assembly, moved from the C text of kernels to a source of assembly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_HEAD: Final = """/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of the kernels of {name}, made by mlf-sdk compile for this model alone. */
#if defined(__arm__)
    .syntax unified
    .cfi_sections .debug_frame
#endif
"""
_TAIL: Final = """
#if defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
"""
_UNUSED: Final = " __attribute__((unused))"
_FUNCTION: Final = re.compile(
    r"""^\#(?:el)?if\ (?P<condition>.*)\n
    __attribute__\(\(naked,\ noinline\)\)\ static\ (?P<result>[\w ]+?\ \*?)(?P<name>\w+)
    \((?P<parameters>.*)\)\n
    \{\n[ ]+__asm__\ volatile\(\n(?P<lines>(?:[ ]+(?:"|/\*|MLF_UNWIND).*\n)+)[ ]*\);\n\}\n""",
    re.MULTILINE | re.VERBOSE,
)
_LINE: Final = re.compile(r'"(?P<instruction>.*)\\n"|MLF_UNWIND\("(?P<rule>.*)"\)|/\* (?P<note>.*) \*/')
_LABEL: Final = re.compile(r"\d+:")


def apart(
    name: str, parts: Sequence[str], notes: Mapping[str, Sequence[str]]
) -> tuple[list[str], str, tuple[str, ...]]:
    """C texts that declare their functions in assembly, the source that defines these, and its symbols.

    A function gets external linkage, and the model's name in front of its own. Plain C for other compilers
    stays beside its declaration.

    Args:
        name: of the model, a C identifier.
        parts: texts of functions.
        notes: lines about the layers of each function in assembly, for the comment before it.

    Returns:
        The texts, the source (empty: there is no assembly) and the symbols that it defines.
    """
    moved = {
        result["name"]: f"{name}_{result['name']}" for part in parts for result in _FUNCTION.finditer(part)
    }
    if not moved:
        return list(parts), "", ()
    word = re.compile(r"\b(?:" + "|".join(map(re.escape, moved)) + r")\b")
    texts = [word.sub(lambda m: moved[m[0]], _FUNCTION.sub(_declaration, part)) for part in parts]
    functions = [
        _definition(result, moved[result["name"]], notes.get(result["name"], ()))
        for part in parts
        for result in _FUNCTION.finditer(part)
    ]
    return texts, "\n".join([_HEAD.format(name=name), *functions]) + _TAIL, tuple(moved.values())


def _declaration(result: re.Match[str]) -> str:
    """A function's prototype in place of its definition, under the same condition."""
    branch = "#elif" if result[0].startswith("#el") else "#if"
    parameters = result["parameters"].replace(_UNUSED, "")
    return (
        f"{branch} {result['condition']}\n{result['result']}{result['name']}({parameters}); // in assembly\n"
    )


def _definition(result: re.Match[str], symbol: str, notes: Iterable[str]) -> str:
    """A function in assembly, in a section of its own, with rules for debuggers."""
    parameters = result["parameters"].replace(_UNUSED, "")
    about = [f"{result['result']}{symbol}({parameters})", *notes]
    is_riscv = "__riscv" in result["condition"]
    lines = [f"#if {result['condition']}", "/* " + "\n * ".join(about) + " */"]
    lines += [
        f'    .section .text.{symbol}, "ax", %progbits',
        *(["    .p2align 1"] if is_riscv else ["    .p2align 2", "    .thumb", "    .thumb_func"]),
    ]
    lines += [f"    .global {symbol}", f"    .type {symbol}, %function", f"{symbol}:", "    .cfi_startproc"]
    lines += [_spelled(line.strip()) for line in result["lines"].splitlines()]
    return "\n".join([*lines, "    .cfi_endproc", f"    .size {symbol}, . - {symbol}", "#endif", ""])


def _spelled(line: str) -> str:
    """A line of the function's C strings as one of a source of assembly."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"no line of assembly: {line}")
    if match["note"] is not None:
        return f"    /* {match['note']} */"
    if match["rule"] is not None:
        return f"    .cfi_{match['rule']}"
    text = match["instruction"]
    return text if _LABEL.fullmatch(text) else f"    {text}"
