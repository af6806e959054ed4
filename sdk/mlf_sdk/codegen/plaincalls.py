# SPDX-License-Identifier: Apache-2.0
"""Plain C functions in a table of kernels: the dynamic executor calls them through adapters."""

from __future__ import annotations

import msgspec

from mlf_sdk.ir.abi import Convention, ValueKind
from mlf_sdk.ir.model import Step


class PlainCall(msgspec.Struct, frozen=True, kw_only=True):
    """Call of a plain C function with a step's tensors and workspaces.

    Attributes:
        header: member that declares the function; empty: nothing does, and it takes ``void *`` only.
        result: its C type.
        passed: C expressions, of ``data_of(args, POSITION)`` and ``workspaces[NUMBER]``.
        workspaces: bytes of each, by slot.
    """

    header: str
    result: str
    passed: tuple[str, ...]
    workspaces: tuple[int, ...]


def is_plain(step: Step) -> bool:
    """Return whether a step calls a plain C function with nothing but its tensors and workspaces."""
    values = list(step.abi.values)
    return (
        step.abi.convention is Convention.C
        and not (step.abi.unit or step.workspace_stack_bytes or step.allocated)
        and all(argument.value is not None for argument in step.abi.arguments)
        and all(v.kind in (ValueKind.TENSOR, ValueKind.WORKSPACE) and not v.offset_bytes for v in values)
    )


def plain_call(step: Step) -> PlainCall:
    """The call of a step for which `is_plain` holds."""
    slots = sorted(w.slot for w in step.workspaces)
    sizes = {w.slot: w.size_bytes for w in step.workspaces}
    passed = []
    for value in step.abi.values:
        if value.tensor is not None:
            passed.append(f"data_of(args, {step.arguments.index(value.tensor)})")
        elif value.slot is not None:
            passed.append(f"workspaces[{slots.index(value.slot)}]")
    return PlainCall(
        header=step.abi.header,
        result=step.abi.result,
        passed=tuple(passed),
        workspaces=tuple(sizes[slot] for slot in slots),
    )
