# SPDX-License-Identifier: Apache-2.0
"""The body of ``@main`` in relay text (``src/*.relay``, ``src/relay.txt``) as a graph of values.

What is read is the form in which TVM prints a flat main function: one operator call, tuple or
projection a line, and the result last. Functions inside, ``let``, ``if`` and matches are refused.
The graph is in topological order because a line can only name what stands above it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mlf_sdk.errors import InputError
from mlf_sdk.frontends.mlf.relay.text import Piece, UnreadableRelayError, split_list, strip_comments
from mlf_sdk.ir.dtype import DType

MAX_TEXT: Final = 8 << 20
"""Characters of relay text."""

MAX_NODES: Final = 20_000
MAX_FIELDS: Final = 1024
"""Arguments of one call, fields of one tuple."""

MAX_EXTENT: Final = 1 << 40

_TENSOR: Final = re.compile(r"Tensor\[\(([0-9, ]{0,400})\), ([a-z0-9]{1,20})\]", re.ASCII)
_PARAMETER: Final = re.compile(
    r"%([^\s,()]{1,1024}): Tensor\[\(([0-9, ]{0,400})\), ([a-z0-9]{1,20})\]", re.ASCII
)
_STATEMENT: Final = re.compile(r"%([0-9]{1,9}) = ", re.ASCII)
_CALL: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.]{0,199})\(", re.ASCII)
_ATTRIBUTE: Final = re.compile(r"([A-Za-z_]\w{0,99})=(.*)", re.ASCII | re.DOTALL)
_PROJECTION: Final = re.compile(r"(.+)\.([0-9]{1,4})", re.ASCII)
_LITERAL: Final = re.compile(
    r"-?[0-9.][0-9a-zA-Z.+-]{0,60}|True|False|meta\[[\w.]{1,60}\]\[[0-9]{1,9}\]", re.ASCII
)


class NodeKind(enum.Enum):
    """What gives a value."""

    ARGUMENT = "argument"
    LITERAL = "literal"
    CALL = "call"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorType:
    """Element type and extents of a value."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count


@dataclass(frozen=True, slots=True)
class Use:
    """One result of one node."""

    node: int
    output: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An argument of main, a literal, or a call.

    Attributes:
        name: of the argument, text of the literal, name of the operator.
        args: of a call, the fields of a tuple side by side.
        has_tuple: whether an argument of the call is a tuple.
        attributes: of a call, as printed.
        types: of each result, None where the text does not tell; a call that is not said to give a
            tuple has one.
    """

    kind: NodeKind
    name: str
    args: tuple[Use, ...] = ()
    has_tuple: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)
    types: tuple[TensorType | None, ...] = (None,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayGraph:
    """Main as a graph; ``nodes`` begins with its arguments, and every node comes after what it uses."""

    nodes: tuple[Node, ...]
    results: tuple[Use, ...]

    @property
    def arguments(self) -> tuple[int, ...]:
        """Nodes that are arguments of main, in order."""
        return tuple(i for i, node in enumerate(self.nodes) if node.kind is NodeKind.ARGUMENT)


def parse_relay_graph(text: str) -> RelayGraph:
    """Read ``@main``.

    Raises:
        UnreadableRelayError: there is none, or it is more than a flat sequence of operator calls.
    """
    if len(text) > MAX_TEXT:
        raise UnreadableRelayError(f"the relay text has more than {MAX_TEXT} characters")
    lines = text.splitlines()
    heads = [i for i, line in enumerate(lines) if line.startswith("def ")]
    if len(heads) != 1 or not lines[heads[0]].startswith("def @main("):
        raise UnreadableRelayError("the relay text has no main function, or other functions too")
    return _Reader().read(lines[heads[0]], lines[heads[0] + 1 :])


class _Reader:
    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.named: dict[str, tuple[Use, ...]] = {}
        self.tuples: set[str] = set()

    def read(self, head: str, body: list[str]) -> RelayGraph:
        told = self._head(head)
        results: tuple[Use, ...] | None = None
        for line in body:
            statement = line.strip()
            if statement in ("", "}"):
                if statement:
                    break
                continue
            if results is not None:
                raise UnreadableRelayError("something follows the result of main")
            results = self._line(statement)
        if results is None:
            raise UnreadableRelayError("main has no result")
        self._tell(results, told)
        return RelayGraph(nodes=tuple(self.nodes), results=results)

    def _head(self, line: str) -> tuple[TensorType, ...]:
        """Take in the arguments of main; the types of its results where they are told."""
        if not line.rstrip().endswith("{"):
            raise UnreadableRelayError("the head of main does not end in its line")
        arguments, _, results = strip_comments(line).partition(") -> ")
        if not results:
            arguments = arguments.rstrip("{ ").removesuffix(")")
        for piece in split_list(arguments.removeprefix("def @main("), MAX_NODES):
            match = _PARAMETER.fullmatch(piece.text)
            if match is not None:
                if match.group(1) in self.named:
                    raise UnreadableRelayError(f"two arguments of main are called {match.group(1)[:40]!r}")
                type_ = _tensor_type(match.group(2), match.group(3))
                use = self._add(Node(kind=NodeKind.ARGUMENT, name=match.group(1), types=(type_,)))
                self.named[match.group(1)] = (use,)
            elif piece.text.startswith("%") or _ATTRIBUTE.fullmatch(piece.text) is None:
                raise UnreadableRelayError(f"an argument of main is not a tensor: {piece.text[:60]!r}")
        return tensor_types(results)

    def _line(self, statement: str) -> tuple[Use, ...] | None:
        """Take in one statement; the values of the last one, which has no name."""
        name = _STATEMENT.match(statement)
        rest = statement[name.end() :] if name is not None else statement
        if name is not None:
            if not rest.endswith(";"):
                raise UnreadableRelayError(f"the statement of %{name.group(1)} does not end in its line")
            rest = rest[:-1]
        values, is_tuple = self._expression(rest.strip())
        if name is None:
            return values
        if name.group(1) in self.named:
            raise UnreadableRelayError(f"%{name.group(1)} is defined twice")
        self.named[name.group(1)] = values
        if is_tuple:
            self.tuples.add(name.group(1))
        return None

    def _expression(self, text: str) -> tuple[tuple[Use, ...], bool]:
        """The values of an expression, and whether they are a tuple."""
        call = _CALL.match(text)
        if call is not None:
            return self._call(call.group(1), text[call.end() :])
        plain = strip_comments(text).strip()
        if plain.startswith("%"):
            return self._reference(plain[1:])
        if plain.startswith("(") and plain.endswith(")"):
            uses: list[Use] = []
            for piece in split_list(plain[1:-1], MAX_FIELDS):
                uses += self._single(piece)
            return tuple(uses), True
        raise UnreadableRelayError(f"not a call, tuple or value: {plain[:60]!r}")

    def _single(self, piece: Piece) -> tuple[Use, ...]:
        if piece.text.startswith("%"):
            found, is_tuple = self._reference(piece.text[1:])
            if is_tuple:
                raise UnreadableRelayError("a tuple is inside a tuple")
            return found
        return (self._literal(piece),)

    def _literal(self, piece: Piece) -> Use:
        if _LITERAL.fullmatch(piece.text) is None:
            raise UnreadableRelayError(f"not a value: {piece.text[:60]!r}")
        types = tensor_types(piece.comment)
        return self._add(Node(kind=NodeKind.LITERAL, name=piece.text, types=types[:1] or (None,)))

    def _reference(self, name: str) -> tuple[tuple[Use, ...], bool]:
        if name in self.named:
            return self.named[name], name in self.tuples
        projection = _PROJECTION.fullmatch(name)
        if projection is None or projection.group(1) not in self.named:
            raise UnreadableRelayError(f"%{name[:60]} is not defined above")
        fields, field_ = self.named[projection.group(1)], int(projection.group(2))
        if projection.group(1) in self.tuples:
            if field_ >= len(fields):
                raise UnreadableRelayError(f"%{projection.group(1)[:60]} has no field {field_}")
            return (fields[field_],), False
        self._widen(fields[0].node, field_)
        return (Use(fields[0].node, field_),), False

    def _widen(self, index: int, output: int) -> None:
        """A projection tells that a call gives several values, of types that are not told."""
        node = self.nodes[index]
        if node.kind is not NodeKind.CALL or any(node.types):
            raise UnreadableRelayError(f"a field of {node.name[:60]!r}, which is no tuple, is used")
        missing = max(0, output + 1 - len(node.types))
        self.nodes[index] = replace(node, types=(*node.types, *[None] * missing))

    def _call(self, operator: str, rest: str) -> tuple[tuple[Use, ...], bool]:
        args: list[Use] = []
        attributes: dict[str, str] = {}
        has_tuple = False
        pieces = split_list(rest, MAX_FIELDS, closing=True)
        for piece in pieces.items:
            attribute = _ATTRIBUTE.fullmatch(piece.text)
            if attribute is not None:
                attributes[attribute.group(1)] = attribute.group(2)
            elif piece.text.startswith(("%", "(")):
                values, is_tuple = self._expression(piece.text)
                args += values
                has_tuple = has_tuple or is_tuple
            else:
                args.append(self._literal(piece))
        if has_tuple and sum(_ATTRIBUTE.fullmatch(piece.text) is None for piece in pieces) > 1:
            raise UnreadableRelayError(f"a call of {operator} takes a tuple and something else")
        if pieces.rest:
            raise UnreadableRelayError(f"a call of {operator} is followed by {pieces.rest[:40]!r}")
        types = tensor_types(pieces.comment)
        is_tuple = pieces.comment.replace(" ", "").startswith("ty=(")
        node = Node(
            kind=NodeKind.CALL,
            name=operator,
            args=tuple(args),
            has_tuple=has_tuple,
            attributes=attributes,
            types=types or (None,),
        )
        first = self._add(node)
        uses = tuple(Use(first.node, output) for output in range(len(node.types)))
        return uses, is_tuple

    def _add(self, node: Node) -> Use:
        if len(self.nodes) >= MAX_NODES:
            raise UnreadableRelayError(f"main has more than {MAX_NODES} values")
        self.nodes.append(node)
        return Use(len(self.nodes) - 1)

    def _tell(self, results: tuple[Use, ...], told: tuple[TensorType, ...]) -> None:
        """Give the results the types that the head of main tells."""
        if len(told) != len(results):
            return
        for use, type_ in zip(results, told, strict=True):
            node = self.nodes[use.node]
            if node.types[use.output] is None:
                types = tuple(type_ if i == use.output else t for i, t in enumerate(node.types))
                self.nodes[use.node] = replace(node, types=types)


def tensor_types(text: str) -> tuple[TensorType, ...]:
    """All tensor types that ``text`` names, in order."""
    return tuple(_tensor_type(shape, dtype) for shape, dtype in _TENSOR.findall(text))


def _tensor_type(shape: str, dtype: str) -> TensorType:
    try:
        extents = tuple(int(part) for part in shape.replace(",", " ").split())
        found = TensorType(dtype=DType.parse(dtype), shape=extents)
    except (InputError, ValueError) as error:
        raise UnreadableRelayError(f"not a tensor type: Tensor[({shape[:60]}), {dtype}]") from error
    if found.elements > MAX_EXTENT:
        raise UnreadableRelayError("a tensor is too large")
    return found
