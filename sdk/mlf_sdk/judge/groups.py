# SPDX-License-Identifier: Apache-2.0
"""Bytes of an image by kind of symbol."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.codegen.lock import Lock

_RUNTIME_PREFIXES = ("mlf_", "TVMBackend", "TVMAPI")


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedItem:
    """Function or group of symbols and its bytes in the image."""

    name: str
    size_bytes: int


def kernel_sizes(lock: Lock, image: Image) -> list[SizedItem]:
    """Functions of the models and their bytes in the image."""
    names = dict.fromkeys(s for model in lock.models for s in model.kernel_symbols)
    result = [image.find(name) for name in names]
    return [SizedItem(name=s.name, size_bytes=s.size_bytes) for s in result if s is not None]


def group_sizes(lock: Lock, image: Image) -> list[SizedItem]:
    """Sum the bytes of the symbols of each kind."""
    kernels = {s for model in lock.models for s in (*model.kernel_symbols, *model.code_symbols)}
    arenas = {symbol for model in lock.models for symbol in model.arena_symbols}
    params = {symbol for model in lock.models for symbol in model.params_symbols}
    prefixes = tuple(f"{model.c_name}_" for model in lock.models)
    sizes = dict.fromkeys(["arena", "parameters", "kernels", "model tables", "runtime", "other"], 0)
    seen: set[tuple[int, str]] = set()
    for symbol in image.symbols:
        if (symbol.address, symbol.section) in seen or not symbol.size_bytes:
            continue
        seen.add((symbol.address, symbol.section))
        name = symbol.name
        if name in arenas:
            group = "arena"
        elif name in params:
            group = "parameters"
        elif name in kernels:
            group = "kernels"
        elif name.startswith(prefixes):
            group = "model tables"
        elif name.startswith(_RUNTIME_PREFIXES) or name in ("main", "rpc", "state", "models"):
            group = "runtime"
        else:
            group = "other"
        sizes[group] += symbol.size_bytes
    return [SizedItem(name=name, size_bytes=size) for name, size in sizes.items()]
