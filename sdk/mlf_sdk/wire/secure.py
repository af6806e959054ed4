# SPDX-License-Identifier: Apache-2.0
"""Secured sessions (``crt/PROTOCOL.md``): the challenge, the signature, and the code of each message."""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final

from mlf_sdk.errors import TargetError
from mlf_sdk.tools.signing import AgreementKey, Signer
from mlf_sdk.wire.codes import DeviceError, Opcode, Status
from mlf_sdk.wire.link import Link
from mlf_sdk.wire.protocol import HEADER, STATUS_SIZE, MessageError
from mlf_sdk.wire.transport import Deadline

TAG_BYTES: Final = 16
_LABEL: Final = b"mlf-session-1".ljust(16, b"\0")
_CHALLENGE: Final = struct.Struct("<32s32s")
_COUNTER: Final = struct.Struct("<Q")
_KEY_BYTES: Final = 32
_NEVER: Final = 0xFFFFFFFF
_BARE = (Status.SESSION, Status.SEQUENCE, Status.LOCKED)  # refusals, which have no code
_LARGEST_REFUSAL: Final = HEADER.size + STATUS_SIZE + 4


class Seal:
    """Counter and key of a secured session.

    Args:
        key: of the session, 32 bytes.
        sequence: number of the request that opened it.
    """

    def __init__(self, key: bytes, sequence: int) -> None:
        self._key = key
        self._counter = 0
        self._sequence = sequence

    def pack(self, payload: bytes, sequence: int) -> bytes:
        """Return the payload of a new request with its code after it."""
        self._counter += (sequence - self._sequence) & 0xFFFF
        self._sequence = sequence
        return payload + self._tag(self._counter, payload)

    def unpack(self, payload: bytes) -> bytes | None:
        """Return the payload of a reply without its code; None: it is not from the device of this session.

        A refusal has no code, and is returned as it is: it can end the session, but brings no data.
        """
        if len(payload) <= HEADER.size:
            return None
        status = int.from_bytes(payload[HEADER.size : HEADER.size + STATUS_SIZE], "little", signed=True)
        if status in _BARE and len(payload) <= _LARGEST_REFUSAL:
            return payload
        age = (self._sequence - HEADER.unpack_from(payload)[2]) & 0xFFFF
        message, tag = payload[:-TAG_BYTES], payload[-TAG_BYTES:]
        if age > self._counter or len(message) <= HEADER.size:
            return None
        return message if hmac.compare_digest(tag, self._tag(self._counter - age, message)) else None

    def _tag(self, counter: int, payload: bytes) -> bytes:
        code = hashlib.blake2b(_COUNTER.pack(counter) + payload, digest_size=TAG_BYTES, key=self._key)
        return code.digest()


def open_secured(link: Link, signer: Signer, build_id: bytes, deadline: Deadline) -> None:
    """Open a secured session age a HELLO: every message of the link has a code from then on.

    Args:
        build_id: of the device's image; empty: it has none.

    Raises:
        DeviceError: the device trusts another key, or there were too many attempts.
    """
    own = AgreementKey()
    reply = _ask(link, Opcode.CHALLENGE, own.public, deadline)
    if len(reply) != _CHALLENGE.size:
        raise MessageError("the reply to CHALLENGE has a wrong size")
    nonce, theirs = _CHALLENGE.unpack(reply)
    session = struct.pack("<I", link.session)
    message = b"".join((_LABEL, session, nonce, own.public, theirs, bytes([len(build_id)]), build_id))
    _ask(link, Opcode.OPEN, signer.public.id + signer.sign(message), deadline)
    shared = own.agree(theirs)
    if shared is None:
        raise MessageError("the device's public key is none")
    link.seal = Seal(hashlib.sha512(shared + message).digest()[:_KEY_BYTES], link.last_sequence)


def _ask(link: Link, opcode: Opcode, body: bytes, deadline: Deadline) -> bytes:
    try:
        return link.call(opcode, body, deadline)
    except DeviceError as error:
        if error.status == Status.WAIT and len(error.body) == 4:
            wait_ms = int.from_bytes(error.body, "little")
            error.hint = "Reset the device." if wait_ms == _NEVER else f"Try again in {wait_ms / 1000:.1f} s."
        elif error.status == Status.SIGNATURE:
            error.hint = "Give the private key of one of those that the firmware was generated with (--lock)."
        raise


def locked_error(build_id: bytes) -> TargetError:
    """Error of a session without a key with a device that asks for one."""
    return TargetError(
        f"the device is locked: it answers only to a trusted key (its build id: {build_id.hex() or 'none'})",
        hint="Give the private key: --key FILE.",
    )


def not_locked_error() -> TargetError:
    """Error of a session with a key with a device that does not ask for one."""
    return TargetError(
        "a key was given, but the device does not ask for one",
        hint="Is it the right device? Leave out --key for a firmware that was generated without --lock.",
    )
