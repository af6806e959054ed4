# SPDX-License-Identifier: Apache-2.0
"""Names say what they hold: words that say nothing, or that have a term of the field, name nothing in the package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "sdk" / "mlf_sdk"
MODULES = sorted(PACKAGE.rglob("*.py"))
INSTEAD = {
    "found": "what it holds, or result",
    "told": "stated, reported",
    "behind": "after, following, downstream",
    "whatever": "Any, or a type",
    "haste": "speed",
    "crown": "best",
    "namesake": "same name",
    "namesakes": "same names",
    "strikes": "failures",
}


def named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each variable, parameter, function and class that code gives a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname


def attributes(tree: ast.AST) -> set[tuple[int, str]]:
    """Line and name of each field of a class: others read them, in files as well."""
    return {
        (one.lineno, one.target.id)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }


def unclear(source: str) -> list[str]:
    tree = ast.parse(source)
    kept = attributes(tree)
    return [
        f"line {line}: {name}: {INSTEAD[word]}"
        for line, name in sorted({*named(tree)} - kept)
        for word in name.lower().split("_")
        if word in INSTEAD
    ]


def test_names_say_what_they_hold() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): unclear(path.read_text()) for path in MODULES}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "for found in x: pass",
        "def f(found): pass",
        "def load_behind_load(): pass",
        "class Whatever: pass",
        "with x as told: pass",
        "(found := 1)",
        "import x as found",
    ],
)
def test_the_check_finds_each_kind_of_name(source: str) -> None:
    assert len(unclear(source)) == 1


def test_fields_and_strings_are_left_alone() -> None:
    assert not unclear("class A:\n    found: int = 0\nx = 'found'  # found\ny = z.found")
