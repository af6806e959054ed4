# SPDX-License-Identifier: Apache-2.0
"""Expressions of the parser's tree as typed ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from mlf_sdk.analysis.c.syntax import (
    ASSIGN,
    BINARY,
    CALL,
    CAST,
    CHOICE,
    CONSTANT,
    FIELD,
    INDEX,
    LIST,
    MAX_DEPTH,
    NAME,
    OTHER,
    UNARY,
    UNKNOWN,
    Expr,
    UnreadableError,
    node,
)
from mlf_sdk.analysis.c.text import type_text, words_and_calls
from mlf_sdk.tools.ctext import KEYWORDS

if TYPE_CHECKING:
    from tree_sitter import Node

_INTEGER: Final = re.compile(r"(-?)(0[xX][0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,18})([uUlL]{0,3})", re.ASCII)
_PLAIN_TYPE: Final = re.compile(r"[\w ]+\**")
_LITERALS: Final = frozenset(
    {"string_literal", "char_literal", "concatenated_string", "true", "false", "number_literal"}
)


def source_of(syntax: Node) -> str:
    """Return the text of a node."""
    return (syntax.text or b"").decode("ascii")


def build_expression(syntax: Node) -> Expr:
    """Build the expression of a node; UNKNOWN when it or a part of it is too deep or too long."""
    try:
        return _build(syntax, 0)
    except UnreadableError:
        return unknown(syntax)


def unknown(syntax: Node) -> Expr:
    """Build the expression of a node that is not understood: all names in it, each used as a whole."""
    code = source_of(syntax)
    words, called = words_and_calls(code)
    names = tuple(Expr(NAME, word) for word in sorted(words - KEYWORDS))
    reason = "braces" if "{" in code else "call" if called - KEYWORDS else syntax.type
    return Expr(UNKNOWN, reason, names, 0, 2, 1 + len(names))


def _build(syntax: Node, depth: int) -> Expr:
    if depth > MAX_DEPTH:
        raise UnreadableError("an expression is nested too deeply")
    if syntax.type in ("identifier", "null"):
        return Expr(NAME, source_of(syntax))
    if syntax.type in _LITERALS:
        return _literal(syntax)
    builder = _BUILDERS.get(syntax.type)
    return unknown(syntax) if builder is None or syntax.has_error else builder(syntax, depth + 1)


def _literal(syntax: Node) -> Expr:
    text = source_of(syntax)
    match = _INTEGER.fullmatch(text) if syntax.type == "number_literal" else None
    if match is None:
        return Expr(OTHER, text, value=-1)
    is_signed = "u" not in match[3].lower()
    number = Expr(CONSTANT if is_signed else OTHER, text, value=int(match[2], 0))
    return node(UNARY, "-", number) if match[1] else number


def _field(syntax: Node, name: str) -> Node:
    """Return the child that the grammar requires in this place."""
    result = syntax.child_by_field_name(name)
    if result is None:
        raise UnreadableError("an expression lacks an operand")
    return result


def _operator(syntax: Node) -> str:
    return source_of(_field(syntax, "operator"))


def _parenthesised(syntax: Node, depth: int) -> Expr:
    return _build(syntax.named_children[0], depth)


def _unary(syntax: Node, depth: int) -> Expr:
    return node(UNARY, _operator(syntax), _build(_field(syntax, "argument"), depth))


def _binary(syntax: Node, depth: int) -> Expr:
    left, sign = _field(syntax, "left"), _operator(syntax)
    if sign == "&" and _ends_like_a_cast(left):
        return unknown(syntax)
    return node(BINARY, sign, _build(left, depth), _build(_field(syntax, "right"), depth))


def _ends_like_a_cast(syntax: Node) -> bool:
    """Return whether a node ends in ``(x)``: then ``(x) & y`` may be the address of y in another type."""
    while syntax.type != "parenthesized_expression":
        if syntax.type == "call_expression" or not syntax.named_child_count:
            return False
        syntax = syntax.named_children[-1]
    return syntax.named_child_count == 1 and syntax.named_children[0].type == "identifier"


def _comma(syntax: Node, depth: int) -> Expr:
    parts = (_build(_field(syntax, "left"), depth), _build(_field(syntax, "right"), depth))
    return node(BINARY, ",", *parts)


def _choice(syntax: Node, depth: int) -> Expr:
    names = ("condition", "consequence", "alternative")
    return node(CHOICE, "?", *(_build(_field(syntax, name), depth) for name in names))


def _index(syntax: Node, depth: int) -> Expr:
    return node(INDEX, "", _build(_field(syntax, "argument"), depth), _build(_field(syntax, "index"), depth))


def _cast(syntax: Node, depth: int) -> Expr:
    text = type_text(source_of(_field(syntax, "type")))
    if _PLAIN_TYPE.fullmatch(text) is None:
        return unknown(syntax)
    return node(CAST, text, _build(_field(syntax, "value"), depth))


def _call(syntax: Node, depth: int) -> Expr:
    function = _field(syntax, "function")
    arguments = [_build(argument, depth) for argument in _field(syntax, "arguments").named_children]
    if function.type == "identifier":
        return node(CALL, source_of(function), *arguments)
    return node(CALL, "", _build(function, depth), *arguments)


def _member(syntax: Node, depth: int) -> Expr:
    arrow = "->" if _operator(syntax) == "->" else ""
    return node(FIELD, arrow + source_of(_field(syntax, "field")), _build(_field(syntax, "argument"), depth))


def _assignment(syntax: Node, depth: int) -> Expr:
    target, value = _field(syntax, "left"), _field(syntax, "right")
    return node(ASSIGN, _operator(syntax), _build(target, depth), _build(value, depth))


def _update(syntax: Node, depth: int) -> Expr:
    return node(ASSIGN, _operator(syntax), _build(_field(syntax, "argument"), depth))


def _sizeof(syntax: Node, depth: int) -> Expr:
    operand = syntax.child_by_field_name("value")
    return unknown(syntax) if operand is None else node(UNARY, "sizeof", _build(operand, depth))


def _list(syntax: Node, depth: int) -> Expr:
    return node(LIST, "", *(_build(part, depth) for part in syntax.named_children))


_BUILDERS: Final[Mapping[str, Callable[[Node, int], Expr]]] = {
    "parenthesized_expression": _parenthesised,
    "extension_expression": _parenthesised,
    "unary_expression": _unary,
    "pointer_expression": _unary,
    "binary_expression": _binary,
    "comma_expression": _comma,
    "conditional_expression": _choice,
    "subscript_expression": _index,
    "cast_expression": _cast,
    "call_expression": _call,
    "field_expression": _member,
    "assignment_expression": _assignment,
    "update_expression": _update,
    "sizeof_expression": _sizeof,
    "initializer_list": _list,
}
