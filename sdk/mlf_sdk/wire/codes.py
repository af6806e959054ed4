# SPDX-License-Identifier: Apache-2.0
"""Numbers of the protocol (``crt/PROTOCOL.md``), those of ``mlf_rpc.h``, and the errors of devices and ports.

All of these errors are a ``TargetError`` (exit code 4).
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING

from mlf_sdk.errors import TargetError

if TYPE_CHECKING:
    from mlf_sdk.triage.explain import Triage
    from mlf_sdk.triage.fault_report import FaultReport


class Opcode(IntEnum):
    """Kind of a request."""

    HELLO = 1
    MODEL = 2
    TENSOR = 3
    WRITE = 4
    RUN = 5
    READ = 6
    STATS = 7
    PREPARE = 8
    BAUD = 9
    BUILD = 10
    CHALLENGE = 11
    OPEN = 12
    STEP = 16
    ADVANCE = 17
    PEEK = 18


class Direction(IntEnum):
    """Tensors that an index counts."""

    INPUT = 0
    OUTPUT = 1


class Status(IntEnum):
    """Status of a reply: those of the executor, and from -32 on those of the protocol."""

    OK = 0
    KERNEL = -1
    WORKSPACE = -2
    ARGUMENT = -3
    STATE = -4
    BUSY = -5
    VERSION = -32
    OPCODE = -33
    LENGTH = -34
    SESSION = -35
    SEQUENCE = -36
    MODEL = -37
    TENSOR = -38
    RANGE = -39
    GAP = -40
    CAPACITY = -41
    STEP = -42
    LOCKED = -43
    SIGNATURE = -44
    WAIT = -45
    ENTROPY = -46


STATUS_TEXT = {
    Status.OK: "success",
    Status.KERNEL: "a kernel returned an error",
    Status.WORKSPACE: "a kernel asked for more workspace than was planned",
    Status.ARGUMENT: "an argument is out of range",
    Status.STATE: "the inputs are not complete, or there are no valid outputs",
    Status.BUSY: "the application on the device runs a model already",
    Status.VERSION: "the device speaks another version of the protocol",
    Status.OPCODE: "the device does not know this request",
    Status.LENGTH: "the request has the wrong length",
    Status.SESSION: "the device was reset, or serves another host",
    Status.SEQUENCE: "the sequence number was used before",
    Status.MODEL: "there is no such model",
    Status.TENSOR: "there is no such tensor",
    Status.RANGE: "offset and length are not inside the tensor",
    Status.GAP: "the write would leave a gap",
    Status.CAPACITY: "the answer does not fit into a reply",
    Status.STEP: "there is no such step",
    Status.LOCKED: "no secured session is open, or the code of the request is wrong",
    Status.SIGNATURE: "the session is not signed by a key that the device trusts",
    Status.WAIT: "there were too many attempts to open a session",
    Status.ENTROPY: "the device's source of random numbers failed",
}


class Capability(IntFlag):
    """Abilities of a device beyond the requests that all devices answer."""

    TRACE = 1
    STACK = 2
    TICKS = 4
    BAUD = 8
    BUILD = 16
    STEP = 32
    SECURE = 64


class Flag(IntFlag):
    """Flags of a model or a tensor."""

    NAME_CUT = 1
    INPUTS_KEPT = 2
    STREAMED = 4


class NoAnswerError(TargetError):
    """No valid answer came in time."""


class DeviceResetError(TargetError):
    """Device reset during the session: data written to it is lost."""


class SessionTakenError(TargetError):
    """Another host has started a session: what was written to the device is lost."""


class DeviceError(TargetError):
    """The device answered a request with an error.

    Args:
        status: the status of the reply; a number that is not in ``Status`` stays a plain integer.
        opcode: the request.
        where: the model or tensor the request was about.
        step: index of the step that failed; None when no kernel was running.
        body: of the reply, behind the status.
    """

    def __init__(
        self, status: int, opcode: Opcode, *, where: str = "", step: int | None = None, body: bytes = b""
    ) -> None:
        self.body = body
        self.status = status
        self.opcode = opcode
        self.step = step
        try:
            known = Status(status)
            said = STATUS_TEXT[known] if step is not None else f"{known.name}: {STATUS_TEXT[known]}"
        except ValueError:
            said = f"status {status}, which this version of the SDK does not know"
        at_step = "" if step is None else f" (step {step})"
        head = "" if step is not None else f"the device refused {opcode.name}: "
        super().__init__(f"{head}{said}{at_step}", where=where)


class PortError(TargetError):
    """A port can't be used."""


class PortMissingError(PortError):
    """There is no such port, or no port of this board, or there are several."""


class PortBusyError(PortError):
    """Somebody else uses the port.

    Args:
        port: as it was given.
        who: who uses it.
    """

    def __init__(self, port: str, who: str) -> None:
        super().__init__(
            f"the port is in use by {who}",
            where=port,
            hint="Wait for it, or end it: two programs on one line would read each other's answers.",
        )


class PortVanishedError(PortError):
    """The port was there and is gone: unplugged, reset, or closed by the other end."""

    def __init__(self, port: str) -> None:
        super().__init__(
            "the port has vanished while it was in use",
            where=port,
            hint="Look at cable and power of the board; mlf-sdk ports lists what is there.",
        )


class DeviceFaultError(TargetError):
    """The device's fault handler reported a fault: it has stopped and will not answer any more.

    Args:
        fault: what it reported.
        where: the model or tensor the last request was about.

    Attributes:
        found: the explanation; ``explain`` makes it better.
    """

    def __init__(self, fault: FaultReport, *, where: str = "") -> None:
        self.fault = fault
        super().__init__("", where=where or (f"model {fault.model}" if fault.model else ""))
        if fault.registers:
            self.hint = "Run it on the board 'host' as well: its sanitizers name the line of the bad access."
        from mlf_sdk.triage.explain import triage

        self.explain(triage(fault, None))

    def explain(self, result: Triage) -> None:
        """Replace the explanation."""
        from mlf_sdk.triage.explain import fault_text

        self.found = result
        self.what = fault_text(result)

    @property
    def details(self) -> dict[str, object]:
        """The fault's registers, place and cause."""
        from mlf_sdk.triage.explain import triage_values

        return {"fault": triage_values(self.found)}
