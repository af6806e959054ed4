# SPDX-License-Identifier: Apache-2.0
"""Client of MLPerf Tiny's serial protocol: what its official runner sends, expects and waits for."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mlf_sdk.errors import TargetError
from mlf_sdk.tools.checks import device_text
from mlf_sdk.wire.codes import NoAnswerError
from mlf_sdk.wire.transport import Clock, Deadline, Transport

READY: Final = "m-ready"
COMMAND_S: Final = 5.0  # the runner's patience for a line, and for one of infer
INFER_S: Final = 30.0
BYTES_A_LINE: Final = 31
_NAME: Final = re.compile(r"^m-(name)-dut-\[([^]]+)]$")
_PROFILE: Final = re.compile(r"^m-(model|profile)-\[([^]]+)]$")
_LAP: Final = re.compile(r"^m-lap-us-([0-9]+)$")
_RESULTS: Final = re.compile(r"^m-results-\[([^]]+)\]$")
_ERROR: Final = re.compile(r"^e-\[(.*)\]$")
_LONGEST_LINE: Final = 1 << 20
Log = Callable[[str], None]


class RefusedError(TargetError):
    """The device answered a command with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Timed inferences on one input.

    Attributes:
        inferences, warmups: runs between the two stamps, and before them.
        start_us, end_us: stamps of the device's clock.
        results: as the device wrote them.
    """

    inferences: int
    warmups: int
    start_us: int
    end_us: int
    results: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """Duration on the device's clock."""
        return (self.end_us - self.start_us) / 1e6

    @property
    def throughput(self) -> float:
        """Inferences a second; 0 for a window without duration."""
        return self.inferences / self.seconds if self.end_us > self.start_us else 0.0


class MlperfClient:
    """Device behind a transport.

    Args:
        transport: the line; it stays the caller's.
        log: called with each command and each line of an answer.
        clock: in seconds.
    """

    def __init__(
        self, transport: Transport, *, log: Log | None = None, clock: Clock = time.monotonic
    ) -> None:
        self._transport = transport
        self._log = log
        self._clock = clock
        self._received = bytearray()

    def command(self, text: str, *, patience_s: float = COMMAND_S) -> list[str]:
        """Send a command, and return the lines of its answer up to the one that says ``m-ready``.

        Args:
            text: without the ``%`` that ends it.
            patience_s: for each line.

        Raises:
            NoAnswerError: a line did not come in time.
            TargetError: the line is closed.
        """
        if self._log is not None:
            self._log(f"> {text}%")
        self._transport.write(f"{text}%".encode(), self._deadline(patience_s))
        lines: list[str] = []
        while not lines or READY not in lines[-1]:
            lines.append(self._line(text, patience_s))
        return lines

    def name(self) -> str:
        """Vendor that the device names.

        Raises:
            TargetError: it does not name one.
        """
        return self._fields("name", _NAME).get("name", "") or self._lacks("name")

    def profile(self) -> tuple[str, str]:
        """Profile and id of the benchmark.

        Raises:
            TargetError: the device does not state an id.
        """
        fields = self._fields("profile", _PROFILE)
        return fields.get("profile", ""), fields.get("model", "") or self._lacks("profile")

    def load(self, data: bytes) -> None:
        """Load an input.

        Raises:
            RefusedError: the device refused a line of it.
        """
        self._checked(f"db load {len(data)}")
        for at in range(0, len(data), BYTES_A_LINE):
            self._checked(f"db {data[at : at + BYTES_A_LINE].hex()}")

    def infer(self, inferences: int, warmups: int = 0) -> Window:
        """Time inferences on the loaded input.

        Raises:
            RefusedError: the device refused.
            TargetError: the answer lacks a stamp or results.
        """
        lines = self._checked(f"infer {inferences} {warmups}", patience_s=INFER_S)
        laps = [int(match[1]) for line in lines if (match := _LAP.match(line))]
        results = [match[1] for line in lines if (match := _RESULTS.match(line))]
        if len(laps) < 2 or not results:
            raise self._odd("infer", lines)
        try:
            values = tuple(float(value) for value in results[-1].split(",") if value.strip())
        except ValueError:
            raise self._odd("infer", lines) from None
        return Window(
            inferences=inferences, warmups=warmups, start_us=laps[0], end_us=laps[-1], results=values
        )

    # ---- lines ----

    def _checked(self, text: str, *, patience_s: float = COMMAND_S) -> list[str]:
        lines = self.command(text, patience_s=patience_s)
        errors = [match[1] for line in lines if (match := _ERROR.match(line))]
        if errors:
            raise RefusedError(f"the device answers: {device_text(errors[0])}", where=_short(text))
        return lines

    def _fields(self, text: str, expression: re.Pattern[str]) -> dict[str, str]:
        lines = self.command(text)
        return {match[1]: device_text(match[2]) for line in lines if (match := expression.match(line))}

    def _lacks(self, text: str) -> str:
        raise TargetError(
            "the device does not answer as the protocol says",
            where=text,
            hint="Does it run an image with the mlperf application?",
        )

    def _odd(self, text: str, lines: list[str]) -> TargetError:
        shown = device_text(" / ".join(lines))[:200]
        return TargetError(f"the answer lacks stamps or results: {shown}", where=text)

    def _deadline(self, seconds: float) -> Deadline:
        return Deadline.after(seconds, self._clock)

    def _line(self, text: str, patience_s: float) -> str:
        """Next line that is not empty."""
        deadline = self._deadline(patience_s)
        while True:
            end = self._received.find(b"\n")
            if end >= 0:
                raw = bytes(self._received[:end]).translate(None, b"\r\0")
                del self._received[: end + 1]
                line = raw.decode("utf-8", "replace")
                if line:
                    if self._log is not None:
                        self._log(line)
                    return line
                continue
            data = self._transport.read(4096, deadline)
            if not data or len(self._received) > _LONGEST_LINE:
                raise NoAnswerError(
                    f"no line of an answer within {patience_s:g} s",
                    where=_short(text),
                    hint="Is the board reset, and is this its port? A window must end within 30 s.",
                )
            self._received += data


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."
