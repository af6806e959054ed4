# SPDX-License-Identifier: Apache-2.0
"""Data of a scanned C source: includes, definitions, declarations and calls."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from mlf_sdk.analysis.c.statements import build_block
from mlf_sdk.analysis.c.syntax import Block
from mlf_sdk.errors import Fault

if TYPE_CHECKING:
    from tree_sitter import Node

_PACKED_COUNT: Final = {"int32_t", "int"}
_PACKED_ARGS: Final = {"void*", "TVMValue*"}
_PACKED_CODES: Final = {"void*", "int32_t*", "int*"}


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a function: its type as ``float*``, ``const int8_t*``, ``int32_t``, and its name."""

    type: str
    name: str


class Struct(msgspec.Struct, frozen=True, kw_only=True):
    """A struct that is defined at file scope: its name and the names of its members."""

    name: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Name, linkage and types of a function.

    Attributes:
        parameters: types and names, in order.
    """

    name: str
    return_type: str
    is_static: bool
    parameters: tuple[Parameter, ...]

    @property
    def is_packed(self) -> bool:
        """Packed ABI of TVM 0.8 - 0.20: args, type codes, count, return value, its type code, resource."""
        types = [parameter.type for parameter in self.parameters]
        kinds = (_PACKED_ARGS, _PACKED_CODES, _PACKED_COUNT, _PACKED_ARGS, _PACKED_CODES, {"void*"})
        return len(types) == len(kinds) and all(map(operator.contains, kinds, types))


class LazyBody:
    """Body of a function, built from the parser's tree when it is first asked for."""

    __slots__ = ("_block", "_syntax")

    def __init__(self, syntax: Node) -> None:
        self._syntax = syntax
        self._block: Block | None = None

    def get(self) -> Block:
        """Return the typed body."""
        if self._block is None:
            self._block = build_block(self._syntax)
        return self._block


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDefinition(Signature):
    """A function with a body.

    Attributes:
        words: all words of the body, keywords too.
        called: identifiers that a parenthesis follows.
        identifiers: all identifiers of the body.
        doubts: reasons why the body may mean something else than it says; empty for generated code.
        macros: names that the same source defines as macros, anywhere in it.
        macro_words: identifiers in the preprocessor lines of the source.
        lines: first and last line in the source, from 1.
    """

    member: str
    lines: tuple[int, int]
    lazy_body: LazyBody = field(repr=False, compare=False)
    words: frozenset[str] = field(repr=False)
    called: frozenset[str] = field(repr=False)
    identifiers: frozenset[str] = field(repr=False)
    doubts: tuple[str, ...]
    macros: frozenset[str] = field(repr=False)
    macro_words: frozenset[str] = field(repr=False)

    @property
    def body(self) -> Block:
        """The statements of the body."""
        return self.lazy_body.get()


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """A memory pool of TVM's unified static memory planning (a static variable with a section).

    Attributes:
        size_bytes: of an array of bytes, or as TVM's comment says for constants; None when neither.
        is_constant: a struct of constants, else a workspace.
    """

    name: str
    size_bytes: int | None
    is_constant: bool


class EntryArgument(msgspec.Struct, frozen=True, kw_only=True):
    """One argument in a wrapper's call.

    ``group`` is the struct parameter it is a field of (``inputs``, ``outputs``, ``workspace_pools``...),
    ``&`` for the address of the variable ``name``, and empty for any other expression.
    """

    group: str
    name: str


class EntryWrapper(msgspec.Struct, frozen=True, kw_only=True):
    """A function that only hands its parameters on, as ``<prefix>_run`` of an AOT model does."""

    name: str
    callee: str
    arguments: tuple[EntryArgument, ...]


class SourceScan(msgspec.Struct, frozen=True, kw_only=True):
    """Scan result of one source member.

    Attributes:
        includes: names between the brackets or quotes.
        declarations: prototypes at file scope.
        variables: those with external linkage that the source defines.
        mutable: variables at file scope that are not constant, those of other files too.
        macros: text that each macro stands for.
        unclear: first declaration that is not understood; empty when all are.
    """

    member: str
    includes: tuple[str, ...]
    functions: tuple[FunctionDefinition, ...]
    declarations: tuple[Signature, ...]
    variables: tuple[str, ...]
    mutable: frozenset[str]
    pools: tuple[Pool, ...]
    structs: tuple[Struct, ...]
    wrappers: tuple[EntryWrapper, ...]
    macros: Mapping[str, str]
    called: frozenset[str]
    unclear: str
    faults: tuple[Fault, ...]
