# SPDX-License-Identifier: Apache-2.0
"""The procedure of MLPerf Tiny by a client of our own: the runner's commands, their order, its limits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from mlf_sdk.pipeline.mlperf.inputs import InputFile
from mlf_sdk.wire.mlperf import Log, MlperfClient, Window
from mlf_sdk.wire.transport import Transport

WINDOW_S: Final = 12.0  # of the device's time: above the 10 s required, far below the 30 s of silence allowed
SETTLE_S: Final = 2.0  # between opening the port and the first command
_MOST: Final = 1_000_000_000
_LEAST_PROBE_US: Final = 1_000  # a probe of this many ticks is exact to 0.1 %
_WARMUPS: Final = 10
_WARMUP_S: Final = 6.0  # most that warm-ups may take before their line is due


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line to the device that can be opened several times.

    Attributes:
        open: opens it.
        log: called with each command and each line of an answer.
        clock: of the host, for the duration of the loop.
        sleep: waits.
    """

    open: Callable[[], Transport]
    log: Log | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    @contextmanager
    def client(self) -> Iterator[MlperfClient]:
        """Open the line, and close it in the end."""
        transport = self.open()
        try:
            yield MlperfClient(transport, log=self.log)
        finally:
            transport.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Answers of a device about itself."""

    name: str
    profile: str
    benchmark: str


def identify(line: Line) -> Identity:
    """Open the line for the first time, ask the device what it is, and close the line again.

    Raises:
        TargetError: the device does not answer as the protocol says.
    """
    with line.client() as client:
        line.sleep(SETTLE_S)
        name = client.name()
        profile, benchmark = client.profile()
    return Identity(name=name, profile=profile, benchmark=benchmark)


def propose(line: Line, data: bytes) -> tuple[int, int]:
    """Find how many inferences fill a window, and how many warm-ups go before it.

    Raises:
        TargetError: the device does not answer as the protocol says.
    """
    with line.client() as client:
        client.load(data)
        count = 1
        window = client.infer(count, 1)
        while window.end_us - window.start_us < _LEAST_PROBE_US and count < _MOST:
            count *= 10
            window = client.infer(count)
    each_s = max(window.seconds / count, 1e-9)
    inferences = max(1, math.ceil(WINDOW_S / each_s))
    return inferences, min(_WARMUPS, int(_WARMUP_S / each_s))


def measure(
    line: Line, files: Sequence[InputFile], benchmark: str, inferences: int, warmups: int
) -> tuple[tuple[Window, ...], float]:
    """Time a window for each file; returns the windows, and the loop's duration on the host's clock.

    Raises:
        TargetError: the device does not answer as the protocol says, or in time.
    """
    windows = []
    with line.client() as client:
        start = line.clock()
        for file in files:
            client.load(next(file.segments(benchmark)))
            windows.append(client.infer(inferences, warmups))
        return tuple(windows), line.clock() - start


def classify(
    line: Line, files: Sequence[InputFile], benchmark: str, count: Callable[[int, int], None]
) -> list[list[Window]]:
    """Run one inference on each input of each file.

    Raises:
        TargetError: the device does not answer as the protocol says, or in time.
    """
    result: list[list[Window]] = []
    with line.client() as client:
        for done, file in enumerate(files, 1):
            windows = []
            for data in file.segments(benchmark):
                client.load(data)
                windows.append(client.infer(1))
            result.append(windows)
            count(done, len(files))
    return result
