# SPDX-License-Identifier: Apache-2.0
"""The C interface header of an ahead-of-time module (``codegen/host/include/tvmgen_<module>.h``).

It gives the order of the inputs and outputs and the parameters of the run function. Its ``_SIZE``
macros may be garbage (TVM 0.11 prints addresses): they are reported and nothing is sized by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from mlf_sdk.analysis.c.source import scan_source
from mlf_sdk.analysis.c.unit import Parameter, SourceScan
from mlf_sdk.errors import FaultCollector
from mlf_sdk.tools.checks import function_name_problem, shown

MAX_HEADER_CHARS: Final = 1 << 18
MAX_STRUCTS: Final = 64
ROLES: Final = ("inputs", "outputs", "workspace_pools", "devices")

_SIZE_MACRO: Final = re.compile(r"[A-Za-z_]\w{0,1023}_SIZE", re.ASCII)
_WORD: Final = re.compile(r"\w+")
_INTEGER: Final = re.compile(
    r"\(?\s*(-?)\s*(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})[uUlL]{0,3}\s*\)?\s*(?:/[/*].*)?$", re.ASCII
)


class InterfaceHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Declarations of a C interface header.

    Attributes:
        run_function: name of the entry, ``tvmgen_<module>_run``.
        inputs: fields of the struct of inputs (legalised tensor names), in order.
        outputs: fields of the struct of outputs, in order.
        workspace_pools: fields of the struct of memory pools; empty without one.
        devices: fields of the struct of devices; empty without one.
        macros: value of every ``..._SIZE`` macro that is a number.
    """

    run_function: str
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
    scan = scan_source(text, member)
    broken = [(fault.field, fault.what) for fault in scan.faults] or [("", scan.unclear)]
    if broken != [("", "")]:
        for field, problem in broken:
            faults.add(member, problem, field=field)
        return None
    runs = [declared for declared in scan.declarations if declared.name.endswith("_run")]
    if len(runs) != 1:
        faults.add(
            member, f"{'two functions end' if runs else 'no function ends'} in '_run'; one is the entry"
        )
        return None
    name = runs[0].name
    prefix = name.removesuffix("run").lower()
    structs = {
        struct.name.lower().removeprefix(prefix): struct.fields
        for struct in scan.structs[:MAX_STRUCTS]
        if struct.name.lower().startswith(prefix)
    }
    roles = tuple(_role(parameter, prefix) for parameter in runs[0].parameters)
    problems = list(_problems(name, roles, structs))
    for field, problem in problems:
        faults.add(member, problem, field=field)
    if problems:
        return None
    return InterfaceHeader(
        run_function=name,
        inputs=structs.get("inputs", ()),
        outputs=structs.get("outputs", ()),
        workspace_pools=structs.get("workspace_pools", ()),
        devices=structs.get("devices", ()),
        macros=MappingProxyType(dict(_macros(scan))),
    )


def _role(parameter: Parameter, prefix: str) -> str:
    """Role of a parameter of the run function: one of ROLES, or its own text."""
    text = f"{parameter.type} {parameter.name}".strip()
    for word in _WORD.findall(text):
        role = word.lower().removeprefix(prefix)
        if word.lower() != role and role in ROLES:
            return str(role)
    return text


def _problems(
    name: str, roles: tuple[str, ...], structs: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, str]]:
    """Yield problems as pairs of location and message."""
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


def _macros(scan: SourceScan) -> Iterator[tuple[str, int]]:
    """Yield the ``..._SIZE`` macros whose values are numbers."""
    for name, text in scan.macros.items():
        value = _INTEGER.match(text) if _SIZE_MACRO.fullmatch(name) else None
        if value is not None:
            digits = value[2].lower()
            yield name, int(value[1] + digits, 16 if digits.startswith("0x") else 10)
