# SPDX-License-Identifier: Apache-2.0
"""Fault injection: a transport that damages, delays and paces bytes, and resets the device.

The same seed and the same traffic give the same faults. It ships with the package for tests of other
harnesses.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from mlf_sdk.wire.transport import Clock, Deadline, Transport

_READ_SIZE = 4096
_BITS = 10  # of a byte on a serial line
_TICK_S = 0.001  # what is due within it goes out together


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Random faults of a line, for each byte.

    Attributes:
        flip, drop, double, delay: probability of each, for a byte.
        delay_s: how long a delayed byte, and all behind it, is held up.
        baud: bits a second in each direction; None: any number.
        seed: of the chances.
    """

    flip: float = 0.0
    drop: float = 0.0
    double: float = 0.0
    delay: float = 0.0
    delay_s: float = 0.01
    baud: int | None = None
    seed: int = 1

    @property
    def harms_bytes(self) -> bool:
        """Return True when bytes are damaged or delayed one by one."""
        return any((self.flip, self.drop, self.double, self.delay))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Reset of the device after a number of bytes in one direction.

    Attributes:
        after_bytes: bytes that still get through; what follows in that piece is lost.
        to_device: counts the bytes of requests; else those of replies.
        action: resets the device.
    """

    after_bytes: int
    to_device: bool
    action: Callable[[], None]


@dataclass(slots=True)
class LaneCounts:
    """Counters of a direction: bytes in and out, and faults of each kind."""

    taken: int = 0
    given: int = 0
    flipped: int = 0
    dropped: int = 0
    doubled: int = 0
    delayed: int = 0


class Lane:
    """One direction of a line: bytes in, bytes out when they are due."""

    def __init__(self, faults: Faults, clock: Clock, seed: int) -> None:
        self.counts = LaneCounts()
        self._faults = faults
        self._clock = clock
        self._chance = random.Random(seed)  # noqa: S311
        self._queue: deque[tuple[float, bytes]] = deque()
        self._free_at = 0.0

    def put(self, data: bytes) -> None:
        """Take bytes."""
        self.counts.taken += len(data)
        self._free_at = max(self._free_at, self._clock())
        if not self._faults.harms_bytes and not self._faults.baud:
            self._queue.append((self._free_at, data))
            return
        pace_s = _BITS / self._faults.baud if self._faults.baud else 0.0
        piece, until = bytearray(), self._free_at + _TICK_S
        for byte in data:
            held_s = self._held_s()
            if piece and (held_s or self._free_at >= until):
                self._queue.append((self._free_at, bytes(piece)))
                piece.clear()
            if held_s or self._free_at >= until:
                self._free_at += held_s
                until = self._free_at + _TICK_S
            self._free_at += pace_s
            piece += self._damaged(byte)
        if piece:
            self._queue.append((self._free_at, bytes(piece)))

    def take(self) -> bytes:
        """Return what is due now."""
        out = bytearray()
        now = self._clock() + 1e-9
        while self._queue and self._queue[0][0] <= now:
            out += self._queue.popleft()[1]
        self.counts.given += len(out)
        return bytes(out)

    @property
    def due_at(self) -> float | None:
        """Moment when the next bytes are due; None: there are none."""
        return self._queue[0][0] if self._queue else None

    def _held_s(self) -> float:
        if self._faults.delay and self._chance.random() < self._faults.delay:
            self.counts.delayed += 1
            return self._faults.delay_s
        return 0.0

    def _damaged(self, byte: int) -> bytes:
        faults, counts = self._faults, self.counts
        at = self._chance.random() if faults.flip or faults.drop or faults.double else 1.0
        if at < faults.flip:
            counts.flipped += 1
            return bytes([byte ^ 1 << self._chance.randrange(8)])
        if at < faults.flip + faults.drop:
            counts.dropped += 1
            return b""
        if at < faults.flip + faults.drop + faults.double:
            counts.doubled += 1
            return bytes([byte, byte])
        return bytes([byte])


class FaultTransport:
    """A bad line to a device.

    Args:
        inner: the line to the device, which belongs to this one from now on.
        faults: what happens to bytes; may be changed by ``set_faults``.
        reset: resets the device at one moment.
        clock: what delays are measured with; the same as that of the deadlines.
    """

    def __init__(
        self,
        inner: Transport,
        faults: Faults | None = None,
        *,
        reset: Reset | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._inner = inner
        self._clock = clock
        self._ready = bytearray()
        self._reset: Reset | None
        self._through: list[int]  # bytes to the host, to the device
        self.reset_after(reset)
        self.set_faults(faults or Faults())

    def set_faults(self, faults: Faults) -> None:
        """Change the faults of the line from now on; bytes under way are lost."""
        self.to_device = Lane(faults, self._clock, faults.seed * 2)
        self.to_host = Lane(faults, self._clock, faults.seed * 2 + 1)

    def reset_after(self, reset: Reset | None) -> None:
        """Set the reset of the device, with bytes counted from now; None: no reset."""
        self._through = [0, 0]
        self._reset = reset

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        """See Transport."""
        while True:
            self._flush(deadline)
            self._ready += self._count(self.to_host.take(), to_device=False)
            if self._ready:
                data = bytes(self._ready[:max_bytes])
                del self._ready[:max_bytes]
                return data
            if deadline.expired:
                return b""
            due = [at for at in (self.to_device.due_at, self.to_host.due_at) if at is not None]
            until = min([deadline.at, *due])
            self.to_host.put(self._inner.read(_READ_SIZE, Deadline(at=until, clock=self._clock)))

    def write(self, data: bytes, deadline: Deadline) -> None:
        """See Transport."""
        self.to_device.put(data)
        self._flush(deadline)

    def close(self) -> None:
        """See Transport."""
        self._inner.close()

    def _flush(self, deadline: Deadline) -> None:
        data = self._count(self.to_device.take(), to_device=True)
        if data:
            self._inner.write(data, deadline)

    def _count(self, data: bytes, *, to_device: bool) -> bytes:
        """Let bytes through, up to the moment of the reset."""
        reset = self._reset
        before = self._through[to_device]
        self._through[to_device] += len(data)
        if reset is None or reset.to_device != to_device or before + len(data) < reset.after_bytes:
            return data
        kept = data[: max(0, reset.after_bytes - before)]
        self._reset = None
        if to_device and kept:
            self._inner.write(kept, Deadline.after(1.0, self._clock))
        reset.action()
        return b"" if to_device else kept
