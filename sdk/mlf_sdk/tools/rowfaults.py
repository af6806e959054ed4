# SPDX-License-Identifier: Apache-2.0
"""All faults of a TOML document against the types of a row, each with its place.

msgspec stops at the first fault. Here each table is looked at by itself: keys that are not known, keys that
are missing, and each value alone. Imported when a document could not be decoded.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from mlf_sdk.tools.checks import name_hint

_PLACE = " - at `$"  # begins the place in a message of msgspec
_TABLE = "a table"
_MOST_SHOWN = 60  # characters of a value
_NAMES = {dict: _TABLE, list: "an array", str: "text", bool: "a boolean", int: "an integer", float: "a float"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of a document.

    Attributes:
        place: path of the value, such as ``memories[1].size_bytes``; empty: the document.
        what: what is wrong with it.
        unknown_key: its table has no such key: the rest of the document can be looked at without it.
    """

    place: str
    what: str
    unknown_key: bool = False

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.place}: {self.what}" if self.place else self.what


def type_faults(value: Any, kind: Any, place: str = "") -> Iterator[Fault]:  # noqa: ANN401 (any TOML value and type)
    """All faults of ``value`` as a ``kind``: structs, lists, mappings member by member, all else whole."""
    struct, items, values = _parts_of(kind)
    if struct is not None:
        yield from _table_faults(value, struct, place)
    elif items is not None and isinstance(value, list):
        for index, item in enumerate(value):
            yield from type_faults(item, items, f"{place}[{index}]")
        yield from _whole(value, kind, place, is_container=True)
    elif values is not None and isinstance(value, dict):
        key_kind, value_kind = values
        for key, item in value.items():
            inner = f"{place}.{_key(key)}" if place else _key(key)
            yield from _whole(key, key_kind, inner)
            yield from type_faults(item, value_kind, inner)
    else:
        yield from _whole(value, kind, place)


def without_unknown_keys(value: Any, kind: Any) -> Any:  # noqa: ANN401
    """Return ``value`` without the keys that the structs of ``kind`` do not have."""
    struct, items, values = _parts_of(kind)
    if struct is not None and isinstance(value, dict):
        known = _hints(struct)
        return {key: without_unknown_keys(one, known[key]) for key, one in value.items() if key in known}
    if items is not None and isinstance(value, list):
        return [without_unknown_keys(one, items) for one in value]
    if values is not None and isinstance(value, dict):
        return {key: without_unknown_keys(one, values[1]) for key, one in value.items()}
    return value


def _table_faults(value: Any, struct: type[msgspec.Struct], place: str) -> Iterator[Fault]:  # noqa: ANN401
    if not isinstance(value, dict):
        yield Fault(place=place, what=f"it must be {_TABLE}, not {_NAMES.get(type(value), 'a date')}")
        return
    hints, prefix = _hints(struct), f"{place}." if place else ""
    for key, item in value.items():
        if key in hints:
            yield from type_faults(item, hints[key], f"{prefix}{key}")
        else:
            hint = name_hint(key, hints).rstrip(".")
            yield Fault(place=f"{prefix}{_key(key)}", what=f"unknown key; {hint}", unknown_key=True)
    for field in msgspec.structs.fields(struct):
        if field.required and field.encode_name not in value:
            yield Fault(place=f"{prefix}{field.encode_name}", what="it is missing")


def _whole(value: Any, kind: Any, place: str, *, is_container: bool = False) -> Iterator[Fault]:  # noqa: ANN401
    """The fault that msgspec finds in a value; of a container only one of its own, such as its length."""
    choices = _choices(kind)
    if choices and value not in choices:
        yield Fault(place=place, what=f"{_short(value)} is none of: {', '.join(map(str, choices))}")
        return
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        what, inner, _ = str(error).partition(_PLACE)
        if not (is_container and inner):
            yield Fault(place=place, what=f"{what}; it is {_short(value)}")


def _choices(kind: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """Values that a kind allows; empty: any of its type."""
    parts = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    kinds = [one for one in parts if one is not type(None)]
    return (
        typing.get_args(kinds[0]) if len(kinds) == 1 and typing.get_origin(kinds[0]) is typing.Literal else ()
    )


def _key(key: str) -> str:
    """A key as TOML has it: quoted where it is not bare."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else repr(key)


def _short(value: Any) -> str:  # noqa: ANN401
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."


def _hints(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Types of a struct's fields by their keys."""
    hints = typing.get_type_hints(struct, include_extras=True)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(struct)}


def _parts_of(kind: Any) -> tuple[type[msgspec.Struct] | None, Any, tuple[Any, Any] | None]:  # noqa: ANN401
    """The struct of ``kind``, the type of its items, the types of its keys and values; each may be None."""
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kinds = [one for one in typing.get_args(kind) if one is not type(None)]
        return _parts_of(kinds[0]) if len(kinds) == 1 else (None, None, None)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind, None, None
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and arguments[1:] == (...,):
        return None, arguments[0], None
    if typing.get_origin(kind) is list:
        return None, arguments[0], None
    if typing.get_origin(kind) is dict:
        return None, None, (arguments[0], arguments[1])
    return None, None, None
