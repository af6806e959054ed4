# SPDX-License-Identifier: Apache-2.0
"""Interpreters of the field as witnesses: each runs a model in a process of its own, which may crash."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.errors import MlfError, TargetError
from mlf_sdk.judge.witnesses.witness import ModelFile, Witness, WitnessSession, WitnessUnableError
from mlf_sdk.tools.arrays import Array
from mlf_sdk.tools.process import RunningProcess, start_process
from mlf_sdk.wire.transport import Deadline, PipeTransport

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


class OnnxRuntime(Witness):
    """ONNX Runtime on the CPU.

    It adds in another order, and computes quantised models in part with floats and in part with integers of
    its own: those are compared with a share of the largest value.
    """

    name = "onnxruntime"
    formats: ClassVar[frozenset[str]] = frozenset({"onnx"})
    rtol: ClassVar[float] = 1e-4

    def title(self) -> str | None:
        """``ONNX Runtime`` and its version."""
        result = installed("onnxruntime", "onnxruntime-gpu")
        return None if result is None else f"ONNX Runtime {result}"

    def open(self, model: ModelFile, timeout_s: float) -> AbstractContextManager[WitnessSession]:
        """See Witness."""
        return open_worker([self.name, str(model.path)], timeout_s)

    def rounds_otherwise(self, model: ModelFile) -> bool:
        """See Witness."""
        return model.is_quantised or super().rounds_otherwise(model)


class PyTorch(OnnxRuntime):
    """PyTorch's own operators, in eager mode; tolerances are those of ONNX Runtime, for the same reasons."""

    name = "torch"
    formats: ClassVar[frozenset[str]] = frozenset({"torch"})

    def title(self) -> str | None:
        """``PyTorch`` and its version."""
        result = installed("torch")
        return None if result is None else f"PyTorch {result}"

    def open(self, model: ModelFile, timeout_s: float) -> AbstractContextManager[WitnessSession]:
        """See Witness; members that run code when they are loaded are refused."""
        from mlf_sdk.frontends.torch.program import WEIGHTS_ONLY, check_members  # loads the reader of ONNX

        try:
            check_members(model.path)
        except MlfError as error:
            raise WitnessUnableError(error.what) from error
        return open_worker([self.name, str(model.path)], timeout_s, {WEIGHTS_ONLY: "1"})


_LEAST_ARENA_BYTES = 16 << 20
_MOST_ARENA_BYTES = 1 << 30


class Tflm(Witness):
    """The interpreter of the wheel."""

    name = "tflm"
    formats: ClassVar[frozenset[str]] = frozenset({"tflite"})

    def title(self) -> str | None:
        """``TFLM`` and the month of the wheel: a development version has the date in its name."""
        result = installed("tflite-micro")
        date = re.search(r"dev(\d{4})(\d{2})", result or "")
        return f"TFLM {date[1]}-{date[2]}" if date else None if result is None else f"TFLM {result}"

    def open(self, model: ModelFile, timeout_s: float) -> AbstractContextManager[WitnessSession]:
        """See Witness."""
        graph = model.graph
        arguments = [self.name, str(model.path), str(arena_bytes(graph)), str(len(graph.outputs))]
        return open_worker(arguments, timeout_s)


def arena_bytes(graph: Graph) -> int:
    """Arena that is large enough: the interpreter does not say how much it needs, and crashes with less."""
    tensors = sum(value.size_bytes + 256 for value in graph.values if value.data is None)
    return min(_MOST_ARENA_BYTES, _LEAST_ARENA_BYTES + 4 * tensors + 4096 * len(graph.operators))
