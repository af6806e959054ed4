# SPDX-License-Identifier: Apache-2.0
"""The rate of the line: raised when both ends support it, given up by both when it fails."""

from __future__ import annotations

from contextlib import suppress

from mlf_sdk.errors import TargetError
from mlf_sdk.wire import protocol
from mlf_sdk.wire.codes import DeviceError, DeviceResetError, NoAnswerError, Opcode, PortError
from mlf_sdk.wire.link import Link
from mlf_sdk.wire.transport import Deadline, RatedTransport, Transport

_GOODBYE_S = 0.5


def change_baud(
    link: Link, transport: RatedTransport, boot_nonce: int, baud: int, first: int, deadline: Deadline
) -> bool:
    """Switch the line to ``baud``, and verify that the device answers at it.

    Args:
        link: after a hello, on ``transport``.
        transport: whose own rate is changed as well.
        boot_nonce: of the current session, which goes on.
        baud: bits a second.
        first: the rate that the device starts with, to which it goes back when it hears nothing good.
        deadline: for all of it.

    Returns:
        True: the line runs at ``baud``; False: as before, or at ``first``.

    Raises:
        NoAnswerError: the device can't be reached any more, at neither rate.
        DeviceResetError: the device was reset meanwhile.
    """
    try:
        link.call(Opcode.BAUD, protocol.BaudRequest(baud).pack(), deadline)
    except DeviceError:
        return False
    except NoAnswerError:  # it may have changed, and its answer be lost
        transport.set_baud(first)
        _find_again(link, boot_nonce, deadline)
        return False
    try:
        transport.set_baud(baud)
        _find_again(link, boot_nonce, deadline.within(link.timeouts.confirm_s))
    except (NoAnswerError, PortError):
        transport.set_baud(first)
        _find_again(link, boot_nonce, deadline)
        return False
    return True


class LineRate:
    """The rate of a session's line: raised when both ends support it, restored at the end.

    Args:
        link: on ``transport``.
        transport: has a rate, or not.

    Attributes:
        boot_nonce: nonce of the device's boot, from its reply to HELLO.
    """

    def __init__(self, link: Link, transport: Transport) -> None:
        self.boot_nonce = 0
        self._link = link
        self._transport = transport if isinstance(transport, RatedTransport) else None
        self._first = self.baud
        link.on_silence = self._on_silence

    @property
    def baud(self) -> int:
        """Bits a second; 0: unknown, or the line has none."""
        return self._transport.baud if self._transport is not None else 0

    @property
    def is_raised(self) -> bool:
        """Return True when it differs from the rate that the line was opened with."""
        return self.baud != self._first

    def raise_to(self, baud: int, deadline: Deadline) -> None:
        """Raise the rate to ``baud`` where it is lower; see change_baud."""
        if self._transport is not None and baud > self.baud:
            change_baud(self._link, self._transport, self.boot_nonce, baud, self._first, deadline)

    def fall_back(self) -> None:
        """Set this end to the first rate, which a device uses after a reset."""
        if self._transport is not None and self.is_raised:
            self._transport.set_baud(self._first)

    def restore(self) -> None:
        """Restore the first rate at both ends; a device that does not answer falls back by itself."""
        if self.is_raised:
            with suppress(TargetError):
                request = protocol.BaudRequest(0).pack()
                self._link.call(Opcode.BAUD, request, self._link.after(_GOODBYE_S))
            with suppress(TargetError):
                self.fall_back()

    def _on_silence(self, opcode: Opcode) -> None:
        """Look for a device that fell silent at its first rate: raises DeviceResetError if it was reset."""
        if self.is_raised and opcode not in (Opcode.HELLO, Opcode.BAUD):
            self.fall_back()
            with suppress(NoAnswerError):
                _find_again(self._link, self.boot_nonce, self._link.after(self._link.timeouts.confirm_s))


def _find_again(link: Link, boot_nonce: int, deadline: Deadline) -> None:
    """Send HELLO until the device answers; at a rate that is not its own this makes it fall back.

    Raises:
        DeviceResetError: it has started again meanwhile.
    """
    body = link.call(Opcode.HELLO, b"", deadline)
    if protocol.split(protocol.HelloReply, body)[0].boot_nonce != boot_nonce:
        raise DeviceResetError("the device was reset: it runs the line at its first rate again")
