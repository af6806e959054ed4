# SPDX-License-Identifier: Apache-2.0
"""What the data of each argument is called inside a kernel of the shape that TVM prints."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from mlf_sdk.analysis.c.expressions import UnreadableError
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.tools.cwords import SCALAR_TYPES

_HANDLE: Final = re.compile(
    r"void \* (\w+) = \( \( \( TVMValue \* \) (\w+) \) \[ (?:\( )?(\d{1,3})(?: \))? \] \. v_handle \) ;"
)
_DATA: Final = re.compile(
    r"void \* (\w+) = \( \( \( DLTensor \* \) (\w+) \) \[ (?:0|\( 0 \)) \] \. data \) ;"
)
_COPY: Final = re.compile(r"void \* (\w+) = (\w+) ;")
_LONGEST_STATEMENT: Final = 24


@dataclass(slots=True)
class ArgumentNames:
    """Names that stand for arguments.

    Attributes:
        data: argument whose data a name points to.
        types: element types of names that are declared with one.
        handles: argument whose descriptor (or whose pointer, under another name) a name is.
        skip: statements that only give these names: index of the first token to that after the last.
    """

    data: dict[str, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    handles: dict[str, int] = field(default_factory=dict)
    skip: dict[int, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many arguments there are; UnreadableError when some are never unpacked."""
        found = {*self.data.values(), *self.handles.values()} - {-1}
        if found != set(range(len(found))):
            raise UnreadableError("not every argument is unpacked")
        return len(found)

    def __contains__(self, name: object) -> bool:
        """Whether ``name`` stands for an argument."""
        return name in self.data or name in self.handles


def argument_names(function: FunctionDefinition) -> ArgumentNames:
    """Read the statements that a kernel begins with: packed ABI, or pointers as parameters.

    Raises:
        UnreadableError: a name stands for two things, or a parameter is no pointer to data.
    """
    names = ArgumentNames()
    texts = function.tokens.texts
    if not function.is_packed:
        for index, parameter in enumerate(function.parameters):
            _parameter(names, index, parameter.type, parameter.name)
    index = 0
    while (stop := _simple_statement(texts, index)) is not None:
        line = " ".join(texts[index:stop])
        known = (
            _unpack(names, line, function.parameters[0].name) if function.is_packed else _copy(names, line)
        )
        if known:
            names.skip[index] = stop
        index = stop
    if function.is_packed:
        names.handles[function.parameters[0].name] = -1
    return names


def element_type(type_name: str) -> str:
    """A C type without qualifiers."""
    return " ".join(word for word in type_name.split() if word not in ("const", "volatile"))


def _simple_statement(texts: list[str], start: int) -> int | None:
    """Where the short statement at ``start`` ends; None when there is none."""
    for stop in range(start, min(start + _LONGEST_STATEMENT, len(texts))):
        if texts[stop] in ("{", "}"):
            return None
        if texts[stop] == ";":
            return stop + 1
    return None


def _unpack(names: ArgumentNames, line: str, packed: str) -> bool:
    if (handle := _HANDLE.fullmatch(line)) is not None and handle.group(2) == packed:
        if handle.group(1) in names or int(handle.group(3)) in names.handles.values():
            raise UnreadableError("an argument is unpacked twice")
        names.handles[handle.group(1)] = int(handle.group(3))
        return True
    if (data := _DATA.fullmatch(line)) is not None and data.group(2) in names.handles:
        _name(names, data.group(1), names.handles[data.group(2)])
        return True
    return False


def _copy(names: ArgumentNames, line: str) -> bool:
    copy = _COPY.fullmatch(line)
    if copy is None or copy.group(2) not in names.data:
        return False
    _name(names, copy.group(1), names.data[copy.group(2)])
    names.handles[copy.group(2)] = names.data.pop(copy.group(2))
    return True


def _parameter(names: ArgumentNames, index: int, type_name: str, name: str) -> None:
    words = type_name.replace("*", " * ").split()
    if words[-1:] != ["*"] or words.count("*") != 1 or not set(words[:-1]) <= SCALAR_TYPES | {"void"}:
        raise UnreadableError(f"the parameter {name[:40]} is no pointer to data")
    _name(names, name, index)
    if "void" not in words:
        names.types[name] = element_type(" ".join(words[:-1]))


def _name(names: ArgumentNames, name: str, index: int) -> None:
    if name in names or not name:
        raise UnreadableError("one name stands for two things")
    names.data[name] = index
