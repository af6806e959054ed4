# SPDX-License-Identifier: Apache-2.0
"""The time limit of a batch is that of each inference: a slow line or a busy machine only makes it last longer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mlf_sdk.judge.data import Batch
from mlf_sdk.judge.execute import execute_batch
from mlf_sdk.pipeline.opentarget import OpenTarget
from mlf_sdk.testing.fake import FakeClock
from mlf_sdk.wire.codes import NoAnswerError
from mlf_sdk.wire.link import Timeouts
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import LoopbackTransport
from rpc_models import fake_device, numbers

COUNT = 50
ROWS = np.arange(COUNT * 4, dtype=np.uint8).reshape(COUNT, 4) % 100
SHARER = SimpleNamespace(
    frames=None,
    name="sharer",
    archive_sha256="00" * 32,
    inputs=(SimpleNamespace(name="a", size_bytes=4, shape=(4,), dtype="uint8"),),
    outputs=(SimpleNamespace(name="b", size_bytes=4, shape=(4,), dtype="uint8"),),
    steps=(),
    regions=(),
)


def slow_session() -> tuple[Session, FakeClock]:
    """A device that answers each request after a second: an inference takes three."""
    clock, device = FakeClock(), fake_device()

    def answer(data: bytes) -> bytes:
        clock.sleep(1.0)
        return device.feed(data)

    line = LoopbackTransport(answer, idle=clock.sleep)
    return Session(line, timeouts=Timeouts(first_try_s=2, clock=clock), draw=numbers()), clock


def executed(session: Session, timeout_s: float) -> Any:
    return execute_batch(session, SHARER, Batch(arrays=(ROWS,), count=COUNT), timeout_s=timeout_s).outputs[0]


def inferred(session: Session, timeout_s: float) -> Any:
    session.hello()
    project = SimpleNamespace(model=SHARER, target=SimpleNamespace(board=None))
    return OpenTarget(project, session, session.model(2)).infer([ROWS], timeout_s=timeout_s)[0]


@pytest.mark.parametrize("work", [executed, inferred])
def test_the_time_limit_is_that_of_each_inference(work: Any) -> None:
    session, clock = slow_session()
    assert np.array_equal(work(session, 30.0), ROWS + 1)
    assert clock() > 3 * COUNT > 30.0


@pytest.mark.parametrize("work", [executed, inferred])
def test_an_inference_that_takes_longer_ends_the_batch(work: Any) -> None:
    session, clock = slow_session()
    session.hello()
    with pytest.raises(NoAnswerError):
        work(session, 1.5)
    assert clock() < 3 * COUNT
