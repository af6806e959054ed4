# SPDX-License-Identifier: Apache-2.0
"""Declarations at file scope: signatures, variables, structs, memory pools, wrappers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mlf_sdk.analysis.c.expressions import source_of
from mlf_sdk.analysis.c.syntax import CALL, CAST, FIELD, NAME, UNARY, Expr, Return, Statement
from mlf_sdk.analysis.c.text import type_text
from mlf_sdk.analysis.c.unit import EntryArgument, EntryWrapper, Parameter, Pool, Signature, Struct
from mlf_sdk.tools.ctext import SCALAR_TYPES

if TYPE_CHECKING:
    from tree_sitter import Node

_STORAGE: Final = frozenset({"static", "extern", "inline", "__inline", "__inline__", "TVM_DLL", "_Noreturn"})
_SECTION: Final = re.compile(r'\bsection\s*\(\s*"[^"]*"\s*\)')
_SIZE: Final = re.compile(r"\d{1,18}", re.ASCII)


def read_signature(syntax: Node) -> Signature | None:
    """Read the only declarator of a definition or declaration, when it is a plain function."""
    declarators = syntax.children_by_field_name("declarator")
    type_ = syntax.child_by_field_name("type")
    declarator: Node | None = declarators[0] if len(declarators) == 1 else None
    while declarator is not None and declarator.type == "pointer_declarator":
        declarator = declarator.child_by_field_name("declarator")
    if declarator is None or declarator.type != "function_declarator" or type_ is None or has_body(type_):
        return None
    name, parameters = (
        declarator.child_by_field_name("declarator"),
        declarator.child_by_field_name("parameters"),
    )
    if name is None or name.type != "identifier" or parameters is None or parameters.has_error:
        return None
    words = _head(syntax, name.start_byte).split()
    return Signature(
        name=source_of(name),
        return_type=type_text(" ".join(w for w in words if w not in _STORAGE and "STATIC" not in w)),
        is_static=any(word == "static" or "STATIC" in word for word in words),
        parameters=_parameters(parameters),
    )


def has_body(type_: Node) -> bool:
    """Return whether a type is a struct, union or enum with its members."""
    return type_.child_by_field_name("body") is not None


def _head(syntax: Node, stop: int) -> str:
    """Text of a declaration up to ``stop`` without its attributes."""
    parts = []
    for child in syntax.children:
        if child.type != "attribute_specifier" and child.start_byte < stop:
            parts.append(source_of(child)[: stop - child.start_byte])
    return " ".join(parts)


def _parameters(syntax: Node) -> tuple[Parameter, ...]:
    parameters = tuple(_parameter(child) for child in syntax.named_children)
    return () if [(p.type, p.name) for p in parameters] == [("void", "")] else parameters


def _parameter(syntax: Node) -> Parameter:
    """Split one parameter into type and name; one without a name has the name ''."""
    name = syntax.child_by_field_name("declarator")
    while name is not None and name.type != "identifier":
        name = name.child_by_field_name("declarator")
    text = source_of(syntax)
    if name is None:
        return Parameter(type=type_text(text), name="")
    before, after = name.start_byte - syntax.start_byte, name.end_byte - syntax.start_byte
    return Parameter(type=type_text(f"{text[:before]} {text[after:]}"), name=source_of(name))


def variable_names(syntax: Node) -> list[str]:
    """Names of the variables that a declaration defines with external linkage."""
    words = {source_of(child) for child in syntax.children if child.type == "storage_class_specifier"}
    if not words.isdisjoint({"static", "extern"}):
        return []
    return [name for declarator in syntax.children_by_field_name("declarator") if (name := _name(declarator))]


def mutable_names(syntax: Node) -> list[str]:
    """Names of the variables of a declaration whose values may change."""
    declarators = syntax.children_by_field_name("declarator")
    is_constant = _is_const(syntax)
    return [
        name
        for declarator in declarators
        if (name := _name(declarator)) and not _keeps(declarator, is_constant)
    ]


def _keeps(declarator: Node, is_constant: bool) -> bool:
    """Return whether the variable of a declarator is constant: of pointers, the pointer itself."""
    node: Node | None = declarator
    while node is not None and node.type != "identifier":
        if node.type == "pointer_declarator":
            is_constant = _is_const(node)
        node = node.child_by_field_name("declarator")
    return is_constant and node is not None


def _is_const(syntax: Node) -> bool:
    return any(c.type == "type_qualifier" and source_of(c) == "const" for c in syntax.children)


def hides_a_number(syntax: Node) -> bool:
    """Return whether a typedef gives the name of a type of plain numbers to something else."""
    type_ = syntax.child_by_field_name("type")
    is_number = type_ is not None and SCALAR_TYPES.issuperset(source_of(type_).split())
    for declarator in syntax.children_by_field_name("declarator"):
        node: Node | None = declarator
        while node is not None and node.named_child_count:
            node = node.child_by_field_name("declarator") or node.named_children[0]
        is_hidden = node is not None and source_of(node) in SCALAR_TYPES
        if is_hidden and (not is_number or node is not declarator):
            return True
    return False


def _name(declarator: Node) -> str:
    """Name of a variable; empty for a function."""
    node: Node | None = declarator
    while node is not None and node.type != "identifier":
        inner = node.child_by_field_name("declarator")
        if inner is None and node.type == "parenthesized_declarator":
            inner = node.named_children[0]
        if node.type == "function_declarator" and inner is not None and inner.type == "identifier":
            return ""
        node = inner
    return "" if node is None else source_of(node)


def read_struct(syntax: Node) -> Struct | None:
    """Read the struct that a declaration defines, or None; an array in it has the name ''."""
    type_ = syntax if syntax.type == "struct_specifier" else syntax.child_by_field_name("type")
    name = type_.child_by_field_name("name") if type_ is not None else None
    body = type_.child_by_field_name("body") if type_ is not None else None
    if type_ is None or type_.type != "struct_specifier" or name is None or body is None:
        return None
    fields = []
    for member in body.named_children:
        for declarator in member.children_by_field_name("declarator"):
            node: Node | None = declarator
            while node is not None and node.type == "pointer_declarator":
                node = node.child_by_field_name("declarator")
            is_plain = node is not None and node.type == "field_identifier"
            fields.append(source_of(node) if is_plain and node is not None else "")
    return Struct(name=source_of(name), fields=tuple(fields))


def read_pool(syntax: Node, total: re.Match[str] | None) -> Pool | None:
    """Read the pool that a static variable in a section is, or None.

    Args:
        syntax: a declaration.
        total: match whose first group is the size in bytes that follows a struct of constants.
    """
    attributes = " ".join(source_of(c) for c in syntax.children if c.type == "attribute_specifier")
    type_, declarators = syntax.child_by_field_name("type"), syntax.children_by_field_name("declarator")
    is_static = any(source_of(c) == "static" for c in syntax.children if c.type == "storage_class_specifier")
    if not _SECTION.search(attributes) or type_ is None or not is_static or len(declarators) != 1:
        return None
    size: int | None = None
    is_struct = type_.type == "struct_specifier" and has_body(type_)
    if is_struct:
        size = int(total[1]) if total is not None else None
    elif source_of(type_) == "uint8_t" and declarators[0].type == "array_declarator":
        length = declarators[0].child_by_field_name("size")
        text = "" if length is None else source_of(length)
        size = int(text) if _SIZE.fullmatch(text) else None
    else:
        return None
    return Pool(name=_name(declarators[0]), size_bytes=size, is_constant=is_struct)


def read_wrapper(name: str, statements: tuple[Statement, ...]) -> EntryWrapper | None:
    """Read the call of a function whose body is ``return callee(arguments);`` and nothing else."""
    values = statements[0].values if len(statements) == 1 and isinstance(statements[0], Return) else ()
    if len(values) != 1 or values[0].kind != CALL or not values[0].text:
        return None
    return EntryWrapper(name=name, callee=values[0].text, arguments=tuple(map(_argument, values[0].args)))


def _argument(value: Expr) -> EntryArgument:
    while value.kind == CAST and value.text.endswith("*"):  # another type of the same address
        (value,) = value.args
    inner = value.args[0] if value.args else None
    if inner is not None and inner.kind == NAME and value.kind == FIELD and value.text.startswith("->"):
        return EntryArgument(group=inner.text, name=value.text[2:])
    if inner is not None and inner.kind == NAME and (value.kind, value.text) == (UNARY, "&"):
        return EntryArgument(group="&", name=inner.text)
    return EntryArgument(group="", name=value.text)
