# SPDX-License-Identifier: Apache-2.0
"""The models of crt/tests/fake_models.c for the fake device, and sessions with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mlf_sdk.testing.fake import FakeClock, FakeDevice, FakeFailure, FakeModel, FakeStep, FakeTensor
from mlf_sdk.wire.codes import Status
from mlf_sdk.wire.session import Session, Timeouts
from mlf_sdk.wire.transport import LoopbackTransport

X = np.array([[1, -2, 3], [4, 500, -600]], dtype=np.int16)
Y = np.array([10, 20, 30, 40, 50], dtype=np.uint8)
SUM = (2 * X.astype(np.int32).ravel() + Y[[0, 1, 2, 3, 4, 0]]).astype(np.int32).reshape(2, 3)


def run_twins(arena: bytearray) -> None:
    y = arena[16:21]
    if y[0] == 0xDD:
        raise FakeFailure(Status.WORKSPACE, 1)
    if y[0] == 0xEE:
        raise FakeFailure(Status.KERNEL, 2)
    x = np.frombuffer(bytes(arena[0:12]), dtype="<i2").astype(np.int32)
    arena[24:48] = (2 * x + np.array([y[i % 5] for i in range(6)])).astype("<i4").tobytes()
    arena[48:53] = y
    arena[0:21] = b"\xcc" * 21


def step_sum(arena: bytearray) -> None:
    x = np.frombuffer(bytes(arena[0:12]), dtype="<i2").astype(np.int32)
    arena[24:48] = (2 * x + np.array([arena[16 + i % 5] for i in range(6)])).astype("<i4").tobytes()


def step_echo(arena: bytearray) -> None:
    if arena[16] == 0xDD:
        raise FakeFailure(Status.WORKSPACE, 1)
    arena[48:53] = arena[16:21]


def step_clear(arena: bytearray) -> None:
    if arena[16] == 0xEE:
        raise FakeFailure(Status.KERNEL, 2)
    arena[0:21] = b"\xcc" * 21


TWINS_STEPS = (
    FakeStep(run=step_sum, number=0, name="sum", inputs=((0, 12), (16, 5)), outputs=((24, 24),)),
    FakeStep(run=step_echo, number=2, name="echo", inputs=((16, 5),), outputs=((48, 5),)),
    FakeStep(
        run=step_clear, number=1, name="clear", inputs=(b"\x07\x08\x09\x0a",), outputs=((0, 12), (16, 5))
    ),
)


def run_negate(arena: bytearray) -> None:
    values = np.frombuffer(bytes(arena[:520]), dtype="<u4") ^ np.uint32(0x80000000)
    arena[520:] = values.astype("<u4").tobytes()


def run_sharer(arena: bytearray) -> None:
    if arena[0] == 0xEE:
        raise FakeFailure(Status.KERNEL, 0)
    if arena[0] == 0xBB:
        raise FakeFailure(Status.BUSY, -1)
    arena[8:12] = bytes((value + 1) & 0xFF for value in arena[:4])


def fake_models() -> list[FakeModel]:
    shared, large = bytearray(64), bytearray(1040)
    return [
        FakeModel(
            name="twins",
            arena=shared,
            inputs=(
                FakeTensor(name="x", offset=0, shape=(2, 3), size_bytes=12, type_code=0, bits=16),
                FakeTensor(name="y:0", offset=16, shape=(5,), size_bytes=5),
            ),
            outputs=(
                FakeTensor(name="sum", offset=24, shape=(2, 3), size_bytes=24, type_code=0, bits=32),
                FakeTensor(name="echo", offset=48, shape=(5,), size_bytes=5),
            ),
            run=run_twins,
            num_steps=3,
            steps=TWINS_STEPS,
            params_bytes=16,
            archive_sha256=bytes(range(32)),
        ),
        FakeModel(
            name="ä" * 200,
            arena=large,
            inputs=(FakeTensor(name="data", offset=0, shape=(130,), size_bytes=520, type_code=2, bits=32),),
            outputs=(
                FakeTensor(
                    name="negative " + "ä" * 150,
                    offset=520,
                    shape=(130,),
                    size_bytes=520,
                    type_code=2,
                    bits=32,
                ),
            ),
            run=run_negate,
            steps=(FakeStep(run=run_negate, inputs=((0, 520),), outputs=((520, 520),)),),
            inputs_kept=True,
        ),
        FakeModel(
            name="sharer",
            arena=shared,
            inputs=(FakeTensor(name="a", offset=0, shape=(4,), size_bytes=4),),
            outputs=(FakeTensor(name="b", offset=8, shape=(4,), size_bytes=4),),
            run=run_sharer,
            steps=(FakeStep(run=run_sharer),),
            inputs_kept=True,
        ),
        FakeModel(
            name="",
            arena=bytearray(),
            inputs=(),
            outputs=(
                FakeTensor(name="many", offset=0, shape=(1,) * 20, size_bytes=0),
                FakeTensor(name="far", offset=0, shape=(0, 1 << 32), size_bytes=0),
            ),
            run=lambda arena: None,
            num_steps=0,
        ),
    ]


def fake_device(count: int = 3, **options: Any) -> FakeDevice:
    return FakeDevice(fake_models()[:count], boot_nonce=0xB0070001, sdk_version="1.2.3", **options)


BUILD_ID = bytes.fromhex("b0b1b200b4b5b6b7b8b9")


def vector_device() -> FakeDevice:
    """The device of the shared vectors."""
    return fake_device(
        4, window_bytes=1000, baud=lambda baud, change: baud <= 1_000_000, observe=True, build_id=BUILD_ID
    )


def numbers(first: int = 65530) -> Callable[[int], int]:
    """Session and sequence numbers that repeat."""
    drawn: Iterator[int] = iter(range(first, first + 5000))
    return lambda limit: next(drawn) % limit


def session_over(
    feed: Callable[[bytes], bytes], *, console: Callable[[str], None] | None = None, **timeouts: float
) -> Session:
    """A session that never sleeps: waiting moves a clock."""
    clock = FakeClock()
    return Session(
        LoopbackTransport(feed, idle=clock.sleep),
        timeouts=Timeouts(clock=clock, **timeouts),  # type: ignore[arg-type]
        console=console,
        draw=numbers(),
    )
