# SPDX-License-Identifier: Apache-2.0
"""Findings about an archive on a board: code for another CPU, floats in software, missing buffers."""

from __future__ import annotations

from collections.abc import Iterator

from mlf_sdk.analysis.elf.objects import ObjectInfo, check_object_against
from mlf_sdk.ir.model import Finding, Model, computes_in_double, lacks_scratch
from mlf_sdk.targets.boards.requirements import DSP_HEADERS, linked_objects
from mlf_sdk.targets.boards.row import Board

_NO_FPU = ("", "none")
_DOUBLE_FPUS = ("fpv5-d16", "auto")
_OTHER = "refused: choose a board that fits, or export the model again for this one"


def board_findings(model: Model, board: Board) -> tuple[Finding, ...]:
    """All findings about a model's code on a board; those that block make it impossible there."""
    if not board.cpu:
        return ()
    return (*_objects(model, board), *_cmsis_nn(model, board), *_double(model, board))


def _objects(model: Model, board: Board) -> Iterator[Finding]:
    for unit, info in linked_objects(model):
        problems = check_object_against(board.cpu, board.fpu, board.float_abi, info)
        for problem in problems:
            yield Finding(where=unit.member, what=problem, handled=_OTHER, blocks=True)
        if not problems and board.fpu not in _NO_FPU and _is_soft_float(info):
            yield Finding(
                where=unit.member,
                what=f"computes floats in software; {board.name} has an FPU ({board.fpu})",
                handled="works, and is slow: export the model with -mfloat-abi for this board",
            )


def _is_soft_float(info: ObjectInfo) -> bool:
    """Return True when an object calls the compiler's float routines and has no FPU instructions."""
    calls = any(name.startswith(("__aeabi_f", "__addsf3", "__mulsf3")) for name in info.undefined)
    return calls and info.attributes is not None and not info.attributes.may_use_fpu()


def _cmsis_nn(model: Model, board: Board) -> Iterator[Finding]:
    if any(header in DSP_HEADERS for header in model.external_headers) and not board.dsp:
        yield Finding(
            where="codegen",
            what=f"its kernels use the DSP instructions, which the {board.cpu} of {board.name} does not have",
            handled=_OTHER,
            blocks=True,
        )
    if board.dsp and lacks_scratch(model):
        yield Finding(
            where="codegen",
            what="its CMSIS-NN calls carry no scratch buffers; with the DSP instructions of "
            f"{board.name} they need some",
            handled="its kernels fail there: choose a board without them, or export with this CPU's -mcpu",
            blocks=True,
        )


def _double(model: Model, board: Board) -> Iterator[Finding]:
    if board.fpu in _DOUBLE_FPUS:
        return
    has = "has no FPU" if board.fpu in _NO_FPU else f"has an FPU for float only ({board.fpu})"
    for member in computes_in_double(model):
        yield Finding(
            where=member,
            what=f"computes in double; {board.name} {has}",
            handled="works, in software and slow: export the model in float32",
        )
