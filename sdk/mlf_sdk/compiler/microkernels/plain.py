# SPDX-License-Identifier: Apache-2.0
"""Recorded operations as plain C: unrolled repetitions become loops again where they are equal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby

from mlf_sdk.compiler.microkernels.assignments import (
    GROUP_TYPE,
    HALVES,
    VECTOR_TYPE,
    c_statements,
    halves_of,
    is_assignments,
    load_of,
    parts_of,
    with_parts,
)
from mlf_sdk.compiler.microkernels.builder import BRANCHES, MOVING, Builder, Operation, Register
from mlf_sdk.compiler.microkernels.operations import C_FUNCTIONS, HALF_AT, WORD_AT

_CALL = re.compile(r"\b(\w+)\(")
_MEMORY = {"word_at": WORD_AT, "half_at": HALF_AT}


class Scope:
    """Statements between two braces.

    Attributes:
        items: operations, bodies of loops (scope and its last operation) and of conditions (its first), and
            repetitions (the scope of each turn).
    """

    def __init__(self, parent: Scope | None = None) -> None:
        """Begin an empty scope."""
        self.path: tuple[Scope, ...] = (*(parent.path if parent else ()), self)
        self.items: list[Operation | tuple[Scope, Operation] | list[Scope]] = []

    def read(self, operations: Iterator[Operation], *ends: str) -> Operation:
        """Take operations up to one of ``ends``; that one."""
        for o in operations:
            if o.name in ends:
                return o
            if o.name == "label":
                body = Scope(self)
                end = body.read(operations, *BRANCHES)
                if end.name == "count_down":  # the operation in front of it says which register
                    end = body.last()
                self.items.append((body, end))
            elif o.name in ("skip", "skip_equal"):
                body = Scope(self)
                body.read(operations, "skip_end")
                self.items.append((body, o))
            elif o.name == "repeat":
                turns: list[Scope] = []
                end = next(operations)
                while end.name == "turn":
                    turns.append(Scope(self))
                    end = turns[-1].read(operations, "turn", "end_repeat")
                self.items.append(turns)
            else:
                self.items.append(o)
        return Operation("end")

    def last(self) -> Operation:
        """Take the last operation out."""
        last = self.items.pop()
        if not isinstance(last, Operation):
            raise TypeError("a loop that counts down ends with something else")
        return last

    def uses(self) -> Iterator[tuple[Register, Scope]]:
        """Each use of a register, and the scope that it is in, in order."""
        for item in self.items:
            if isinstance(item, list):
                for turn in item:
                    yield from turn.uses()
            elif isinstance(item, tuple):
                yield from item[0].uses()
                yield from ((r, self) for r in item[1].operands)
            else:
                yield from ((r, self) for r in (*item.operands, *item.results))


def plain(builder: Builder, meanings: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Body of a C function, and the text of each function that it calls.

    Args:
        meanings: expression of each operation.
    """
    root = Scope()
    root.read(iter(builder.operations))
    names = {o.name for o in builder.operations} & meanings.keys()
    lines = _Writer(root, builder, {name: meanings[name] for name in names}).body()
    text = "".join(f"    {line}\n" for line in lines)
    functions = {f"word_{f}": C_FUNCTIONS[f] for f in C_FUNCTIONS if f"word_{f}(" in text}
    functions |= {name: of for name, of in _MEMORY.items() if f"{name}(" in text}
    types = {"mlf_vector": VECTOR_TYPE, "mlf_lanes": GROUP_TYPE}
    vectors = {name: of for name, of in types.items() if f"{name} " in text}
    return text, vectors | functions


class _Writer:
    def __init__(self, root: Scope, builder: Builder, meanings: Mapping[str, str]) -> None:
        self._root = root
        self._parameters = builder.parameters
        self._meanings = {
            name: re.sub(r"\b([abci])\b", r"{\1}", _CALL.sub(r"word_\1(", text))
            for name, text in meanings.items()
            if not is_assignments(text)
        }
        self._assignments = {name: text for name, text in meanings.items() if is_assignments(text)}
        self._names: dict[Register, str] = {}
        self._read = {r for o in builder.operations for r in o.operands}
        paths: dict[Register, tuple[Scope, ...]] = {}
        self._first: dict[Register, Scope] = {}
        for r, scope in root.uses():
            self._first.setdefault(r, scope)
            path = paths.setdefault(r, scope.path)
            if path[-1] is not scope:
                paths[r] = tuple(a for a, b in zip(path, scope.path, strict=False) if a is b)
        self._homes: dict[Scope, list[Register]] = {}
        for r, path in paths.items():
            self._homes.setdefault(path[-1], []).append(r)
        # Those that are declared where they are written.
        result = parts_of(builder.operations, self._meanings)
        self._parts = {r: parts for r, parts in result.items() if r in self._homes.get(self._first[r], [])}

    def body(self) -> list[str]:
        """Statements of the function."""
        self._names = {r: r.name for r in self._parameters}
        unread = [f"(void){r.name};" for r in self._parameters if r not in self._read]
        return unread + self._scope(self._root, {r.name: 1 for r in self._parameters}, repeated=False)

    def _scope(self, scope: Scope, numbers: dict[str, int], *, repeated: bool) -> list[str]:
        """Statements of a scope; ``numbers`` of variables of each name, which the scopes around it have."""
        lines = []
        for r in self._homes.get(scope, []):
            if r in self._parameters:
                continue
            number = numbers[r.name] = numbers.get(r.name, -1) + 1
            self._names[r] = f"{r.name}{number}"
            if self._first[r] is not scope:  # an inner scope writes it first
                lines.append(f"{r.kind.c_type}{self._names[r]};")
        declared = {r for r in self._homes.get(scope, []) if self._first[r] is scope} - {*self._parameters}
        for item in scope.items:
            if isinstance(item, list):
                lines += self._repetition(item, numbers)
            elif isinstance(item, tuple):
                lines += self._block(item[1], self._scope(item[0], dict(numbers), repeated=repeated))
            elif item.name != "note":
                lines += self._statements(item, declared)
            elif not repeated:
                lines.append(f"// {item.text}")
        return lines

    def _block(self, o: Operation, body: list[str]) -> list[str]:
        """A loop or a condition."""
        names = [self._names[r] for r in o.operands]
        if o.name.startswith("skip"):
            return [f"if ({names[0]} != {names[1] if names[1:] else 0}) {{", *_indented(body), "}"]
        test = f"--{names[0]} != 0" if o.step == 1 else f"(int32_t)({names[0]} -= {o.step}) > 0"
        if o.name == "again":
            test = f"{names[0]} != {names[1]}"
        return ["do {", *_indented(body), f"}} while ({test});"]

    def _repetition(self, turns: list[Scope], numbers: dict[str, int]) -> list[str]:
        lines: list[str] = []
        texts = [self._scope(turn, dict(numbers), repeated=True) for turn in turns]
        for text, equal in groupby(texts):
            count = len(list(equal))
            head = "{" if count == 1 else f"for (int32_t k = 0; k < {count}; ++k) {{"
            lines += [head, *_indented(text), "}"]
        return lines

    def _statements(self, o: Operation, declared: set[Register]) -> list[str]:
        if o.name in self._assignments:
            return c_statements(o, self._assignments[o.name], self._names, declared)
        targets = []
        for r in o.results:
            if o.name == "load" and r not in self._read:
                targets.append("")
                continue
            targets.append((r.kind.c_type if r in declared else "") + self._names[r])
            declared.discard(r)
        names = [self._names[r] for r in o.operands]
        is_word = not o.operands or not o.operands[0].kind.unit
        if o.name in self._meanings and (is_word or o.name == "copy"):
            return self._meant(o, targets[0], names)
        if o.name == "give_back":
            return [f"return {names[0]};"]
        if o.name == "leave_if":
            return [f"if ({names[0]} == {names[1]}) {{", "    return;", "}"]
        if o.name in MOVING or o.name in ("load_at", "store_byte"):
            return self._moved(o, targets, names)
        return [f"{_moved_pointer(o, targets[0], names)};"]

    def _meant(self, o: Operation, target: str, names: list[str]) -> list[str]:
        """Statements of an operation whose meaning is an expression."""
        constant = f"{o.i & 0xFFFFFFFF}u" if not o.operands else o.i
        meaning = self._meanings[o.name]
        for letter, r in zip("abc", o.operands, strict=False):
            meaning = with_parts(meaning, letter) if r in self._parts else meaning
        value = meaning.format(i=constant, **dict(zip("abc", names, strict=False)))
        if o.results[0] in self._parts:
            halves = zip(HALVES, halves_of(value), strict=True)
            return [f"{target}_{half} = word_low_half({text});" for half, text in halves]
        return [f"{target} = {value};"]

    def _moved(self, o: Operation, targets: list[str], names: list[str]) -> list[str]:
        """Statements of loads and stores."""
        if not self._parts.keys().isdisjoint(o.results):
            return self._loads(o, targets, names[-1])
        if o.name == "store_many":
            values = [
                f"word_halves({name}_low, {name}_high)" if r in self._parts else name
                for r, name in zip(o.operands[:-1], names, strict=False)
            ]
            return [f"*{names[-1]}++ = (int32_t){value};" for value in values]
        return _access(o, targets, names)

    def _loads(self, o: Operation, targets: list[str], pointer: str) -> list[str]:
        """Statements of loads, some of them of numbers of fewer bits."""
        lines = []
        is_bytes, offset = o.operands[-1].kind.unit == 1, o.i if o.name == "load_at" else 0
        for r, target in zip(o.results, targets, strict=True):
            if r in self._parts:
                for part in self._parts[r]:
                    lines.append(
                        f"{target}_{part} = {load_of(part, pointer, is_bytes=is_bytes, offset=offset)};"
                    )
            elif target:
                place = f"{pointer} + {offset if is_bytes else offset // 4}" if offset else pointer
                lines.append(f"{target} = word_at({place});")
            lines += [f"{pointer} += 4;" if is_bytes else f"++{pointer};"] if o.name == "load" else []
        return lines


def _moved_pointer(o: Operation, target: str, names: list[str]) -> str:
    """Assignment of a pointer to a place further on, or back."""
    unit = o.operands[0].kind.unit
    if o.name == "advance":
        return f"{names[0]} += {o.i // unit}"
    offset = str(o.i // unit) if o.name == "place" else f"(int32_t){names[1]} / {unit}"
    sign = "-" if o.name == "subtract" else "+"
    return f"{target} = {names[0]} {sign} {offset.removesuffix(' / 1')}"


def _access(o: Operation, targets: list[str], names: list[str]) -> list[str]:
    """Statements of a load or a store; words may have been written as numbers of another type."""
    pointer = names[-1]
    if o.name == "store_byte":
        return [f"{pointer}[{o.i}] = (int8_t){names[0]};"]
    if o.name == "load_back":
        return [f"{target} = word_at(--{pointer});" for target in reversed(targets)]
    is_bytes = o.operands[0].kind.unit == 1
    if o.name == "load_at" and o.results[0].kind.unit:
        return [f"{targets[0]} = {pointer}[{o.i // 4}];"]
    if o.name == "load_at":
        value = f"word_at({pointer} + {o.i})" if is_bytes else f"word_at({pointer} + {o.i // 4})"
        return [f"{targets[0]} = {value};"]
    if is_bytes:
        return [
            line for target in targets for line in (f"{target} = word_at({pointer});", f"{pointer} += 4;")
        ]
    return [f"{t} = word_at({pointer}++);" if t else f"++{pointer};" for t in targets]


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]
