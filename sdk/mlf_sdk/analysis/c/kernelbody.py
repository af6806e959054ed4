# SPDX-License-Identifier: Apache-2.0
"""Which phase of a kernel's body accesses which argument and which workspace.

An identifier that stands for data counts as accessed where it is an element in place:
``((float*)x)[i]``, or ``x[i]`` when x is declared as a pointer to numbers. Anywhere else it escapes:
it may be accessed at any time by a name that is not followed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlf_sdk.analysis.c.allocations import Allocations, Kind
from mlf_sdk.analysis.c.tokens import IDENTIFIER, NUMBER
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.tools.cwords import KEYWORDS, SCALAR_TYPES

_HANDLE = re.compile(
    r"void \* (\w+) = \( \( \( TVMValue \* \) (\w+) \) \[ (?:\( )?(\d{1,4})(?: \))? \] \. v_handle \) ;"
)
_DATA = re.compile(
    r"void \* (\w+) = \( \( \( DLTensor \* \) (\w+) \) \[ (?:0|\( 0 \)) \] \. data \) ;",
)
_COPY = re.compile(r"void \* (\w+) = (\w+) ;")
_LONGEST_PROLOGUE = 24
_HANDLE_FIELDS = frozenset({"shape", "strides", "ndim", "dtype", "byte_offset", "device", "ctx"})


def slot_sizes(allocations: Allocations) -> list[int]:
    """Largest request at each depth of nesting."""
    sizes: list[int] = []
    for event in allocations.events:
        if event.kind is Kind.ALLOCATE:
            sizes += [0] * (event.depth + 1 - len(sizes))
            sizes[event.depth] = max(sizes[event.depth], event.size_bytes)
    return sizes


@dataclass(slots=True)
class Target:
    """An argument or a slot, and where it is accessed."""

    index: int
    name: str
    phases: list[int]
    escaped: bool = False

    def span(self, phases: int) -> tuple[int | None, int | None]:
        """First and last phase of ``phases`` that access it; all of them when it escaped."""
        if self.escaped:
            return 0, phases - 1
        return (self.phases[0], self.phases[-1]) if self.phases else (None, None)


class KernelBody:
    """The body of a kernel that has no doubts so far; ``doubt`` tells when some came up."""

    def __init__(self, function: FunctionDefinition, partner: list[int], allocations: Allocations) -> None:
        """Go through the body once; ``partner`` pairs its brackets."""
        sizes = slot_sizes(allocations)
        self.function = function
        self.texts = function.tokens.texts
        self.kinds = function.tokens.kinds
        self.partner = partner
        self.arguments: dict[int, Target] = {}
        self.slots = [Target(depth, "", []) for depth in range(len(sizes))]
        self.handles: dict[str, list[Target]] = {}
        self.data: dict[str, list[Target]] = {}
        self.plain: set[str] = set()
        self.skip = dict(allocations.consumed)
        self.phases = 0
        self.doubt = ""
        self.statements = _statements(self.texts, partner)
        for event in allocations.events:
            if event.kind is Kind.ALLOCATE:
                self.data.setdefault(event.name, []).append(self.slots[event.depth])
        if function.is_packed:
            self._unpack()
        else:
            self._take_parameters()
        if not self.doubt:
            self._find_accesses()

    def _unpack(self) -> None:
        """Find ``void* p = args[k]`` and ``void* x = p->data`` among the top-level statements."""
        packed = self.function.parameters[0].name
        for start, stop in self.statements:
            if stop - start > _LONGEST_PROLOGUE:
                continue
            line = " ".join(self.texts[start:stop])
            if (handle := _HANDLE.fullmatch(line)) is not None and handle.group(2) == packed:
                index = int(handle.group(3))
                target = self.arguments.setdefault(index, Target(index, handle.group(1), []))
                self.handles.setdefault(handle.group(1), []).append(target)
                self.skip[start] = stop
            elif (data := _DATA.fullmatch(line)) is not None and data.group(2) in self.handles:
                targets = self.handles[data.group(2)]
                self.data.setdefault(data.group(1), []).extend(targets)
                for target in targets:
                    target.name = data.group(1)
                self.skip[start] = stop
        names = [*self.handles, *self.data, packed]
        if len(names) != len(set(names)):
            self.doubt = "one name stands for two things"
        self.handles[packed] = []

    def _take_parameters(self) -> None:
        """Without the packed ABI each parameter is the data of one argument."""
        for index, parameter in enumerate(self.function.parameters):
            scalar = is_scalar_pointer(parameter.type.replace("*", " * ").split())
            if not scalar and parameter.type != "void*":
                self.doubt = f"the parameter {parameter.name} is no pointer to data"
            if not parameter.name or parameter.name in self.data:
                self.doubt = "a parameter has no name, or one that is used twice"
            self.arguments[index] = Target(index, parameter.name, [])
            self.data[parameter.name] = [self.arguments[index]]
            if scalar:
                self.plain.add(parameter.name)
        self._take_copies()

    def _take_copies(self) -> None:
        """``void* placeholder = arg0;`` (TVM 0.8): one more name for the data of a ``void*`` parameter."""
        untyped = {p.name for p in self.function.parameters if p.type == "void*"}
        for start, stop in self.statements:
            if (copy := _COPY.fullmatch(" ".join(self.texts[start : min(stop, start + 7)]))) is None:
                continue
            name, parameter = copy.groups()
            if parameter not in untyped:
                continue
            if name in self.data:
                self.doubt = "one name stands for two things"
                return
            target = self.data[parameter][0]
            self.data[name] = [target]
            target.name = name
            self.skip[start] = stop

    def _find_accesses(self) -> None:
        index = 0
        for start, stop in self.statements:
            accessed: list[Target] = []
            index = max(index, start)  # a request and its check are two statements
            while index < stop:
                if index in self.skip:
                    index = self.skip[index]
                    continue
                if self.kinds[index] == IDENTIFIER:
                    self._look_at(index, accessed)
                index += 1
            if accessed:
                for target in accessed:
                    if not target.phases or target.phases[-1] != self.phases:
                        target.phases.append(self.phases)
                self.phases += 1

    def _look_at(self, index: int, accessed: list[Target]) -> None:
        """One identifier: an access, a way out of sight, or nothing."""
        name = self.texts[index]
        if name in self.data:
            targets = self.data[name]
            accessed += targets
            if not self._is_access(index):
                for target in targets:
                    target.escaped = True
        elif name in self.handles and not self._is_field(index):
            if not self.handles[name]:
                self.doubt = f"{name} is used in an unknown way"
            for target in self.handles[name]:
                target.escaped = True
                accessed.append(target)

    def _is_access(self, index: int) -> bool:
        """Whether the name at ``index`` is read or written in place: ``((float*)x)[i]`` or ``x[i]``."""
        first, after = index, index + 1
        if self._texts(index - 1, index) == [")"] and self._texts(after, after + 1) == [")"]:
            cast, outer = self.partner[index - 1], self.partner[after]
            if outer != cast - 1 or not is_scalar_pointer(self.texts[cast + 1 : index - 1]):
                return False
            first, after = outer, after + 1
        elif self.texts[index] not in self.plain:
            return False
        return self._is_element(first, after)

    def _is_element(self, first: int, bracket: int) -> bool:
        """Whether the expression from ``first`` with its index in ``bracket`` is a value or assigned."""
        if self._texts(bracket, bracket + 1) != ["["]:
            return False
        end = self.partner[bracket] + 1
        return self._texts(end, end + 1)[0] not in ("[", "(", ".", "->") and not self._is_address(first - 1)

    def _is_address(self, before: int) -> bool:
        """Whether what stands up to ``before`` takes the address of what follows, or declares it."""
        if before < 0:
            return False
        text = self.texts[before]
        if self.kinds[before] == IDENTIFIER and text not in ("return", "else"):
            return True
        if text == "*" and self._texts(before - 1, before)[0] in SCALAR_TYPES:
            return True
        while before >= 0 and self.texts[before] == "(":
            before -= 1
        return before >= 0 and self.texts[before] == "&" and not self._is_operand(before - 1)

    def _is_operand(self, index: int) -> bool:
        """Whether the token before an ``&`` makes it a binary one for certain."""
        if index < 0:
            return False
        kind, text = self.kinds[index], self.texts[index]
        return (kind == IDENTIFIER and text not in KEYWORDS) or kind == NUMBER or text == "]"

    def _is_field(self, index: int) -> bool:
        """Whether the handle at ``index`` is looked into for anything but the data: shape, device."""
        start = index - 5
        if start < 0 or self.texts[start:index] != ["(", "(", "DLTensor", "*", ")"]:
            return False
        if self._texts(index + 1, index + 3) != [")", "["]:
            return False
        end = self.partner[index + 2]
        if self.texts[index + 3 : end] not in (["0"], ["(", "0", ")"]):
            return False
        is_known = self._texts(end, end + 1) == ["]"] and self._texts(end + 2, end + 3)[0] in _HANDLE_FIELDS
        return is_known and self._texts(end + 1, end + 2) == ["."] and not self._is_address(start - 1)

    def _texts(self, start: int, stop: int) -> list[str]:
        """A slice that is [""] where there are no tokens, so that it compares as different."""
        return (self.texts[start:stop] if start >= 0 else []) or [""]


def is_scalar_pointer(words: list[str]) -> bool:
    """Whether the words are the type of a pointer to plain numbers."""
    return len(words) >= 2 and words[-1] == "*" and set(words[:-1]) <= SCALAR_TYPES


def _statements(texts: list[str], partner: list[int]) -> list[tuple[int, int]]:
    """Top-level statements as token ranges [first, last)."""
    statements = []
    start = index = 0
    while index < len(texts):
        text = texts[index]
        if text in ("(", "["):
            index = partner[index]
        elif text == "{":
            initialiser = index > 0 and texts[index - 1] == "="
            index = partner[index]
            text = "" if initialiser else ";"
        index += 1
        if text == ";" and texts[index : index + 1] != ["else"]:
            statements.append((start, index))
            start = index
    if start < len(texts):
        statements.append((start, len(texts)))
    return statements
