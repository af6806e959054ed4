# SPDX-License-Identifier: Apache-2.0
"""The fused kernels of an archive: what their names and their code tell."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from mlf_sdk.analysis.c.extents import KernelExtents, kernel_extents
from mlf_sdk.frontends.code import CodeIndex

MAX_KERNELS: Final = 2000
MAX_TOKENS: Final = 40
"""Operators in one fused function."""

_MAX_READINGS: Final = 16
_NUMBERED: Final = re.compile(r"(.+)_([1-9][0-9]{0,5})", re.ASCII)
_ENTRIES: Final = ("run", "run_model", "__tvm_main__", "get_c_metadata")


class UnderivableError(Exception):
    """The order of calls can't be derived: why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One fused function.

    Attributes:
        base, number: its name without the number that keeps namesakes apart (0: none).
        readings: operators in its name, in order; more than one where the name has several readings.
        extents: what it does with its arguments.
    """

    symbol: str
    base: str
    number: int
    readings: tuple[tuple[str, ...], ...]
    extents: KernelExtents

    @property
    def short_name(self) -> str:
        """For people: the name without the model's."""
        return f"{self.base}_{self.number}" if self.number else self.base


def find_kernels(code: CodeIndex, prefix: str, words: Collection[str]) -> tuple[Kernel, ...]:
    """All kernels of the module whose symbols begin with ``prefix``.

    Args:
        code: code of the module.
        prefix: ``tvmgen_<module>_``.
        words: names that operators of the model may have in fused functions.

    Raises:
        UnderivableError: a kernel is not C, is not understood, or is not named after operators.
    """
    if code.objects:
        raise UnderivableError("the kernels are object code")
    symbols = [s for s in code.functions if s.startswith(prefix) and s[len(prefix) :] not in _ENTRIES]
    if not symbols or len(symbols) > MAX_KERNELS:
        raise UnderivableError(f"there are {len(symbols)} kernels")
    return tuple(_kernel(code, symbol, symbol[len(prefix) :], words) for symbol in sorted(symbols))


def _kernel(code: CodeIndex, symbol: str, name: str, words: Collection[str]) -> Kernel:
    numbered = _NUMBERED.fullmatch(name)
    base, number = (numbered.group(1), int(numbered.group(2))) if numbered else (name, 0)
    readings = _readings(base.removeprefix("fused_"), words) if base.startswith("fused_") else ()
    if not readings:
        raise UnderivableError(f"the kernel {symbol[:128]} is not named after operators of the model")
    extents = kernel_extents(code.functions[symbol], macros=code.header_macros)
    if extents.reason:
        raise UnderivableError(f"the kernel {symbol[:128]} is not understood: {extents.reason}")
    if not extents.outputs:
        raise UnderivableError(f"the kernel {symbol[:128]} does not write its last arguments, and only those")
    return Kernel(symbol=symbol, base=base, number=number, readings=readings, extents=extents)


def _readings(text: str, words: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """All ways to read ``text`` as words joined by underscores, at most a few."""
    parts = text.split("_")
    longest = max((word.count("_") + 1 for word in words), default=0)
    found: list[list[tuple[str, ...]]] = [[()]]
    for end in range(1, len(parts) + 1):
        here: list[tuple[str, ...]] = []
        for start in range(max(0, end - longest), end):
            if "_".join(parts[start:end]) in words:
                here += [(*reading, "_".join(parts[start:end])) for reading in found[start]]
        found.append([reading for reading in here if len(reading) <= MAX_TOKENS][: _MAX_READINGS + 1])
    if len(found[-1]) > _MAX_READINGS:
        raise UnderivableError(f"the name {text[:100]!r} has too many readings")
    return tuple(found[-1])
