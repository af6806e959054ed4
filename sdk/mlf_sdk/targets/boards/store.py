# SPDX-License-Identifier: Apache-2.0
"""Slots of a board for parameters that can be replaced (dynamic executor)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlf_sdk.errors import DoesNotFitError, NotPossibleError
from mlf_sdk.ir.model import Model
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.targets.boards.row import Board

SLOTS = 2
_BLOB_AT = 64  # MLF_STORE_BLOB_AT of crt/params/mlf_store.h
_ERASE_BYTES = 64  # MLF_STORE_RAM_ERASE_BYTES of crt/params/mlf_store_ram.h


def check_store(models: Sequence[Model], board: Board) -> None:
    """Check that the dynamic executor can run the models on the board.

    Raises:
        NotPossibleError: a model of another executor, or a platform without a store.
    """
    from mlf_sdk.codegen.dynamic import check_dynamic

    for model in models:
        check_dynamic(model)
    if board.platform not in ("baremetal", "host"):
        raise NotPossibleError(
            "the dynamic executor is there for bare metal and for the host only",
            where=f"board {board.name}",
            hint="Choose such a board, or generate without --executor.",
        )


def store_bytes_of(layout: ModelLayout, *, sealed: bool = False) -> int:
    """Bytes of the slots of one model; 0 when it has no parameters.

    Args:
        sealed: packages go into them.
    """
    if not layout.params_bytes:
        return 0
    from mlf_sdk.codegen.dynamic import seal_bytes
    from mlf_sdk.codegen.paramsblob import HEADER

    needed = layout.params_bytes + HEADER.size + _BLOB_AT + (seal_bytes(layout) if sealed else 0)
    return SLOTS * ((needed + _ERASE_BYTES - 1) // _ERASE_BYTES * _ERASE_BYTES)


def store_values(board: Board, store_bytes: int) -> dict[str, Any]:
    """Values for ``dynamic_model.c.j2``: the section of the slots, or that they are kept in a file.

    A board with more RAM than it runs in keeps them there, else they share the RAM of everything else.

    Raises:
        DoesNotFitError: no RAM of the board is as large.
    """
    if board.platform == "host":
        return {"store": {"in_file": True, "section": ""}}
    more = [m for m in board.memories if m.kind == "ram" and m.name != board.ram.name]
    fitting = [m for m in more if m.size_bytes >= store_bytes]
    if not fitting and store_bytes > board.ram.size_bytes:
        raise DoesNotFitError(
            f"two slots for parameters take {store_bytes:,} bytes; {board.ram.name} has "
            f"{board.ram.size_bytes:,}",
            where=f"board {board.name}",
            hint="Generate without --executor, or choose a board with more memory.",
        )
    section = f".mlf.{fitting[0].name}.noinit" if fitting else ".bss.noinit"
    return {"store": {"in_file": False, "section": section}}
