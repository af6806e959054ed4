# SPDX-License-Identifier: Apache-2.0
"""Interpreters of the field as witnesses: each runs a model in a process of its own, which may crash."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from mlf_sdk.errors import TargetError
from mlf_sdk.judge.witnesses.witness import WitnessSession, WitnessUnableError
from mlf_sdk.tools.arrays import Array
from mlf_sdk.tools.process import RunningProcess, start_process
from mlf_sdk.wire.deadline import Deadline
from mlf_sdk.wire.transport import PipeTransport

WORKER = Path(__file__).with_name("worker.py")
_MAX_FRAME_BYTES = 1 << 31
_PART_BYTES = 1 << 20
_END_S = 1.0


def installed(*distributions: str) -> str | None:
    """Version of the first of these packages that is installed; None: none is."""
    for name in distributions:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


@contextmanager
def open_worker(
    arguments: Sequence[str], timeout_s: float, variables: Mapping[str, str] | None = None
) -> Iterator[WitnessSession]:
    """Start the worker on a model, and yield its session.

    Args:
        arguments: of ``worker.py``.
        timeout_s: seconds for loading the model, and for each inference.
        variables: more variables of its environment.

    Raises:
        WitnessUnableError: it can't load the model.
    """
    environment = {**os.environ, **(variables or {})}
    with start_process([sys.executable, str(WORKER), *arguments], env=environment, pipes=True) as process:
        transport = PipeTransport(process.stdout_fd, process.stdin_fd, name=arguments[0])
        try:
            session = _WorkerSession(process, transport, timeout_s)
            session.receive()
            yield session
        finally:
            transport.close()


class _WorkerSession:
    """A model in the worker's process; see WitnessSession."""

    uncovered: tuple[str, ...] = ()

    def __init__(self, process: RunningProcess, transport: PipeTransport, timeout_s: float) -> None:
        self._process, self._transport, self._timeout_s = process, transport, timeout_s

    def infer(self, inputs: Sequence[Array]) -> list[Array | None]:
        """See WitnessSession."""
        content = io.BytesIO()
        arrays = {str(number): np.ascontiguousarray(array) for number, array in enumerate(inputs)}
        np.savez(content, allow_pickle=False, **arrays)
        data = content.getvalue()
        try:
            deadline = Deadline.after(self._timeout_s)
            self._transport.write(len(data).to_bytes(8, "big") + data, deadline)
        except TargetError as error:
            raise self._gone(error) from error
        return [*self.receive()]

    def receive(self) -> list[Array]:
        """Arrays of the next answer."""
        deadline = Deadline.after(self._timeout_s)
        try:
            size = int.from_bytes(self._read(8, deadline), "big")
            if size > _MAX_FRAME_BYTES:
                raise WitnessUnableError("its answer is no frame")
            frame = np.load(io.BytesIO(self._read(size, deadline)), allow_pickle=False)
        except TargetError as error:
            raise self._gone(error) from error
        if "error" in frame.files:
            raise WitnessUnableError(" ".join(filter(None, [f"{frame['error']}.", self._last_words()])))
        return [frame[str(number)] for number in range(len(frame.files))]

    def _read(self, count: int, deadline: Deadline) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self._transport.read(min(count - len(data), _PART_BYTES), deadline)
            if not part:
                raise WitnessUnableError(f"it gave no answer within {self._timeout_s:g} s")
            data += part
        return bytes(data)

    def _gone(self, error: TargetError) -> WitnessUnableError:
        code = self._process.wait(_END_S)
        ended = error.what if code is None else f"it ended with code {code}"
        return WitnessUnableError(": ".join(filter(None, [ended, self._last_words()])))

    def _last_words(self) -> str:
        return " ".join(self._process.stderr_tail().split())[-300:]
