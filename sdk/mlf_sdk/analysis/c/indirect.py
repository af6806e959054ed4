# SPDX-License-Identifier: Apache-2.0
"""Whether a call in a function of C may go anywhere: through a pointer, or through the runtime."""

from __future__ import annotations

from mlf_sdk.analysis.c.tokens import IDENTIFIER, match_brackets
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.tools.cwords import ALLOCATE, FREE, KEYWORDS, SCALAR_TYPES

_HARMLESS = frozenset({ALLOCATE, FREE, "TVMAPISetLastError"})


def foreign_runtime_call(called: frozenset[str]) -> str:
    """A function of the runtime that may call anything, or the empty string."""
    return min((name for name in called if name.startswith("TVM") and name not in _HARMLESS), default="")


def indirect_call(function: FunctionDefinition) -> str:
    """Why a call in the function may go anywhere; empty when none does."""
    if foreign := foreign_runtime_call(function.called):
        return f"{foreign} may call any function"
    texts, kinds = function.tokens.texts, function.tokens.kinds
    partner = match_brackets(function.tokens)
    if partner is None:
        return "brackets do not nest"
    variables = {parameter.name for parameter in function.parameters}
    for index, following in enumerate([*texts[1:], ""]):
        if kinds[index] == IDENTIFIER and following != "(":
            variables.add(texts[index])
    for index in range(len(texts) - 1):
        if texts[index + 1] != "(":
            continue
        if kinds[index] == IDENTIFIER:
            if texts[index] in variables - KEYWORDS or texts[index - 1 : index] in (["."], ["->"]):
                return f"{texts[index]} is called through a pointer"
        elif texts[index] == "]" or (
            texts[index] == ")" and not _is_cast_or_head(texts, partner[index], index)
        ):
            return "a function is called through a pointer"
    return ""


def _is_cast_or_head(texts: list[str], start: int, close: int) -> bool:
    """Whether the parentheses [start, close] hold a type, or the condition of a statement."""
    if start > 0 and texts[start - 1] in ("if", "for", "while", "switch"):
        return True
    words = texts[start + 1 : close]
    names = [word for word in words if word != "*"]
    if len(names) == 1 and words[0] == names[0] and len(words) > 1:
        return True
    return bool(names) and all(word in SCALAR_TYPES or word in KEYWORDS for word in names)
