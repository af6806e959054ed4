# SPDX-License-Identifier: Apache-2.0
"""The parts of a fake device: its clock, its models and their tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mlf_sdk.wire.codes import Direction, Status


class FakeClock:
    """A clock that only moves when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the seconds now."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class FakeFailure(Exception):
    """Raised by a fake model's ``run`` to make the run fail."""

    def __init__(self, status: Status, step: int) -> None:
        super().__init__(status, step)
        self.status = status
        self.step = step


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeTensor:
    """A tensor at an offset of its model's arena; the type as in DLDataType."""

    name: str
    offset: int
    shape: tuple[int, ...]
    size_bytes: int
    type_code: int = 1
    bits: int = 8
    lanes: int = 1


class FakeRefusal(Exception):
    """Refusal of a request: status, and further contents of the reply."""

    def __init__(self, status: int, body: bytes = b"") -> None:
        super().__init__(status)
        self.status = status
        self.body = body


# Offset and size in the arena, or a constant.
FakeArgument = tuple[int, int] | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeStep:
    """A step; ``number`` is its number in the archive."""

    run: Callable[[bytearray], None]
    number: int = 0
    name: str = ""
    inputs: tuple[FakeArgument, ...] = ()
    outputs: tuple[FakeArgument, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeStream:
    """Input whose rows a model computes as they are written.

    Attributes:
        input: position among the inputs of the model.
        row_bytes: of each row.
        compute: works on the arena, with the number of a row and its bytes.
    """

    input: int
    row_bytes: int
    compute: Callable[[bytearray, int, bytes], None]


@dataclass(slots=True, kw_only=True)
class FakeModel:
    """A model on a bytearray, which models that share memory have in common.

    Attributes:
        run: works on ``arena``; raises FakeFailure to fail.
        written: contiguous bytes written of each input.
        has_outputs: whether the outputs are those of a complete run.
        pattern: what the arena was painted with; None: it was not.
        steps: of the runs that ADVANCE makes; together they do what ``run`` does.
        position: steps that have run.
        stream: input that comes by rows; None: all are written as a whole.
        row: bytes of the row that is not whole.
    """

    name: str
    arena: bytearray
    inputs: tuple[FakeTensor, ...]
    outputs: tuple[FakeTensor, ...]
    run: Callable[[bytearray], None]
    inputs_kept: bool = False
    num_steps: int = 1
    params_bytes: int = 0
    archive_sha256: bytes = bytes(32)
    written: list[int] = field(default_factory=list)
    has_outputs: bool = False
    pattern: int | None = None
    steps: tuple[FakeStep, ...] = ()
    position: int = 0
    stream: FakeStream | None = None
    row: bytes = b""

    @property
    def complete(self) -> bool:
        """Return True when all inputs are written."""
        return self.written == [tensor.size_bytes for tensor in self.inputs]

    def is_streamed(self, direction: int, index: int) -> bool:
        """Return whether a tensor is the input that comes by rows."""
        return self.stream is not None and direction == Direction.INPUT and index == self.stream.input

    def take(self, offset: int, data: bytes) -> bool:
        """Compute the rows that a piece of the streamed input completes; return whether it has new bytes.

        Bytes that came already are passed over; an empty piece at the start begins anew.
        """
        if self.stream is None:
            return False
        count, size = self.written[self.stream.input] if data or offset else 0, self.stream.row_bytes
        rest = data[count - offset :]
        self.row = (self.row if count else b"") + rest
        self.written[self.stream.input] = count + len(rest)
        for number in range(count // size, (count + len(rest)) // size):
            self.stream.compute(self.arena, number, self.row[:size])
            self.row = self.row[size:]
        if rest:
            self.has_outputs, self.position = False, 0
        return bool(rest)

    def forget(self) -> None:
        """Invalidate inputs, outputs and position."""
        self.written = [0] * len(self.inputs)
        self.has_outputs = False
        self.position = 0
        self.pattern = None
