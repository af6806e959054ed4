# SPDX-License-Identifier: Apache-2.0
"""Types of the inputs and outputs of an ahead-of-time model, where the archive states them beside the code.

The metadata states sizes and element types, and only from TVM 0.11 on. Shapes stand in two other members:
the C metadata tables (``kTvmgenMetadata_*``, TVM 0.9 and later, packed interface only), and the line of
the relay text (``src/<module>.relay``) that declares ``@main``. Nothing else of the relay text is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.ir.dtype import DType

_TENSOR = r"(?:Tensor\[\(([0-9, ]{0,400})\), ([a-z0-9]{1,20})\]|([a-z][a-z0-9]{0,19}))"
_TYPE = re.compile(_TENSOR, re.ASCII)
_ARGUMENT = re.compile(rf"%([^\s,()]{{1,1024}}): {_TENSOR}", re.ASCII)
_OPTION = re.compile(r"[a-z]\w{0,99}=", re.ASCII)  # after the arguments
_SEPARATOR = re.compile(r"[ ]*(?:,[ ]*|(?=\)))")
_MAX_LINE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Name, element type and shape of one argument or result; the name is empty when it is not stated."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of one instance."""
        return self.dtype.bytes_of(self.shape)


class MainSignature(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments (parameters included) and results of main; ``results`` is None when not stated."""

    arguments: tuple[Signature, ...]
    results: tuple[Signature, ...] | None


def parse_main_signature(relay: str) -> MainSignature | None:
    """Read the declaration of ``@main`` in relay text.

    Returns:
        None when there is none, or when any of its arguments is not a tensor of fixed shape: an argument
        that is left out would move all that follow it.
    """
    _, result, rest = relay.partition("def @main(")
    if not result:
        return None
    arguments: list[Signature] = []
    at = 0
    try:
        line = _without_comments(rest[:_MAX_LINE].partition("\n")[0])
        while not line.startswith(")", at) and _OPTION.match(line, at) is None:
            match = _ARGUMENT.match(line, at)
            if match is None:
                return None
            arguments.append(_signature(match[1], match[2], match[3] or match[4]))
            at = _next_element(line, match.end())
        results = _results(_result_type(line[at:]) or _type_of_last_value(relay))
    except InputError:
        return None
    return None if results is None else MainSignature(arguments=tuple(arguments), results=results or None)


def _next_element(line: str, at: int) -> int:
    """Position of the next element of a list, or of the parenthesis that ends it.

    Raises:
        InputError: neither a comma nor the end of the list follows.
    """
    match = _SEPARATOR.match(line, at)
    if match is None:
        raise InputError("not a list")
    return match.end()


def _result_type(rest: str) -> str:
    """Text behind the list of arguments and options, without the arrow; empty when no result is declared.

    Raises:
        InputError: the list does not end.
    """
    rest = rest.rstrip().removesuffix("{").rstrip()
    _, arrow, result = rest.rpartition(") ->")
    if not arrow and not rest.endswith(")"):
        raise InputError("the list of arguments does not end")
    return result.strip() if arrow else ""


def _without_comments(line: str) -> str:
    parts = line.split("*/")
    if "/*" in parts[-1]:
        raise InputError("a comment does not end")
    return "".join(part.partition("/*")[0] for part in parts)


def _type_of_last_value(relay: str) -> str:
    """Type in the comment at the end of the last expression; empty when there is none."""
    lines = [line for line in relay.splitlines() if line.strip() not in ("", "}")]
    _, result, comment = lines[-1].rpartition("/* ty=")
    return comment.partition(" */")[0].partition(" span=")[0] if result else ""


def _results(text: str) -> tuple[Signature, ...] | None:
    """Types in ``text``: one, or a tuple of them; None when it holds anything else."""
    if not text.startswith("("):
        match = _TYPE.fullmatch(text)
        if match is None:
            return None if text else ()
        return (_signature("", match[1], match[2] or match[3]),)
    result: list[Signature] = []
    at = 1
    while not text.startswith(")", at):
        match = _TYPE.match(text, at)
        if match is None:
            return None
        result.append(_signature("", match[1], match[2] or match[3]))
        at = _next_element(text, match.end())
    return tuple(result) if at == len(text) - 1 else None


def _signature(name: str, extents: str | None, dtype: str) -> Signature:
    """A tensor with fixed extents, or a scalar, which is written as its element type."""
    shape = tuple(int(part) for part in (extents or "").replace(",", " ").split())
    return Signature(name=name, dtype=DType.parse(dtype), shape=shape)


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
    result: dict[str, tuple[Signature, ...]] = {}
    for match in _C_ARRAY.finditer(text):
        kind, count = match.group(1), int(match.group(2))
        infos = list(_C_INFO.finditer(text[match.end() : text.find("};\n", match.end()) + 1]))
        if len(infos) != count or any((kind, i) not in shapes for i in range(count)):
            return None
        result[kind] = tuple(
            Signature(
                name=info.group(1),
                dtype=DType(code=int(info.group(2)), bits=int(info.group(3)), lanes=int(info.group(4))),
                shape=shapes[kind, i],
            )
            for i, info in enumerate(infos)
        )
    if not result.get("inputs") or not result.get("outputs"):
        return None
    return result["inputs"], result["outputs"]
