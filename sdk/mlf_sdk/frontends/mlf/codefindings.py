# SPDX-License-Identifier: Apache-2.0
"""Findings about the code of an archive: prototypes, constants, precision."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlf_sdk.frontends.code import CodeIndex
from mlf_sdk.frontends.mlf.schedule import BuildInput
from mlf_sdk.ir.model import Finding, Model, UnitKind, linked_sources

# Seven digits, the last of them not 0: float needs nine to be distinct from its neighbours.
_ROUNDED = re.compile(rb"\b\d\.\d{5}[1-9]e[+-]\d\df\b")
_LARGEST = b"3.402823e+38f"  # the first value of a maximum: any that is low enough serves
_INFINITE = re.compile(rb"\binff\b")


def left_out(source: BuildInput, model: Model) -> Iterator[Finding]:
    """Files that no step needs, and the prototypes in them that contradict the kernels."""
    unused = [u.member for u in model.units if not u.linked and u.kind is not UnitKind.HEADER]
    if not unused:
        return
    clash = _clashing_prototype(source.code, frozenset(unused))
    what = "TVM's function registry or metadata"
    if clash is not None:
        name, declared, defined = clash
        what += f", whose prototypes clash: {name} takes {declared} there and {defined} where it is defined"
    names = ", ".join(member.rpartition("/")[2] for member in unused)
    yield Finding(where=unused[0], what=what, handled=f"not needed, and left out of the build: {names}")


def _clashing_prototype(code: CodeIndex, members: frozenset[str]) -> tuple[str, str, str] | None:
    """A function that is declared with other types than it is defined with: name, both lists of types."""
    scans = code.scans.values()
    defined = {
        function.name: ", ".join(p.type for p in function.parameters)
        for scan in scans
        for function in scan.functions
    }
    for scan in (scan for scan in scans if scan.member in members):
        for declaration in scan.declarations:
            types = ", ".join(parameter.type for parameter in declaration.parameters)
            if defined.get(declaration.name, types) != types:
                return declaration.name, types, defined[declaration.name]
    return None


def constants(_source: BuildInput, model: Model) -> Iterator[Finding]:
    """Constants as text: digits that are lost, infinities that are no C."""
    for unit in linked_sources(model):
        rounded = [text.decode() for text in _ROUNDED.findall(unit.data) if text != _LARGEST]
        if rounded:
            yield Finding(
                where=unit.member,
                what=f"{_count(len(rounded), 'float constant')} printed with 7 digits where float needs 9, "
                f"e.g. {rounded[0]}",
                handled="compiled as printed: off by up to 5e-7 of their value, on the host as well",
            )
        infinite = len(_INFINITE.findall(unit.data))
        if infinite:
            yield Finding(
                where=unit.member,
                what=f"{_count(infinite, 'infinity')} printed as `inff`, which is no C",
                handled="the runtime's headers define it",
            )


def _count(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun} is"
    return f"{count:,} {noun.removesuffix('y') + 'ies' if noun.endswith('y') else noun + 's'} are"
