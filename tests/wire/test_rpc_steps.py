# SPDX-License-Identifier: Apache-2.0
"""Steps one at a time over a session with the fake device, and the search for the one that differs."""

from __future__ import annotations

import zlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mlf_sdk.errors import TargetError
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import Step, Tensor, TensorKind
from mlf_sdk.judge.bisect import Observer, first_difference
from mlf_sdk.judge.compare import Tolerance
from mlf_sdk.judge.stepcosts import time_steps
from mlf_sdk.testing.fake import FakeDevice, FakeFailure, FakeModel, FakeStep, FakeTensor
from mlf_sdk.wire.codes import DeviceError, Direction, Status
from mlf_sdk.wire.device import ModelInfo
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.steps import advance, can_step, describe_steps, peek
from rpc_models import SUM, X, Y, fake_device, session_over

EXACT = Tolerance(rtol=0, atol=0)


def twins(**options: Any) -> tuple[Session, ModelInfo]:
    session = session_over(fake_device(observe=True, **options).feed)
    session.hello()
    info = session.model(0)
    for index, array in enumerate((X, Y)):
        session.write_input(info, index, array)
    return session, info


def test_steps_are_described_in_the_devices_order() -> None:
    session, info = twins()
    assert can_step(session)
    steps = describe_steps(session, info)
    assert [(s.index, s.number, s.num_inputs, s.num_outputs, s.name) for s in steps] == [
        (0, 0, 2, 1, "sum"),
        (1, 2, 1, 1, "echo"),
        (2, 1, 1, 2, "clear"),
    ]


def test_a_run_in_parts_is_the_run() -> None:
    session, info = twins()
    first = advance(session, info, 0, 1)
    assert (first.position, first.crc32) == (1, zlib.crc32(SUM.tobytes()))
    assert first.ticks == (0,)  # as long as a look at the clock, which does not count
    assert peek(session, info, 0, Direction.OUTPUT, 0, 24) == SUM.tobytes()
    assert peek(session, info, 1, Direction.INPUT, 0, 5) == Y.tobytes()
    rest = advance(session, info, 1, 2)
    assert rest.position == 3
    assert len(rest.ticks) == 2
    assert np.array_equal(session.read_output(info, 0), SUM)
    with pytest.raises(DeviceError) as error:
        peek(session, info, 0, Direction.OUTPUT, 0, 24)
    assert error.value.status == Status.STATE


def test_a_reply_tells_of_as_many_steps_as_fit() -> None:
    session, info = twins(max_payload=64)
    assert [advance(session, info, 0, 3).position] == [3]  # 5 fit


def test_a_device_without_it_says_so() -> None:
    session = session_over(fake_device().feed)
    session.hello()
    assert not can_step(session)
    with pytest.raises(DeviceError) as error:
        describe_steps(session, 0)
    assert error.value.status == Status.OPCODE


def test_a_failing_step_is_named() -> None:
    session, info = twins()
    session.write_input(info, 1, np.array([0xEE, 0, 0, 0, 0], np.uint8))
    with pytest.raises(DeviceError) as error:
        advance(session, info, 0, 3)
    assert error.value.status == Status.KERNEL
    assert error.value.step == 2


def test_ticks_of_every_run() -> None:
    session, info = twins(ticks_per_call=10)
    model: Any = SimpleNamespace(steps=[SimpleNamespace(name=n) for n in ("sum", "echo", "clear")])
    costs = time_steps(session, info, model, (X, Y), runs=3)
    assert costs.totals == (10, 10, 10)
    assert costs.rows == ((0, 0, 0),) * 3
    assert costs.names == ("sum", "echo", "clear")


# ---- the first step that differs ---------------------------------------------------------------
# A chain on one arena: a = x + 1, (b, c) = (a * 2, a - 3), d = b + c in place of b; d is the output.

STEPS = {
    0: lambda m: _store(m, 8, _load(m, 0) + np.float32(1)),
    1: lambda m: (_store(m, 16, _load(m, 8) * np.float32(2)), _store(m, 24, _load(m, 8) - np.float32(3))),
    2: lambda m: _store(m, 16, _load(m, 16) + _load(m, 24)),
}
PLACES = {0: (((0, 8),), ((8, 8),)), 1: (((8, 8),), ((16, 8), (24, 8))), 2: (((16, 8), (24, 8)), ((16, 8),))}


def _load(memory: bytearray, at: int) -> np.ndarray[Any, Any]:
    return np.frombuffer(bytes(memory[at : at + 8]), dtype="<f4")


def _store(memory: bytearray, at: int, values: np.ndarray[Any, Any]) -> None:
    memory[at : at + 8] = values.astype("<f4").tobytes()


def chain_model() -> Any:
    names = ["x", "a", "b", "c", "d"]
    tensors = [
        Tensor(
            id=i,
            name=name,
            c_name=name,
            dtype=DType.parse("float32"),
            shape=(1, 2),
            kind=TensorKind.INTERMEDIATE if i else TensorKind.INPUT,
        )
        for i, name in enumerate(names)
    ]
    wires = [((0,), (1,)), ((1,), (2, 3)), ((2, 3), (4,))]
    steps = [
        Step(index=i, name=f"k{i}", symbol=f"k{i}", inputs=ins, outputs=outs)
        for i, (ins, outs) in enumerate(wires)
    ]
    made = SimpleNamespace(options={})
    return SimpleNamespace(name="chain", steps=steps, tensors=tensors, inputs=(0,), provenance=made)


def chain(order: tuple[int, ...] = (0, 1, 2), **changed: Any) -> Observer:
    """A device that runs the chain; ``k1=function`` gives it another step 1."""
    runs = {n: changed.get(f"k{n}", run) for n, run in STEPS.items()}
    steps = tuple(
        FakeStep(run=runs[n], number=n, name=f"k{n}", inputs=PLACES[n][0], outputs=PLACES[n][1])
        for n in order
    )
    tensor = FakeTensor(name="x", offset=0, shape=(1, 2), size_bytes=8, type_code=2, bits=32)
    model = FakeModel(
        name="chain",
        arena=bytearray(32),
        inputs=(tensor,),
        outputs=(FakeTensor(name="d", offset=16, shape=(1, 2), size_bytes=8, type_code=2, bits=32),),
        run=lambda memory: None,
        steps=steps,
        num_steps=len(steps),
    )
    session = session_over(FakeDevice([model], observe=True).feed)
    session.hello()
    x = np.array([[1.5, -2.0]], dtype=np.float32)
    return Observer(session, session.model(0), chain_model(), [x])


def test_equal_devices_differ_nowhere() -> None:
    assert first_difference(chain(), chain(), chain_model(), EXACT) is None


def test_the_first_of_several_steps_that_differ_is_named() -> None:
    def off(memory: bytearray) -> None:
        STEPS[1](memory)
        _store(memory, 24, _load(memory, 24) + np.array([0, 0.25], np.float32))

    found = first_difference(chain(), chain(k1=off), chain_model(), EXACT)
    assert found is not None
    assert (found.number, found.index, found.name) == (1, 1, "k1")
    assert (found.output, found.tensor, found.at) == (1, "c", (0, 1))
    assert (found.expected, found.got) == (-4.0, -3.75)
    assert (found.difference.mismatches, found.difference.elements) == (1, 2)
    assert found.difference.max_abs == 0.25
    assert found.same_inputs


def test_a_difference_within_the_tolerance_is_none_but_its_effect_is() -> None:
    def slightly(memory: bytearray) -> None:
        _store(memory, 8, np.nextafter(_load(memory, 0) + np.float32(1), np.float32(9)))

    def much(memory: bytearray) -> None:
        STEPS[2](memory)
        _store(memory, 16, _load(memory, 16) * np.float32(1.5))

    near = Tolerance(rtol=1e-5, atol=1e-6)
    assert first_difference(chain(), chain(k0=slightly), chain_model(), near) is None
    found = first_difference(chain(), chain(k0=slightly, k2=much), chain_model(), near)
    assert found is not None
    assert found.number == 2
    assert not found.same_inputs
    exact = first_difference(chain(), chain(k0=slightly, k2=much), chain_model(), EXACT)
    assert exact is not None
    assert exact.number == 0


def test_no_number_is_as_far_off_as_can_be() -> None:
    def nothing(memory: bytearray) -> None:
        _store(memory, 8, np.array([2.75, np.nan], np.float32))

    found = first_difference(chain(), chain(k0=nothing), chain_model(), EXACT)
    assert found is not None
    assert found.at == (0, 1)
    assert found.difference.max_abs == np.inf
    assert first_difference(chain(k0=nothing), chain(k0=nothing), chain_model(), EXACT) is None


def test_inputs_of_a_step_that_works_in_place_are_what_it_took() -> None:
    arrays = chain().arrays(2)
    assert [a.tolist() for a in arrays.inputs] == [[[5.0, -2.0]], [[-0.5, -4.0]]]
    assert [a.tolist() for a in arrays.outputs] == [[[4.5, -6.0]]]


def test_steps_in_another_order_are_matched_by_their_number() -> None:
    """Two steps that don't depend on one another: c = x - 3 and a = x + 1, in either order."""

    def wired(order: tuple[int, ...], **changed: Any) -> Observer:
        return chain(
            order, k1=changed.get("k1", lambda m: (_store(m, 16, _load(m, 0)), _store(m, 24, _load(m, 0))))
        )

    def off(memory: bytearray) -> None:
        _store(memory, 16, _load(memory, 0))
        _store(memory, 24, _load(memory, 0) + np.float32(4))

    assert first_difference(wired((0, 1, 2)), wired((1, 0, 2)), chain_model(), EXACT) is None
    found = first_difference(wired((0, 1, 2)), wired((1, 0, 2), k1=off), chain_model(), EXACT)
    assert found is not None
    assert (found.number, found.output) == (1, 1)


def test_a_device_with_other_steps_is_refused() -> None:
    with pytest.raises(TargetError, match="steps of the target are not those of the archive"):
        chain((0, 1))
    session, info = twins()
    with pytest.raises(TargetError, match="step 0 differs from the archive"):
        Observer(session, info, chain_model(), [X, Y])


def test_a_step_that_fails_ends_the_search() -> None:
    def fails(memory: bytearray) -> None:
        raise FakeFailure(Status.KERNEL, 1)

    with pytest.raises(DeviceError):
        first_difference(chain(), chain(k1=fails), chain_model(), EXACT)
