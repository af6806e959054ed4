# SPDX-License-Identifier: Apache-2.0
"""Layouts of the models of one image in the memories of its board."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.errors import InputError
from mlf_sdk.ir.model import Model
from mlf_sdk.planner.ahead import place_ahead
from mlf_sdk.planner.layout import Bank, ModelLayout
from mlf_sdk.planner.memories import check_pins, parse_pins
from mlf_sdk.planner.spread import Placement
from mlf_sdk.targets.boards.banks import banks_of, code_memory
from mlf_sdk.targets.boards.row import Board


def placements(models: Sequence[Model], board: Board, options: ProjectOptions) -> tuple[Placement, ...]:
    """Places of models one after the other, each in the room that those before it leave.

    Raises:
        DoesNotFitError: the memories are too small.
        InputError: the board has no memories, or not those that were named.
    """
    banks = banks_of(board, options)
    if not banks:
        raise InputError(
            f"the memories of {board.name} are not known here",
            where="--place",
            hint="Leave it out, or choose a bare-metal board (mlf-sdk boards)."
            if board.platform != "zephyr"
            else "Give the memories of its row zephyr = REGION, FLASH and RAM among them (howto-memories).",
        )
    pins = parse_pins(options.place)
    code_memory(board, options.place)
    check_pins(pins, banks, f"board {board.name}")
    result = []
    for model in models:
        placement = place_ahead(model, banks, pins, keep_inputs=options.keep_inputs)
        result.append(placement)
        banks = tuple(_without(bank, placement.layout) for bank in banks)
    return tuple(result)


def _without(bank: Bank, layout: ModelLayout) -> Bank:
    """Memory with less room, for the next model."""
    taken = sum(
        part.size_bytes + layout.alignment
        for part in (*layout.arenas, *layout.params)
        if part.bank.name == bank.name
    )
    if layout.state_bank is not None and layout.state_bank.name == bank.name:
        taken += layout.state_bytes + layout.alignment
    return msgspec.structs.replace(bank, size_bytes=max(0, bank.size_bytes - taken))
