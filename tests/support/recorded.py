# SPDX-License-Identifier: Apache-2.0
"""Recorded microkernels run as plain C and in numpy on the same memory."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from ccode import WARNINGS, call, sanitizing
from interpret import interpret
from mlf_sdk.compiler.microkernels.builder import Builder
from mlf_sdk.compiler.microkernels.instruction_set import instruction_set
from mlf_sdk.compiler.microkernels.plain import plain

_CHECKS = ("-fsanitize=undefined", "-fno-sanitize-recover=all")


def run_c(b: Builder, meanings: dict[str, str], at: Path, *arguments: np.ndarray | int) -> None:
    body, functions = plain(b, meanings)
    head = ", ".join(f"{p.kind.c_type}{p.name}" for p in b.parameters)
    """Run the plain C, with all warnings and checks for undefined behaviour."""
    result = b.returned.c_type if b.returned else "void "
    prototype = f"{result}run({head})"
    text = f"#include <stdint.h>\n#include <string.h>\n{''.join(functions.values())}{prototype};\n{prototype}\n{{\n{body}}}\n"
    (at / "plain.c").write_text(text)
    call(sanitizing("gcc", *_CHECKS), *WARNINGS, *_CHECKS, "-shared", "-fPIC", at / "plain.c", "-o", at / "plain.so")  # fmt: skip
    values = [
        a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else ctypes.c_uint32(a)
        for a in arguments
    ]
    ctypes.CDLL(str(at / "plain.so")).run(*values)


def outcome(
    b: Builder, at: Path, *arguments: np.ndarray | int | tuple[str, int], target: str = "dsp"
) -> dict[str, np.ndarray]:
    """Contents of each array after the microkernel, by parameter: plain C and numpy agree on them.

    Args:
        arguments: one a parameter: elements behind a pointer, a number, or the array of another parameter and
            a place in it.
    """
    given = {p.name: a for p, a in zip(b.parameters, arguments, strict=True)}
    arrays = {name: a.copy() for name, a in given.items() if isinstance(a, np.ndarray)}
    numbers = {name: a for name, a in given.items() if isinstance(a, int)}
    places = {name: a for name, a in given.items() if isinstance(a, tuple)}
    meanings = instruction_set(target).meanings
    parts = {name: arrays[array][place:] for name, (array, place) in places.items()}
    in_c = {**arrays, **numbers, **parts}
    run_c(b, meanings, at, *(in_c[name] for name in given))
    memory = {name: given[name][None].astype(np.int64) for name in arrays}
    interpret(b, meanings, {**memory, **{name: (memory[a], k) for name, (a, k) in places.items()}}, **numbers)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, memory[name][0], err_msg=name)
    return {name: elements[0] for name, elements in memory.items()}
