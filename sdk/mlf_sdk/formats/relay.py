# SPDX-License-Identifier: Apache-2.0
"""Signatures of a model's main function, where the archive tells them beside the code.

Two members tell shapes that the metadata leaves out: the relay text (``src/<m>.relay``) and, from
TVM 0.9, the C metadata tables (``kTvmgenMetadata_*``) of ahead-of-time archives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mlf_sdk.errors import InputError
from mlf_sdk.formats.dtype import DType

_PARAMETER = re.compile(r"%([^\s,()]+): Tensor\[\(([0-9, ]*)\), ([a-z0-9]+)\]")
_TENSOR = re.compile(r"Tensor\[\(([0-9, ]*)\), ([a-z0-9]+)\]")
_LAST_TYPE = re.compile(r"/\* ty=(.*) \*/")
_MAX_SIGNATURE = 1 << 20


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
    start = text.find("def @main(")
    if start < 0:
        return None
    line = text[start : start + _MAX_SIGNATURE].partition("\n")[0]
    head, _, tail = line.partition(") -> ")
    try:
        arguments = tuple(
            Signature(name=name, dtype=DType.parse(dtype), shape=_shape(shape))
            for name, shape, dtype in _PARAMETER.findall(head)
        )
        results = tuple(_tensors(tail)) if tail else _last_type(text)
    except (InputError, ValueError):
        return None
    return MainSignature(arguments=arguments, results=results or None)


def _last_type(text: str) -> tuple[Signature, ...]:
    lines = [line for line in text.rstrip().splitlines() if line.strip() not in ("", "}")]
    found = _LAST_TYPE.search(lines[-1]) if lines else None
    return tuple(_tensors(found.group(1))) if found else ()


def _tensors(text: str) -> Iterator[Signature]:
    for shape, dtype in _TENSOR.findall(text):
        yield Signature(name="", dtype=DType.parse(dtype), shape=_shape(shape))


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.replace(",", " ").split())


_C_SHAPE = re.compile(
    r"kTvmgenMetadata_(inputs|outputs)_(\d{1,4})_shape\[\d{1,4}\] = \{([-0-9L, \n]{0,2000})\}"
)
_C_INFO = re.compile(
    r'"((?:[^"\\\n]|\\.){0,1024})" /\* name\*/,.{0,200}?\{(\d+), (\d+), (\d+)\} /\* dtype\*/', re.S
)
_C_ARRAY = re.compile(r"struct TVMTensorInfo kTvmgenMetadata_(inputs|outputs)\[(\d{1,4})\] = \{")


def parse_c_metadata(text: str) -> tuple[tuple[Signature, ...], tuple[Signature, ...]] | None:
    """Inputs and outputs from the C metadata tables; None when the text holds none."""
    shapes = {
        (kind, int(index)): tuple(int(part) for part in re.findall(r"-?\d+", body))
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
