# SPDX-License-Identifier: Apache-2.0
"""Mutations of modules that make kernels: attributes that are left out, and operators of the C text in strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

FOLDER: Final = "compiler/kernels/"
"""Modules below it have these mutations."""

# An attribute of an operator, and what it is where a model doesn't state it.
_NEUTRAL: Final = {
    "log": "False", "total": "False", "smallest": "False", "exclusive": "False", "reverse": "False",
    "align_corners": "False", "half_pixel_centres": "False", "time_major": "False", "centred": "True",
    "dilation": "(1, 1)", "stride": "(1, 1)", "before": "(0, 0)", "clamp": "(-(2**30), 2**30)", "multiplier": "1",
    "beta": "1.0", "alpha": "0.0", "epsilon": "0.0", "zero_point": "0", "cell_clip": "0.0",
}  # fmt: skip
_ATTRIBUTE: Final = re.compile(rf"(?<![\w.])(?:self\.)?(?:\w+)\.({'|'.join(_NEUTRAL)})(?![\w(])")
# An operator of C between blanks, and what stands in for it.
_OPERATORS: Final = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
    "+": "-", "-": "+", "*": "+", "/": "*", "+=": "-=", "-=": "+=", "*=": "+=", "/=": "*=", "<<": ">>", ">>": "<<",
}  # fmt: skip
_OPERATOR: Final = re.compile(rf"(?<= )({'|'.join(map(re.escape, sorted(_OPERATORS, key=len)[::-1]))})(?= )")


@dataclass(frozen=True)
class Replacement:
    """A change of a text: the characters from ``start`` to ``end`` become ``text``, in a line (from 1 on)."""

    line: int
    start: int
    end: int
    text: str

    def applied(self, source: str) -> str:
        """The changed text."""
        return source[: self.start] + self.text + source[self.end :]


def replacements(source: str) -> dict[str, list[Replacement]]:
    """All of them, by the name of their kind."""
    lines = [0]
    for text in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(text))
    strings = [*_strings(source, lines)]
    found: dict[str, list[Replacement]] = {"kernel/attribute": [], "kernel/c": []}
    for match in _ATTRIBUTE.finditer(source):
        start, end = match.span()
        if not re.match(r"\s*=(?!=)", source[end:]):  # it is no target of an assignment
            line = source.count("\n", 0, start) + 1
            found["kernel/attribute"].append(Replacement(line, start, end, _NEUTRAL[match[1]]))
    for start, end in strings:
        for first, last in _outside_of_braces(source, start, end):
            for match in _OPERATOR.finditer(source, first, last):
                line = source.count("\n", 0, match.start()) + 1
                found["kernel/c"].append(Replacement(line, *match.span(), _OPERATORS[match[0]]))
    return found


def _strings(source: str, lines: list[int]) -> Iterator[tuple[int, int]]:
    """Where the strings that are no docstrings lie, without strings inside of them."""
    tree = ast.parse(source)
    documents = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else ():
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                documents.add(one.value)
    last = 0
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.JoinedStr | ast.Constant)]
    for node in sorted(nodes, key=lambda n: (n.lineno, n.col_offset, isinstance(n, ast.Constant))):
        text = isinstance(node, ast.JoinedStr) or isinstance(node.value, str)
        start = lines[node.lineno - 1] + node.col_offset  # sources are ASCII: bytes are characters
        end = lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        if text and node not in documents and start >= last:
            yield start, end
            last = end


def _outside_of_braces(source: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Parts of a string that are no expressions of an f-string."""
    first, depth, at = start, 0, start
    while at < end:
        pair = source[at : at + 2]
        if depth == 0 and pair in ("{{", "}}"):
            at += 2
            continue
        if source[at] == "{":
            if depth == 0:
                yield first, at
            depth += 1
        elif source[at] == "}":
            depth -= 1
            first = at + 1
        at += 1
    yield first, end
