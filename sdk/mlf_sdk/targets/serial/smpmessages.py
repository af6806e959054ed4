# SPDX-License-Identifier: Apache-2.0
"""Messages of the SMP group that carries the RPC protocol, as in ``crt/zephyr/smp.c``."""

from __future__ import annotations

from pydantic import ValidationError
from smp import error, message

from mlf_sdk.errors import InputError, TargetError

GROUP_ID = 19788  # "ML"
COMMAND_ID = 0
_ABSENT = (error.MGMT_ERR.ENOENT, error.MGMT_ERR.ENOTSUP)


class Exchange(message.WriteRequest):
    """Bytes for the RPC server."""

    _GROUP_ID = GROUP_ID
    _COMMAND_ID = COMMAND_ID

    d: bytes


class Exchanged(message.WriteResponse):
    """Number of them that it has taken, and bytes that it has sent."""

    _GROUP_ID = GROUP_ID
    _COMMAND_ID = COMMAND_ID

    n: int
    d: bytes


class _Refused(error.ErrorV1):
    _GROUP_ID = GROUP_ID


def response_of(frame: bytes, where: str) -> Exchanged:
    """Decode a response.

    Raises:
        InputError: the server has no such group.
        TargetError: it refused the request.
        ValueError, SMPException: this is no response of the group.
    """
    try:
        return Exchanged.loads(frame)
    except ValidationError as other:
        try:
            refused = _Refused.loads(frame)
        except ValidationError:
            raise other from None
    if refused.rc in _ABSENT:
        raise InputError(
            "the device's SMP server has no group for models",
            where=where,
            hint="Build its project with -DEXTRA_CONF_FILE=smp.conf, and flash it.",
        )
    raise TargetError(f"the device's SMP server refused the request ({refused.rc.name})", where=where)
