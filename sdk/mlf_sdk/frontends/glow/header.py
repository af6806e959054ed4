# SPDX-License-Identifier: Apache-2.0
"""The header of a bundle: entries, placeholders and sizes, in comments, macros and prototypes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.glow.bundle import (
    MAX_PLACEHOLDERS,
    Entry,
    Memory,
    Placeholder,
    check_memory,
    check_placeholders,
)
from mlf_sdk.frontends.glow.origin import Origin, parse_origin
from mlf_sdk.frontends.glow.types import TypeTextError, parse_type
from mlf_sdk.tools.checks import shown

MAX_BYTES: Final = 4 << 20
HEAD_BYTES: Final = 16 << 10

_GUARD: Final = re.compile(r"^[ \t]*#[ \t]*ifndef[ \t]+_GLOW_BUNDLE_(\w+)_H[ \t]*$", re.ASCII | re.MULTILINE)
_COMMON: Final = "_GLOW_BUNDLE_COMMON_DEFS"
_VERSION: Final = re.compile(r"^// Glow Tools version: (.{1,120})$", re.MULTILINE)
_MODEL: Final = re.compile(r'^// Model name: "([^"\n]{0,1024})"', re.MULTILINE)
_OUTPUTS: Final = re.compile(r"^// Outputs: (\w{1,1024}(?:, \w{1,1024}){0,63})$", re.ASCII | re.MULTILINE)
_MACRO: Final = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([0-9]{1,12})[ \t]*$", re.ASCII | re.MULTILINE
)
_CONFIG: Final = re.compile(r"\bBundleConfig[ \t]+(\w+)_config[ \t]*;", re.ASCII)
_ENTRY: Final = re.compile(
    r"\b(int|void)\s+(\w+)\s*\(\s*uint8_t\s*\*\s*\w*\s*,\s*uint8_t\s*\*\s*\w*\s*,\s*uint8_t\s*\*\s*\w*\s*\)\s*;",
    re.ASCII,
)
_FIELD: Final = re.compile(
    r"//\s+(?:Name: \"(?P<name>[^\"]*)\""
    r"|Type: (?P<type>.*?)"
    r"|Shape: (?P<shape>.*?)"
    r"|Size: (?P<elements>[0-9]{1,12}) \(elements\)"
    r"|Size: (?P<bytes>[0-9]{1,12}) \(bytes\)"
    r"|Offset: (?P<offset>[0-9]{1,12}) \(bytes\))\s*"
)
_NEEDED: Final = frozenset({"name", "type", "elements", "bytes", "offset"})
_SIZES: Final = ("CONSTANT_MEM_SIZE", "MUTABLE_MEM_SIZE", "ACTIVATIONS_MEM_SIZE", "MEM_ALIGN")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w{0,1023}", re.ASCII)


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """A header, read and checked.

    Attributes:
        version: of Glow, e.g. ``2022-05-19 (2ee55ec50)``; empty when it states none.
        model_name: as its comment states it; may be empty.
        config: name of the bundle whose configuration the object holds (dynamic API); empty for the static.
        memory: None: the configuration states it.
        outputs: names of the placeholders that are; empty: not stated, as in headers of Glow's own.
        origin: of a model that was compiled before; None: not stated.
    """

    version: str
    model_name: str
    config: str
    memory: Memory | None
    placeholders: tuple[Placeholder, ...]
    entries: tuple[Entry, ...]
    outputs: tuple[str, ...] = ()
    origin: Origin | None = None


def is_header(head: bytes) -> bool:
    """Return whether a text begins like the header of a bundle."""
    text = head.decode("latin-1")
    return _COMMON in text and _GUARD.search(text.replace("\r\n", "\n")) is not None


def parse_header(data: bytes, member: str, faults: FaultCollector) -> Header | None:
    """Read the header of a bundle; None when it is unusable, and ``faults`` say why."""
    if len(data) > MAX_BYTES:
        faults.add(member, f"the header has more than {MAX_BYTES} bytes")
        return None
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    entries = tuple(Entry(name=name, result=result) for result, name in _ENTRY.findall(text))
    if not entries:
        faults.add(member, "there is no prototype of an entry: int NAME(uint8_t *, uint8_t *, uint8_t *)")
    if len({entry.name for entry in entries}) != len(entries):
        faults.add(member, "two entries have one name")
    config = _CONFIG.search(text)
    macros = {name: int(value) for name, value in _MACRO.findall(text)}
    prefix = _prefix(text)
    memory = None if config else _memory(macros, prefix, member, faults)
    placeholders = tuple(_placeholders(text.split("\n"), member, faults))
    if not placeholders:
        faults.add(member, "it lists no placeholders")
    if memory is not None:
        check_memory(memory, member, faults)
        check_placeholders(placeholders, memory, member, faults)
        _check_macros(placeholders, macros, prefix, member, faults)
    return Header(
        version=_first(_VERSION, text).removesuffix(" ()"),
        model_name=_first(_MODEL, text),
        config=config[1] if config else "",
        memory=memory,
        placeholders=placeholders,
        entries=entries,
        outputs=tuple(filter(None, _first(_OUTPUTS, text).split(", "))),
        origin=parse_origin(text, member, faults),
    )


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1].strip() if match else ""


def _prefix(text: str) -> str:
    """Prefix of the macros: the name in the include guard."""
    match = _GUARD.search(text)
    return f"{match[1]}_" if match else ""


def _memory(macros: dict[str, int], prefix: str, member: str, faults: FaultCollector) -> Memory | None:
    missing = [f"{prefix}{name}" for name in _SIZES if f"{prefix}{name}" not in macros]
    if missing:
        faults.add(member, f"it defines no {', '.join(missing)}")
        return None
    constant, mutable, activations, alignment = (macros[f"{prefix}{name}"] for name in _SIZES)
    return Memory(constant=constant, mutable=mutable, activations=activations, alignment=alignment)


def _placeholders(lines: Sequence[str], member: str, faults: FaultCollector) -> Iterator[Placeholder]:
    """Yield the placeholders of the first list in the comments; a list of constants may follow it."""
    starts = [number for number, line in enumerate(lines) if line.rstrip() == "// Placeholders:"]
    fields: dict[str, str] = {}
    count = 0
    for number in range(starts[0] + 1 if starts else len(lines), len(lines)):
        match = _FIELD.fullmatch(lines[number])
        kind = "" if match is None else str(match.lastgroup)
        if kind in ("", "name"):
            if fields:
                count += 1
                yield from _placeholder(fields, member, faults)
            fields = {}
        if match is None:
            if lines[number].strip() == "//":
                continue
            return
        if count >= MAX_PLACEHOLDERS:
            faults.add(member, f"it lists more than {MAX_PLACEHOLDERS} placeholders")
            return
        fields[kind] = match[kind]


def _placeholder(fields: dict[str, str], member: str, faults: FaultCollector) -> Iterator[Placeholder]:
    name = fields.get("name", "")
    missing = sorted(_NEEDED - fields.keys())
    if missing or not _IDENTIFIER.fullmatch(name):
        faults.add(member, f"the placeholder {shown(name)} lacks {', '.join(missing) or 'a usable name'}")
        return
    try:
        kind = parse_type(fields["type"] + fields.get("shape", ""))
    except TypeTextError as error:
        faults.add(member, f"the placeholder {shown(name)}: {error}")
        return
    stated = int(fields["elements"]), int(fields["bytes"])
    if stated != (kind.elements, kind.size_bytes):
        faults.add(
            member,
            f"the placeholder {shown(name)} states {stated[0]} elements and {stated[1]} bytes; its type "
            f"takes {kind.elements} and {kind.size_bytes}",
        )
        return
    yield Placeholder(name=name, offset=int(fields["offset"]), elements=kind.elements, type=kind)


def _check_macros(
    placeholders: Sequence[Placeholder],
    macros: dict[str, int],
    prefix: str,
    member: str,
    faults: FaultCollector,
) -> None:
    """Check that the macros state the offsets of the comments, and no others."""
    for placeholder in placeholders:
        macro = f"{prefix}{placeholder.name}"
        if macro not in macros:
            faults.add(member, f"there is no macro {shown(macro)}")
        elif macros[macro] != placeholder.offset:
            faults.add(
                member,
                f"the macro {shown(macro)} is {macros[macro]}, "
                f"the comment states offset {placeholder.offset}",
            )
