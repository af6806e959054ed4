# SPDX-License-Identifier: Apache-2.0
"""The rate of the line: raised when both ends can, given up by both when it does not hold."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from mlf_sdk.errors import TargetError
from mlf_sdk.rpc import protocol
from mlf_sdk.rpc.deadline import Deadline
from mlf_sdk.rpc.errors import DeviceError, DeviceResetError, NoAnswerError
from mlf_sdk.rpc.link import Link
from mlf_sdk.rpc.protocol import Opcode, is_hello_of
from mlf_sdk.rpc.transport import RatedTransport

_CONFIRM_S = 2.0
_GOODBYE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMark:
    """By which a session is known again: its number, and the device's boot."""

    session: int
    boot_nonce: int


def change_baud(
    link: Link, transport: RatedTransport, mark: SessionMark, baud: int, deadline: Deadline
) -> bool:
    """Ask the device to run the line at ``baud``, and prove that it does.

    Args:
        link: after a hello, on ``transport``.
        transport: whose own rate is changed as well.
        mark: the current session, which goes on.
        baud: bits a second.
        deadline: for all of it.

    Returns:
        Whether the line runs at ``baud``; if not, it runs as before.

    Raises:
        NoAnswerError: the device can't be reached any more, at neither rate.
        DeviceResetError: the device was reset meanwhile.
    """
    before = transport.baud
    try:
        link.call(Opcode.BAUD, protocol.BaudRequest(baud).pack(), deadline)
    except DeviceError:
        return False
    except NoAnswerError:  # it may have changed, and its answer be lost
        _greet(link, mark, deadline)
        return False
    transport.set_baud(baud)
    try:
        _greet(link, mark, deadline.within(_CONFIRM_S))
    except NoAnswerError:
        transport.set_baud(before)
        _greet(link, mark, deadline)
        return False
    return True


def restore_baud(link: Link, transport: RatedTransport, baud: int, deadline: Deadline) -> None:
    """Leave the line as it was found; a device that does not answer finds back by itself."""
    with suppress(TargetError):
        link.call(Opcode.BAUD, protocol.BaudRequest(0).pack(), deadline.within(_GOODBYE_S))
    with suppress(TargetError):
        transport.set_baud(baud)


def _greet(link: Link, mark: SessionMark, deadline: Deadline) -> None:
    """Say hello until the device answers; at a rate that is not its own this makes it fall back."""
    request = protocol.HelloRequest(mark.session).pack()
    body = link.call(Opcode.HELLO, request, deadline, accept=lambda body: is_hello_of(body, mark.session))
    if protocol.split(protocol.HelloReply, body)[0].boot_nonce != mark.boot_nonce:
        raise DeviceResetError("the device was reset while the rate of the line was changed")
