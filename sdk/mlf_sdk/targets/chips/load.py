# SPDX-License-Identifier: Apache-2.0
"""Look-up of chip rows by names as people write them: ``STM32L4R5ZI``, ``stm32f411``, ``nucleo_f411re``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache

from mlf_sdk.errors import InputError
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.chips.row import Chip
from mlf_sdk.tools.rowfile import read_row

_LEAST = 6  # characters of a beginning that names a chip


@cache
def load_chips() -> Mapping[str, Chip]:
    """All chips by name, sorted.

    Raises:
        InputError: a row is not as it must be.
    """
    folder = data_dir("board_templates") / "chips"
    rows = (read_row(path, Chip) for path in sorted(folder.glob("*.toml")))
    return {row.name: row for row in rows}


def chips_named(text: str) -> tuple[Chip, ...]:
    """Chips that a text may mean: by name, by a part number, by its beginning, or by one of their boards.

    A letter x of a name stands for any letter of a part number, and what follows a name is its package.
    """
    wanted = text.lower().replace("-", "_")
    chips = load_chips()
    if wanted in chips:
        return (chips[wanted],)
    by_part = tuple(chip for chip in chips.values() if _pattern(chip.name).match(wanted))
    if by_part:
        longest = max(len(chip.name) for chip in by_part)
        return tuple(chip for chip in by_part if len(chip.name) == longest)
    if len(wanted) >= _LEAST and (begun := tuple(c for c in chips.values() if c.name.startswith(wanted))):
        return begun
    return tuple(
        c for c in chips.values() if any(wanted in (b, b.partition("/")[0]) for b in c.zephyr_boards)
    )


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """Pattern of part numbers: a family name of an STM32 leaves letters open."""
    return re.compile(re.sub("x", "[a-z0-9]", name) if name.startswith("stm32") else re.escape(name))


def find_chip(text: str) -> Chip:
    """The chip that ``text`` names.

    Raises:
        InputError: there is none, or there are several.
    """
    result = chips_named(text)
    if len(result) == 1:
        return result[0]
    if result:
        names = ", ".join(chip.name for chip in result)
        raise InputError(f"'{text}' may be several chips", where="--chip", hint=f"Which one: {names}?")
    close = difflib.get_close_matches(text.lower(), load_chips(), n=3, cutoff=0.6)
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    raise InputError(f"there is no chip '{text}'", where="--chip", hint=f"{hint}See: mlf-sdk chips")
