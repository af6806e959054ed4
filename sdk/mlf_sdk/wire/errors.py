# SPDX-License-Identifier: Apache-2.0
"""Errors of a device and of ports; all of them are ``TargetError`` (exit code 4)."""

from __future__ import annotations

from mlf_sdk.errors import TargetError
from mlf_sdk.wire.codes import STATUS_TEXT, Opcode, Status


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
