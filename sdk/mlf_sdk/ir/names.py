# SPDX-License-Identifier: Apache-2.0
"""Names from an archive made safe for C, CMake and paths: legal, unique, bounded."""

from __future__ import annotations

import hashlib
import re

from mlf_sdk.tools.ctext import RESERVED

MAX_LENGTH = 63  # significant initial characters of an internal identifier, C99 5.2.4.1


def legal_identifier(name: str, *, fallback: str = "x", max_length: int = MAX_LENGTH) -> str:
    """``name`` as a C identifier of at most ``max_length`` ASCII characters.

    Long names keep their head and end with eight digits of their hash, so that they stay apart.
    """
    text = re.sub(r"[^A-Za-z0-9_]", "_", name).strip("_") or fallback
    text = re.sub(r"__+", "_", text)
    if text[0].isdigit():
        text = f"{fallback}{text}"
    if text in RESERVED:
        text += "_"
    if len(text) > max_length:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        text = f"{text[: max_length - 9]}_{digest}"
    return text


def field_identifier(name: str) -> str:
    """``name`` as compilers spell it in a C header: each character that C does not allow becomes ``_``."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def model_c_name(name: str) -> str:
    """Identifier of a model in C, out of the way of the runtime's names."""
    c_name = legal_identifier(name, fallback="model", max_length=40)
    if c_name.startswith(("mlf_", "tvm", "TVM")) or c_name in ("mlf", "app", "board"):
        return f"m_{c_name}"
    return c_name


class NameTable:
    """Hands out unique identifiers; two names that legalise alike get different ones."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._taken = set(taken)

    def unique(self, name: str, *, fallback: str = "x", max_length: int = MAX_LENGTH) -> str:
        """A legal identifier for ``name`` that was not handed out before."""
        base = legal_identifier(name, fallback=fallback, max_length=max_length)
        candidate, count = base, 1
        while candidate.lower() in self._taken:
            count += 1
            suffix = f"_{count}"
            candidate = base[: max_length - len(suffix)] + suffix
        self._taken.add(candidate.lower())
        return candidate


_LAYER = re.compile(r"rows_layer_(\d+)_")


def layer_function(number: int, name: str) -> str:
    """Name of the function of a layer that runs by rows, inside the step of its region.

    Args:
        number: of the layer in the source model.
        name: which tells its functions apart.
    """
    return f"rows_layer_{number}_{name}"


def layer_of_function(function: str) -> int | None:
    """Number of the layer whose function has this name, as compilers append to it; None for all others."""
    match = _LAYER.match(function)
    return int(match[1]) if match else None


def input_symbol(c_name: str) -> str:
    """Symbol of the application's buffer for inputs that do not lie in the arena."""
    return f"{c_name}_input_memory"
