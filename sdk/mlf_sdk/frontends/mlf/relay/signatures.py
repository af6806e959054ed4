# SPDX-License-Identifier: Apache-2.0
"""Signatures of a model's main function, where the archive tells them beside the code.

Two members tell shapes that the metadata leaves out: the relay text (``src/<m>.relay``) and, from
TVM 0.9, the C metadata tables (``kTvmgenMetadata_*``) of ahead-of-time archives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlf_sdk.errors import InputError
from mlf_sdk.frontends.mlf.relay.text import UnreadableRelayError, split_list
from mlf_sdk.ir.dtype import DType

_PARAMETER = re.compile(r"%([^\s,()]{1,1024}): (.*)")
_OPTION = re.compile(r"[a-z]\w{0,99}=.*")
_TYPE = re.compile(r"Tensor\[\(([0-9, ]{0,400})\), ([a-z0-9]{1,20})\]|([a-z][a-z0-9]{0,19})", re.ASCII)
_MAX_SIGNATURE = 1 << 20
_MAX_ARGUMENTS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Name, type and shape of one argument or result; the name is empty when it is not told."""

    name: str
    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MainSignature:
    """Arguments (parameters included) and results of main; ``results`` is None when not told."""

    arguments: tuple[Signature, ...]
    results: tuple[Signature, ...] | None


def parse_relay_main(text: str) -> MainSignature | None:
    """The signature of ``@main`` in relay text; None when there is none that can be read."""
    head = "def @main("
    start = text.find(head)
    if start < 0:
        return None
    line = text[start + len(head) : start + _MAX_SIGNATURE].partition("\n")[0]
    try:
        pieces = split_list(line, _MAX_ARGUMENTS, closing=True)
        arguments = tuple(_argument(piece.text) for piece in pieces if _OPTION.fullmatch(piece.text) is None)
        told = pieces.rest.removeprefix("->").removesuffix("{").strip() or _last_type(text)
        results = _types(told) if told else None
    except (InputError, UnreadableRelayError):
        return None
    return MainSignature(arguments=arguments, results=results or None)


def _last_type(text: str) -> str:
    """The type of the last value, as its comment tells it."""
    lines = [line for line in text.splitlines() if line.strip() not in ("", "}")]
    _, mark, told = lines[-1].rpartition("/* ty=")
    return told.partition(" */")[0].partition(" span=")[0] if mark else ""


def _types(text: str) -> tuple[Signature, ...]:
    if not text.startswith("("):
        return (_type("", text),)
    pieces = split_list(text[1:], _MAX_ARGUMENTS, closing=True)
    return tuple(_type("", piece.text) for piece in pieces if piece.text)


def _argument(text: str) -> Signature:
    match = _PARAMETER.fullmatch(text)
    if match is None:
        raise UnreadableRelayError(f"an argument of main is not understood: {text[:60]!r}")
    return _type(match.group(1), match.group(2))


def _type(name: str, text: str) -> Signature:
    """A tensor with fixed extents, or a scalar, which is written as its element type."""
    match = _TYPE.fullmatch(text)
    if match is None:
        raise UnreadableRelayError(f"not the type of a tensor: {text[:60]!r}")
    extents, dtype, scalar = match.groups()
    shape = tuple(int(part) for part in (extents or "").replace(",", " ").split())
    return Signature(name=name, dtype=DType.parse(dtype or scalar), shape=shape)


_C_SHAPE = re.compile(
    r"kTvmgenMetadata_(inputs|outputs)_(\d{1,4})_shape\[\d{1,4}\] = \{([0-9L, \n]{0,2000})\}"
)
_C_INFO = re.compile(
    r'"((?:[^"\\\n]|\\.){0,1024})" /\* name\*/,.{0,200}?\{(\d{1,4}), (\d{1,4}), (\d{1,6})\} /\* dtype\*/',
    re.S,
)
_C_ARRAY = re.compile(r"struct TVMTensorInfo kTvmgenMetadata_(inputs|outputs)\[(\d{1,4})\] = \{")


def parse_c_metadata(text: str) -> tuple[tuple[Signature, ...], tuple[Signature, ...]] | None:
    """Inputs and outputs from the C metadata tables; None when the text holds none."""
    shapes = {
        (kind, int(index)): tuple(int(part) for part in re.findall(r"\d+", body))
        for kind, index, body in _C_SHAPE.findall(text)
    }
    found: dict[str, tuple[Signature, ...]] = {}
    for match in _C_ARRAY.finditer(text):
        kind, count = match.group(1), int(match.group(2))
        infos = list(_C_INFO.finditer(text[match.end() : text.find("};\n", match.end()) + 1]))
        if len(infos) != count or any((kind, i) not in shapes for i in range(count)):
            return None
        found[kind] = tuple(
            Signature(
                name=info.group(1),
                dtype=DType(code=int(info.group(2)), bits=int(info.group(3)), lanes=int(info.group(4))),
                shape=shapes[kind, i],
            )
            for i, info in enumerate(infos)
        )
    if not found.get("inputs") or not found.get("outputs"):
        return None
    return found["inputs"], found["outputs"]
