# SPDX-License-Identifier: Apache-2.0
"""Tensors that share memory in place of a call that only copies from one to the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from mlf_sdk.frontends.mlf.extension import CallFacts
from mlf_sdk.ir.model import Tensor, TensorKind

ALIGNMENT: Final = 4
"""Of parts of tensors, in bytes: kernels may read words."""


def share_memory(
    facts: CallFacts, tensors: list[Tensor], inputs: Sequence[int], outputs: Sequence[int]
) -> bool:
    """Make outputs parts of an input, or inputs parts of an output.

    Returns:
        False, with nothing changed, where the call is needed: a part that has a place already, memory that is
        not the run's alone, or offsets that kernels can't work with.
    """
    if facts.slices and len(facts.slices) == len(outputs) and inputs:
        return _slice(tensors, inputs[0], outputs, facts.slices)
    if facts.joins and len(facts.joins) == len(inputs) and len(outputs) == 1:
        return _join(tensors, inputs, facts.joins, outputs[0])
    return False


def _slice(tensors: list[Tensor], whole: int, parts: Sequence[int], offsets: Sequence[int]) -> bool:
    root = tensors[whole]
    while root.alias_of is not None:
        root = tensors[root.alias_of]
    room = tensors[whole].size_bytes
    fits = all(o + tensors[p].size_bytes <= room for p, o in zip(parts, offsets, strict=True))
    if not fits or root.kind is not TensorKind.INTERMEDIATE or any(o % ALIGNMENT for o in offsets):
        return False
    _place(tensors, whole, parts, offsets)
    return True


def _join(tensors: list[Tensor], inputs: Sequence[int], offsets: Sequence[int], whole: int) -> bool:
    parts = [_storage(tensors, x) for x in inputs]
    end = 0
    for part, offset in sorted(zip(parts, offsets, strict=True), key=lambda pair: pair[1]):
        tensor = tensors[part]
        free = tensor.alias_of is None and tensor.kind is TensorKind.INTERMEDIATE
        if not free or offset != end or offset % ALIGNMENT:
            return False
        end += tensor.size_bytes
    if len(set(parts)) != len(parts) or end != tensors[whole].size_bytes:
        return False
    _place(tensors, whole, parts, offsets)
    return True


def _storage(tensors: list[Tensor], tensor: int) -> int:
    """The tensor itself, or the one that it only gives another shape."""
    result = tensors[tensor]
    while result.alias_of is not None:
        above = tensors[result.alias_of]
        if result.offset_bytes or above.size_bytes != result.size_bytes:
            break
        result = above
    return result.id


def _place(tensors: list[Tensor], whole: int, parts: Sequence[int], offsets: Sequence[int]) -> None:
    for part, offset in zip(parts, offsets, strict=True):
        tensors[part] = dataclasses.replace(tensors[part], alias_of=whole, offset_bytes=offset)
