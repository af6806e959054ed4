# SPDX-License-Identifier: Apache-2.0
"""The sizes of an image that budgets limit and baselines keep: totals, sections, symbols, models."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.codegen.lock import Lock
from mlf_sdk.errors import InputError
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.judge.memorymap import file_bytes

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"(\d[\d_,]*|\d+\.\d+)\s*(?:([kmg]?)(?:i?b)?)?", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes of an image.

    Attributes:
        flash: of everything that the image file holds, with the padding that the linker counts.
        ram: of everything that is written at run time, the stack's reservation and padding included.
        stack: the static bound; None where it is not known, and ``stack_note`` says why.
        sections, symbols: by name; symbols of one name (local ones) together.
        models: by model and kind: ``digits arena``, ``digits params``.
    """

    flash: int
    ram: int
    stack: int | None
    stack_note: str
    sections: dict[str, int]
    symbols: dict[str, int]
    models: dict[str, int]


def measure_sizes(lock: Lock, image: Image, report: CheckReport) -> Sizes:
    """The sizes of a linked image."""
    sections: Counter[str] = Counter()
    for section in image.sections:
        sections[section.name] += section.size_bytes
    flash, ram = _totals(image, report)
    symbols: Counter[str] = Counter()
    for symbol in image.symbols:
        if symbol.size_bytes:
            symbols[symbol.name] += symbol.size_bytes
    bound = report.stack
    known = bound is not None and bound.is_complete
    note = "no static bound: nothing reads the machine code" if bound is None else ""
    return Sizes(
        flash=flash,
        ram=ram,
        stack=bound.bytes if bound is not None and known else None,
        stack_note=f"no static bound: {bound.image.unknown[0]}" if bound is not None and not known else note,
        sections=sections,
        symbols=symbols,
        models={
            f"{model.name} {what}": size
            for model in lock.models
            for what, size in (("arena", model.arena_bytes), ("params", model.params_bytes))
        },
    )


def _totals(image: Image, report: CheckReport) -> tuple[int, int]:
    """Bytes of flash and RAM: the linker's use of each memory, or the sections where none is known."""
    if report.regions:
        flash = sum(file_bytes(image.sections, region) for region in report.regions)
        return flash, sum(region.used_bytes for region in report.regions) - flash
    held = [s for s in image.sections if s.in_file]
    written = [s for s in image.sections if not s.in_file or s.load_address != s.address]
    return sum(s.size_bytes for s in held), sum(s.size_bytes for s in written)


def parse_size(value: int | str, where: str) -> int:
    """Bytes of ``65536``, ``64K``, ``64KiB`` or ``1.5M``: units are powers of 1024.

    Raises:
        InputError: it is no size.
    """
    if isinstance(value, int):
        if value < 0:
            raise InputError(f"{value} is no size", where=where, hint="Give bytes from 0 on.")
        return value
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise InputError(
            f"'{value}' is no size", where=where, hint="Give bytes, as 65536, 64K, 64KiB or 1.5M."
        )
    number = float(match.group(1).replace("_", "").replace(",", ""))
    size = number * _UNITS[(match.group(2) or "").lower()]
    if not size.is_integer() or not math.isfinite(size):
        raise InputError(f"'{value}' is not a whole number of bytes", where=where)
    return int(size)
