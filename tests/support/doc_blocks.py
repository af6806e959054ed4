# SPDX-License-Identifier: Apache-2.0
"""Fenced blocks of a Markdown page, and what a test is to do with each.

A block is preceded by an HTML comment where it needs one:

    <!-- doc-test: needs=qemu -->              skip the block, and what follows on the page, without QEMU
    <!-- doc-test: zephyr=nucleo_f411re -->       a tree that has this board's name alone stands in where there is none
    <!-- doc-test: only=zephyr,dtc,hal_stm32 -->   a test of its own, after the page's copies and its blocks with zephyr=
    <!-- doc-test: exit=1 -->                  the last command of the block ends with this code
    <!-- doc-test: file=src/main.c -->         the block is the content of this file
    <!-- doc-test: copy=examples/digits/a.tar:digits.tar -->   no block: put a file of the repository here
    <!-- doc-test: copy=examples/digits/test.npz[:30]:test.npz -->      of its cases the first 30, where more show no more
    <!-- doc-test: skip=why -->                shown only: a board, an account, somebody else's tool
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w+-]*)\s*$")
_DIRECTIVE = re.compile(r"^ *<!-- doc-test: (?P<what>.*?) -->\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block, or a directive that stands alone (language and text empty)."""

    line: int
    language: str
    text: str
    directives: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command after ``$`` (lines ending in a backslash joined) and the output that the page shows."""

    line: int
    text: str
    expected: tuple[str, ...]


def blocks(page: str) -> list[Block]:
    """All fenced blocks and directives of a page, in order."""
    found: list[Block] = []
    directives: dict[str, str] = {}
    lines = iter(enumerate(page.splitlines(), start=1))
    for number, line in lines:
        if directive := _DIRECTIVE.match(line):
            key, _, value = directive["what"].partition("=")
            if key == "copy":
                found.append(Block(line=number, language="", text="", directives={key: value}))
            else:
                directives[key] = value
        elif fence := _FENCE.match(line):
            indent = len(fence["indent"])
            content = []
            for _, inner in lines:
                if inner.strip() == "```":
                    break
                content.append(inner[indent:])
            text = "\n".join(content) + "\n"
            found.append(Block(line=number, language=fence["language"], text=text, directives=directives))
            directives = {}
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a console block."""
    found: list[Command] = []
    text, expected, start = "", [], block.line
    joined = False
    for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
        if joined:
            text += "\n" + line.removeprefix("> ")
        elif line.startswith("$ "):
            if text:
                found.append(Command(line=start, text=text, expected=tuple(expected)))
            text, expected, start = line[2:], [], number
        else:
            expected.append(line)
            continue
        joined = line.endswith("\\")
    if text:
        found.append(Command(line=start, text=text, expected=tuple(expected)))
    return found


def missing_line(expected: tuple[str, ...], output: str) -> str | None:
    """The first expected line that the output does not have in this order; None when all are there.

    ``...`` stands for anything in a line, and alone for any lines; runs of spaces are alike.
    """
    rest = iter(output.splitlines())
    for line in expected:
        if line.strip() in ("", "..."):
            continue
        parts = [re.escape(" ".join(p.split(" "))) for p in re.split(r"\.\.\.|…", line.strip())]
        pattern = re.compile(re.sub(r"(\\ )+", r"\\s+", ".*".join(parts)))
        if not any(pattern.fullmatch(candidate.strip()) for candidate in rest):
            return line
    return None
