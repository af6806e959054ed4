# SPDX-License-Identifier: Apache-2.0
"""Parts of tensors that share memory with the whole in place of a copy, and the cases that need the copy."""

from __future__ import annotations

import dataclasses

import pytest

from mlf_sdk.frontends.mlf.extension import CallFacts
from mlf_sdk.frontends.mlf.views import share_memory
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import Tensor, TensorKind


def tensors(*sizes: int, **kinds: TensorKind) -> list[Tensor]:
    return [
        Tensor(
            id=i,
            name=f"t{i}",
            c_name=f"t{i}",
            dtype=DType.parse("int8"),
            shape=(size,),
            kind=kinds.get(f"t{i}", TensorKind.INTERMEDIATE),
        )
        for i, size in enumerate(sizes)
    ]


def places(found: list[Tensor]) -> list[tuple[int | None, int]]:
    return [(t.alias_of, t.offset_bytes) for t in found]


def test_inputs_become_parts_of_their_concatenation() -> None:
    found = tensors(8, 16, 24)
    assert share_memory(CallFacts(joins=(16, 0)), found, (0, 1), (2,))
    assert places(found) == [(2, 16), (2, 0), (None, 0)]


def test_storage_of_an_input_in_another_shape_is_moved() -> None:
    found = tensors(8, 8, 16, 24)
    found[1] = dataclasses.replace(found[1], alias_of=0)
    assert share_memory(CallFacts(joins=(0, 8)), found, (1, 2), (3,))
    assert places(found) == [(3, 0), (0, 0), (3, 8), (None, 0)]


def test_outputs_become_parts_of_their_input() -> None:
    found = tensors(24, 8, 12)
    assert share_memory(CallFacts(slices=(0, 12)), found, (0,), (1, 2))
    assert places(found) == [(None, 0), (0, 0), (0, 12)]


@pytest.mark.parametrize(
    ("facts", "inputs", "outputs"),
    [
        (CallFacts(), (0, 1), (2,)),
        (CallFacts(joins=(0, 8, 8)), (0, 1), (2,)),
        (CallFacts(joins=(0, 12)), (0, 1), (2,)),  # a gap
        (CallFacts(joins=(0, 8)), (0, 0), (2,)),  # one tensor twice
        (CallFacts(joins=(0, 8)), (0, 3), (2,)),  # the caller writes it
        (CallFacts(joins=(0, 8)), (0, 4), (2,)),  # it lies in another one already
        (CallFacts(joins=(0, 6)), (5, 6), (2,)),  # kernels could not read words
        (CallFacts(joins=(0,)), (0,), (2,)),  # smaller than the output
        (CallFacts(slices=(20,)), (2,), (0,)),  # ends behind its input
        (CallFacts(slices=(2,)), (2,), (0,)),
        (CallFacts(slices=(0,)), (3,), (0,)),
    ],
)
def test_a_call_that_is_needed_stays(
    facts: CallFacts, inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> None:
    found = tensors(8, 16, 24, 16, 16, 6, 18, t3=TensorKind.INPUT)
    found[4] = dataclasses.replace(found[4], alias_of=2, offset_bytes=8)
    before = list(found)
    assert not share_memory(facts, found, inputs, outputs)
    assert found == before
