# SPDX-License-Identifier: Apache-2.0
"""A whole microkernel for an instruction set that no core has, and the machine that runs its assembly.

The instruction set stands in ``toy_instruction_set.toml``; its assembly is text that `run` interprets.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mlf_sdk.compiler.microkernels.builder import EVEN_WORD, OUTPUT_BYTES, WORD, WORDS, Builder
from mlf_sdk.compiler.microkernels.instruction_set import InstructionSet, read_instruction_set


def toy() -> InstructionSet:
    """The instruction set."""
    return read_instruction_set(Path(__file__).with_name("toy_instruction_set.toml"))


def record(pixels: int, words: int) -> Builder:
    """``n`` channels of ``pixels`` sums of products, byte 0 and byte 2 of each word, limited from below."""
    b = Builder(x=WORDS, w=WORDS, y=OUTPUT_BYTES, n=WORD)
    x, w, y, n = b.parameters
    end = b.place(y, n)
    with b.loop(y, end):
        sums = b.sums(b.load(w, 1)[0], pixels)
        for number in b.repeat(words):
            b.note(f"word {number}")
            weights = b.load(w, 1)[0]
            for total in sums:
                b.do("multiply_bytes", b.load(x, 1)[0], weights, total, into=total)
        b.each("at_least", sums, i=-5, into=sums)
        for pixel, total in enumerate(sums):
            b.store_byte(y, total, 4 * pixel)
        b.advance(y, 1)
        b.advance(x, -4 * words * pixels)
    return b


def record_lanes() -> Builder:
    """Low bytes of ``n`` sums of the lanes of two vectors and a start; the start alone where ``some`` is 0."""
    b = Builder(x=WORDS, w=WORDS, y=OUTPUT_BYTES, n=WORD, some=WORD, start=WORD)
    x, w, y, n, some, start = b.parameters
    with b.counted(n):
        total = b.do("copy", start, kind=EVEN_WORD)
        with b.unless_zero(some):
            vectors = [b.vector("load_lanes", pointer, i=16, moves=True) for pointer in (x, w)]
            b.do("add_lanes", *vectors, total, into=total)
        b.store_byte(y, total, 0)
        b.advance(y, 1)
    return b


def run(lines: list[str], arguments: tuple[int, ...], memory: bytearray) -> int:
    """Run assembly on a memory whose last quarter is the stack; instructions that were executed."""
    registers: dict[str, Any] = dict(zip("ABCDEF", (*arguments[:4], 0, 0, 0, 0, 0, 0), strict=False))
    registers["SP"] = len(memory) - 4 * len(arguments[4:])

    def word(at: int) -> int:
        return int.from_bytes(memory[at : at + 4], "little", signed=True)

    def put(at: int, value: int) -> None:
        memory[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "little")

    def byte(value: int, shift: int) -> int:
        return ((value >> shift & 255) ^ 128) - 128

    functions = {"word": word, "put": put, "max": max, "len": len}
    functions["set"] = lambda at, value: memory.__setitem__(at, value & 255)
    functions["byte0"], functions["byte2"] = (lambda v: byte(v, 0)), (lambda v: byte(v, 16))
    functions["lanes"], functions["sum"] = (lambda at: [word(at + 4 * k) for k in range(4)]), sum
    for k, value in enumerate(arguments[4:]):
        put(registers["SP"] + 4 * k, value)
    at = count = 0
    while lines[at] != "return":
        line, count = lines[at], count + 1
        at += 1
        if jump := re.fullmatch(r"if (.*): goto (\d+)", line):
            if eval(jump[1], registers):
                at = lines.index(f"{jump[2]}:")
        elif many := re.fullmatch(r"\{(.*)\} = words\((\w+)\)", line):
            base = registers[many[2]]
            registers |= {name: word(base + 4 * k) for k, name in enumerate(many[1].split(", "))}
        elif not line.endswith(":"):
            exec(re.sub(r"len\(\{(.*?)\}\)", r"len('\1'.split(','))", line), functions, registers)
    return count
