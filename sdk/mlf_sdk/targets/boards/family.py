# SPDX-License-Identifier: Apache-2.0
"""Families of chips (``board_templates/families``): console, clock after a reset, pins, with sources."""

from __future__ import annotations

import re
from functools import cache

import msgspec

from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.row import Init, Positive, Uart
from mlf_sdk.tools.rowfile import read_row


class Family(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts that the chips of a family share.

    Attributes:
        chips: pattern of the names of its chips.
        source: files that state the facts, and what was not looked up.
        fpu: as GCC's ``-mfpu`` takes it.
        clock_hz: rate of the core after a reset; None: not known.
        clock: what gives that rate.
        pins: the console's, for people; empty: not known.
        questions: what the facts leave open.
        uart: the console.
        init: writes that switch on its clock and select its pins.
        second_stage: writes that set up the flash, where the boot ROM wants them.
    """

    chips: str
    source: str
    fpu: str = "none"
    clock_hz: Positive | None = None
    clock: str = ""
    pins: str = ""
    questions: tuple[str, ...] = ()
    uart: Uart
    init: tuple[Init, ...] = ()
    second_stage: tuple[Init, ...] = ()


@cache
def load_families() -> tuple[Family, ...]:
    """All families.

    Raises:
        InputError: a row is not as it must be.
    """
    folder = data_dir("board_templates") / "families"
    return tuple(read_row(path, Family) for path in sorted(folder.glob("*.toml")))


def family_of(chip: str) -> Family | None:
    """The family of a chip by its name; None: none is known."""
    return next((one for one in load_families() if re.fullmatch(one.chips, chip)), None)
