# SPDX-License-Identifier: Apache-2.0
"""Check that a project can fit its board, before anything is built."""

from __future__ import annotations

from collections.abc import Sequence

from mlf_sdk.codegen.link import Linkage
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.errors import DoesNotFitError
from mlf_sdk.ir.model import Model
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.targets.boards.row import Board

SERVER_STATE_BYTES = 128  # the RPC server beside its two message buffers, at least


def check_fit(
    layouts: Sequence[ModelLayout], linkages: Sequence[Linkage], board: Board, options: ProjectOptions
) -> None:
    """Reject a model that can't fit: minimum size of the image against the board's first memories.

    Raises:
        DoesNotFitError: with the bytes needed and available, and ways to reduce them.
    """
    if board.platform == "host" or not board.memories:
        return
    params = sum(layout.params_bytes for layout in layouts)
    models = [layout.model for layout in layouts]
    arenas = sum(link.arena_reserved_bytes for link in linkages if link.owns_arena)
    rpc = board.rpc
    server = 2 * rpc.max_payload + rpc.window_bytes + SERVER_STATE_BYTES if options.app == "rpc" else 0
    in_ram = params if options.params == "ram" else 0
    parts = {
        "arena": arenas,
        "stack": board.stack_bytes,
        "RPC server": server,
        "input of the benchmark": _benchmark_bytes(models, options),
        "parameters": in_ram,
    }
    _refuse("RAM", board.ram.name, board.ram.size_bytes, parts, board, _ram_hints(layouts, options))
    _refuse("flash", board.flash.name, board.flash.size_bytes, {"parameters": params}, board, [])


def _benchmark_bytes(models: Sequence[Model], options: ProjectOptions) -> int:
    if options.app != "mlperf":
        return 0
    from mlf_sdk.codegen.mlperf import input_bytes_of

    return input_bytes_of(models, options)


def _ram_hints(layouts: Sequence[ModelLayout], options: ProjectOptions) -> list[str]:
    hints = []
    if options.params == "ram":
        hints.append("--params flash")
    if options.keep_inputs:
        hints.append("no --keep-inputs")
    if len(layouts) > 1 and not options.share_arena:
        hints.append("--share-arena, when the models never run at once")
    return hints


def _refuse(
    kind: str, memory: str, has_bytes: int, parts: dict[str, int], board: Board, hints: list[str]
) -> None:
    needs = sum(parts.values())
    if needs <= has_bytes:
        return
    listed = ", ".join(f"{name} {size:,}" for name, size in parts.items() if size)
    raise DoesNotFitError(
        f"it does not fit: it needs at least {needs:,} bytes of {kind} ({listed}), "
        f"and {memory} has {has_bytes:,}",
        where=f"board {board.name}",
        hint="What would help: " + "; ".join([*hints, "a board with more memory", "a smaller model"]) + ".",
    )
