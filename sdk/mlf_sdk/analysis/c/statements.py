# SPDX-License-Identifier: Apache-2.0
"""Statements of the parser's tree as typed ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from mlf_sdk.analysis.c.expressions import build_expression, source_of, unknown
from mlf_sdk.analysis.c.syntax import (
    Block,
    Declaration,
    Evaluate,
    Expr,
    If,
    Jump,
    Loop,
    Return,
    Statement,
    Switch,
    Unknown,
    Variable,
)
from mlf_sdk.analysis.c.text import type_text

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_NESTING: Final = 60
"""Statements in statements; what is deeper is unknown."""


_PLAIN_DECLARATORS: Final = {"init_declarator": "value", "array_declarator": "size", "pointer_declarator": ""}


def build_block(syntax: Node, depth: int = 0) -> Block:
    """Build the statements between the braces of a ``compound_statement``."""
    return Block(syntax.start_byte, tuple(build_statement(child, depth) for child in syntax.named_children))


def build_statement(syntax: Node, depth: int) -> Statement:
    """Build one statement; `Unknown` when it is not understood."""
    builder = _BUILDERS.get(syntax.type)
    if builder is None or syntax.has_error or depth > MAX_NESTING:
        return Unknown(syntax.start_byte, values=(unknown(syntax),))
    return builder(syntax, depth + 1)


def _field(syntax: Node, name: str) -> Expr | None:
    result = syntax.child_by_field_name(name)
    return None if result is None else build_expression(result)


def _body(syntax: Node, depth: int, name: str = "body") -> Statement:
    result = syntax.child_by_field_name(name)
    return Block(syntax.end_byte) if result is None else build_statement(result, depth)


def _given(*values: Expr | None) -> tuple[Expr, ...]:
    return tuple(value for value in values if value is not None)


def _values(syntax: Node) -> tuple[Expr, ...]:
    return tuple(build_expression(child) for child in syntax.named_children)


def _evaluate(syntax: Node, _depth: int) -> Statement:
    values = _values(syntax)
    return Evaluate(syntax.start_byte, values=values) if values else Block(syntax.start_byte)


def _return(syntax: Node, _depth: int) -> Statement:
    return Return(syntax.start_byte, values=_values(syntax))


def _jump(syntax: Node, _depth: int) -> Statement:
    return Jump(syntax.start_byte)


def _if(syntax: Node, depth: int) -> Statement:
    parts = [_body(syntax, depth, "consequence")]
    alternative = syntax.child_by_field_name("alternative")
    if alternative is not None:
        parts.append(build_statement(alternative.named_children[0], depth))
    return If(syntax.start_byte, tuple(parts), _given(_field(syntax, "condition")))


def _switch(syntax: Node, depth: int) -> Statement:
    return Switch(syntax.start_byte, (_body(syntax, depth),), _given(_field(syntax, "condition")))


def _case(syntax: Node, depth: int) -> Statement:
    """Build a label of a switch and the statements up to the next one, as a block."""
    label = syntax.child_by_field_name("value")
    statements = [child for child in syntax.named_children if child != label]
    parts = tuple(build_statement(child, depth) for child in statements)
    return Block(syntax.start_byte, parts, _given(_field(syntax, "value")))


def _labelled(syntax: Node, depth: int) -> Statement:
    return Block(syntax.start_byte, (build_statement(syntax.named_children[-1], depth),))


def _while(syntax: Node, depth: int) -> Statement:
    word = "do" if syntax.type == "do_statement" else "while"
    return Loop(syntax.start_byte, (_body(syntax, depth),), _given(_field(syntax, "condition")), word)


def _for(syntax: Node, depth: int) -> Statement:
    initializer = syntax.child_by_field_name("initializer")
    first: Statement | None = None
    if initializer is not None and initializer.type == "declaration":
        first = build_statement(initializer, depth)
    elif initializer is not None:
        first = Evaluate(initializer.start_byte, values=(build_expression(initializer),))
    condition, step = _field(syntax, "condition"), _field(syntax, "update")
    body = _body(syntax, depth)
    parts = (body,) if first is None else (first, body)
    values = _given(condition, step)
    return Loop(syntax.start_byte, parts, values, "for", first, condition, step)


def _declaration(syntax: Node, _depth: int) -> Statement:
    """Build a declaration of plain variables, pointers and arrays."""
    declarators = syntax.children_by_field_name("declarator")
    if not declarators or any(child.type == "attribute_specifier" for child in syntax.children):
        return Unknown(syntax.start_byte, values=(unknown(syntax),))
    head = source_of(syntax)[: declarators[0].start_byte - syntax.start_byte]
    variables: list[Variable] = []
    values: list[Expr] = []
    for declarator in declarators:
        variable = _variable(declarator, head, values)
        if variable is None:
            return Unknown(syntax.start_byte, values=(unknown(syntax),))
        variables.append(variable)
    return Declaration(syntax.start_byte, (), tuple(values), tuple(variables))


def _variable(declarator: Node, head: str, values: list[Expr]) -> Variable | None:
    """Build one variable, and append its array lengths and initial value; None when it is not plain."""
    stars, brackets, value = "", "", None
    while declarator.type != "identifier":
        operand = _PLAIN_DECLARATORS.get(declarator.type)
        inner = declarator.child_by_field_name("declarator")
        if operand is None or inner is None:
            return None
        result = declarator.child_by_field_name(operand)
        if declarator.named_child_count != (1 if result is None else 2):
            return None  # a qualifier or an attribute
        if result is not None:
            values.append(build_expression(result))
        if declarator.type == "init_declarator":
            value = values[-1]
        elif declarator.type == "array_declarator":
            brackets += "[]"
        else:
            stars += "*"
        declarator = inner
    return Variable(source_of(declarator), type_text(f"{head} {stars}{brackets}"), value)


_BUILDERS: Final[Mapping[str, Callable[[Node, int], Statement]]] = {
    "compound_statement": build_block,
    "expression_statement": _evaluate,
    "declaration": _declaration,
    "return_statement": _return,
    "break_statement": _jump,
    "continue_statement": _jump,
    "goto_statement": _jump,
    "if_statement": _if,
    "switch_statement": _switch,
    "case_statement": _case,
    "labeled_statement": _labelled,
    "while_statement": _while,
    "do_statement": _while,
    "for_statement": _for,
}
