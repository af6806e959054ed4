# SPDX-License-Identifier: Apache-2.0
"""The C interface header of an ahead-of-time module (``codegen/host/include/tvmgen_<module>.h``).

It tells the order of the inputs and outputs and the parameters of the run function. Its ``_SIZE``
macros may be garbage (TVM 0.11 prints addresses): they are reported and nothing is sized by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final

from mlf_sdk.analysis.c.tokens import DIRECTIVE, IDENTIFIER, Tokens, splice_lines, tokenise
from mlf_sdk.errors import FaultCollector
from mlf_sdk.tools.checks import function_name_problem, shown

MAX_HEADER_CHARS: Final = 1 << 18
MAX_STRUCTS: Final = 64
ROLES: Final = ("inputs", "outputs", "workspace_pools", "devices")

_DEFINE: Final = re.compile(r"\s*#\s*define\s+([A-Za-z_]\w{0,1023}_SIZE)\s+(\S.{0,200})", re.ASCII)
_INTEGER: Final = re.compile(
    r"\(?\s*(-?)\s*(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})[uUlL]{0,3}\s*\)?\s*(?:/[/*].*)?$", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceHeader:
    """What a C interface header declares.

    Attributes:
        run_function: name of the entry, ``tvmgen_<module>_run``.
        run_parameters: what it takes, in order: ``inputs``, ``outputs``, ``workspace_pools``, ``devices``.
        inputs: fields of the struct of inputs (legalised tensor names), in order.
        outputs: fields of the struct of outputs, in order.
        workspace_pools: fields of the struct of memory pools; empty without one.
        devices: fields of the struct of devices; empty without one.
        macros: value of every ``..._SIZE`` macro that is a number.
    """

    run_function: str
    run_parameters: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    workspace_pools: tuple[str, ...]
    devices: tuple[str, ...]
    macros: Mapping[str, int]


def parse_interface(text: str, member: str, faults: FaultCollector) -> InterfaceHeader | None:
    """Read a header; None and a fault for each thing when it does not declare what it must."""
    if len(text) > MAX_HEADER_CHARS:
        faults.add(member, f"a header of {len(text)} characters; at most {MAX_HEADER_CHARS} are read")
        return None
    tokens = tokenise(splice_lines(text))
    runs = list(islice(_run_functions(tokens), 2))
    if len(runs) != 1:
        faults.add(
            member, f"{'two functions end' if runs else 'no function ends'} in '_run'; one is the entry"
        )
        return None
    name, parameters = runs[0]
    prefix = name.removesuffix("run").lower()
    structs = {
        key.removeprefix(prefix): value
        for key, value in islice(_structs(tokens), MAX_STRUCTS)
        if key.startswith(prefix)
    }
    roles = tuple(_role(parameter, prefix) for parameter in parameters)
    problems = list(_problems(name, roles, structs))
    for field, problem in problems:
        faults.add(member, problem, field=field)
    if problems:
        return None
    return InterfaceHeader(
        run_function=name,
        run_parameters=roles,
        inputs=structs.get("inputs", ()),
        outputs=structs.get("outputs", ()),
        workspace_pools=structs.get("workspace_pools", ()),
        devices=structs.get("devices", ()),
        macros=MappingProxyType(dict(_macros(tokens))),
    )


def _run_functions(tokens: Tokens) -> Iterator[tuple[str, list[list[str]]]]:
    """Names and parameters (as token texts) of the functions whose names end in ``_run``."""
    texts = tokens.texts
    for index, text in enumerate(texts):
        if (
            tokens.kinds[index] == IDENTIFIER
            and text.endswith("_run")
            and texts[index + 1 : index + 2] == ["("]
        ):
            parameters = _split(_until(texts, index + 2, ")"), ",")
            yield text, [] if parameters == [["void"]] else parameters


def _structs(tokens: Tokens) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names (in lower case) and fields of the structs that are defined."""
    texts = tokens.texts
    for index, text in enumerate(texts):
        if text == "struct" and texts[index + 2 : index + 3] == ["{"]:
            fields = _split(_until(texts, index + 3, "}"), ";")
            yield texts[index + 1].lower(), tuple(declarator[-1] for declarator in fields)


def _until(texts: list[str], start: int, end: str) -> list[str]:
    """Tokens from ``start`` up to the next ``end``, or to the last one."""
    try:
        return texts[start : texts.index(end, start)]
    except ValueError:
        return texts[start:]


def _split(texts: list[str], separator: str) -> list[list[str]]:
    """Parts between separators that are not empty."""
    parts: list[list[str]] = [[]]
    for text in texts:
        if text == separator:
            parts.append([])
        else:
            parts[-1].append(text)
    return [part for part in parts if part]


def _role(parameter: list[str], prefix: str) -> str:
    """What a parameter of the run function is: one of ROLES, or its own text."""
    for text in parameter:
        role = text.lower().removeprefix(prefix)
        if text.lower() != role and role in ROLES:
            return role
    return " ".join(parameter)


def _problems(
    name: str, roles: tuple[str, ...], structs: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, str]]:
    """Places and what is wrong there."""
    problem = function_name_problem(name)
    if problem is not None:
        yield name, problem
    for role in roles:
        if role not in ROLES:
            yield name, f"the parameter {shown(role)} is not known"
        elif role not in structs:
            yield name, f"the struct of {role} is not defined"
    if len(set(roles)) != len(roles):
        yield name, "two parameters of one kind"
    for role, fields in structs.items():
        for field in fields:
            if (problem := function_name_problem(field)) is not None:
                yield role, f"a field {problem}"
        if len(set(fields)) != len(fields):
            yield role, "two fields have one name"


def _macros(tokens: Tokens) -> Iterator[tuple[str, int]]:
    """The ``..._SIZE`` macros whose values are numbers."""
    for kind, text in zip(tokens.kinds, tokens.texts, strict=True):
        define = _DEFINE.match(text) if kind == DIRECTIVE else None
        value = _INTEGER.match(define[2]) if define is not None else None
        if define is not None and value is not None:
            digits = value[2].lower()
            yield define[1], int(value[1] + digits, 16 if digits.startswith("0x") else 10)
