# SPDX-License-Identifier: Apache-2.0
"""Calls in a function, and detection of those that may have any target."""

from __future__ import annotations

from collections.abc import Iterator

from mlf_sdk.analysis.c.syntax import BINARY, CALL, CHOICE, NAME, UNKNOWN, Declaration, Expr
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.tools.ctext import ALLOCATE, FREE, REPORTS

_HARMLESS = REPORTS | {ALLOCATE, FREE}


def foreign_runtime_call(called: frozenset[str]) -> str:
    """Return a function of the runtime that may call anything, or the empty string."""
    return min((name for name in called if name.startswith("TVM") and name not in _HARMLESS), default="")


def indirect_call(function: FunctionDefinition) -> str:
    """Return the reason why a call in the function may have any target; empty if none may."""
    if foreign := foreign_runtime_call(function.called):
        return f"{foreign} may call any function"
    variables = {parameter.name for parameter in function.parameters}
    called: set[str] = set()
    for statement in function.body.walk():
        if isinstance(statement, Declaration):
            variables.update(variable.name for variable in statement.variables)
        for value in statement.values:
            for expression in value.walk():
                if expression.kind == UNKNOWN and expression.text in ("call", "braces"):
                    return "a call is in code that is not understood"
                if expression.kind == NAME:
                    variables.add(expression.text)
                elif expression.kind == CALL and not expression.text:
                    return "a function is called through a pointer"
                elif expression.kind == CALL:
                    called.add(expression.text)
    through = min(called & variables, default="")
    return f"{through} is called through a pointer" if through else ""


def calls(expression: Expr, is_conditional: bool) -> Iterator[tuple[str, bool]]:
    """Yield the functions that an expression calls by name, in source order, and whether each may not be."""
    if expression.kind == CALL and expression.text:
        yield expression.text, is_conditional
    for position, operand in enumerate(expression.args):
        chosen = expression.kind == CHOICE or (expression.kind == BINARY and expression.text in ("&&", "||"))
        yield from calls(operand, is_conditional or (chosen and position > 0))
