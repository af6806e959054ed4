# SPDX-License-Identifier: Apache-2.0
"""Parts of tensors that share memory with the whole in place of a copy, and the cases that need the copy."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from archives import edit_json, write
from mlf_sdk.errors import ArchiveError
from mlf_sdk.frontends.mlf.content import ArchiveContent, Call
from mlf_sdk.frontends.mlf.extension import CallFacts
from mlf_sdk.frontends.mlf.rawgraph import share_memory
from mlf_sdk.frontends.mlf.writer import archive_files
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


def test_outputs_become_parts_of_an_input_that_lies_in_another() -> None:
    some = tensors(24, 24, 8, 12)
    some[1] = dataclasses.replace(some[1], alias_of=0)
    assert share_memory(CallFacts(slices=(0, 12)), some, (1,), (2, 3))
    assert places(some) == [(None, 0), (0, 0), (1, 0), (1, 12)]


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


CODE = b"""
#include <stdint.h>
void net_read(float* x, float* a) { for (int i = 0; i < 8; ++i) a[i] = 2.0f * x[i]; }
void net_slice(float* a, float* p) { for (int i = 0; i < 8; ++i) p[i] = a[i]; }
void net_bump(float* p, float* d) { for (int i = 0; i < 8; ++i) d[i] = p[i] += 1.0f; }
void net_sum(float* a, float* d, float* y) { for (int i = 0; i < 8; ++i) y[i] = 10.0f * a[i] + d[i]; }
"""
FLOATS = (DType.parse("float32"), (8,))
SLICE = CallFacts(slices=(0,))


def net(**facts: CallFacts) -> dict[str, bytes]:
    """y = 10 a + (p + 1) with a = 2 x, and p a copy of a, in which another call may count."""
    calls = (("read", ("x",)), ("slice", ("read",)), ("bump", ("slice",)), ("sum", ("read", "bump")))
    return archive_files(
        ArchiveContent(
            name="net",
            compiler="hand",
            compiler_version="1",
            code={"codegen/host/src/net.c": CODE},
            inputs=(("x", FLOATS),),
            outputs=(("sum", "y", FLOATS),),
            quantisation={},
            params=(),
            states=(),
            calls=tuple(
                Call(
                    name=name,
                    symbol=f"net_{name}",
                    inputs=inputs,
                    outputs=(FLOATS,),
                    facts=facts.get(name, CallFacts()),
                )
                for name, inputs in calls
            ),
        )
    )


def test_a_copy_is_made_where_a_call_writes_to_one_of_both(tmp_path: Path) -> None:
    path = write(net(slice=SLICE, bump=CallFacts(writes=(0,))), tmp_path / "net.tar")
    assert [step.name for step in mlf_sdk.load(path).steps] == ["read", "slice", "bump", "sum"]
    x = np.arange(8, dtype=np.float32)
    found = mlf_sdk.run(path, board="host", inputs={"x": x}).outputs
    assert np.array_equal(np.asarray(found["y"]).reshape(-1), 22 * x + 1)


def test_no_copy_is_made_where_calls_write_to_states_alone(tmp_path: Path) -> None:
    model = mlf_sdk.load(write(net(slice=SLICE), tmp_path / "net.tar"))
    assert [step.name for step in model.steps] == ["read", "bump", "sum"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("calls", {"bumb": {}}, "mlf_sdk.calls: the graph has no call 'bumb'"),
        ("states", ["count"], "mlf_sdk.states: there is no parameter 'count'"),
    ],
)
def test_facts_about_what_there_is_not(tmp_path: Path, key: str, value: Any, said: str) -> None:
    files = edit_json(
        net(), "metadata.json", lambda top: top["modules"]["net"]["mlf_sdk"].update({key: value})
    )
    with pytest.raises(ArchiveError) as caught:
        mlf_sdk.load(write(files, tmp_path / "net.tar"))
    assert said in str(caught.value)
