# SPDX-License-Identifier: Apache-2.0
"""A finding about an archive."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something unusual in an archive, and what the SDK does about it.

    Attributes:
        blocks: nothing can be done about it on the board in question.
    """

    where: str
    what: str
    handled: str
    blocks: bool = False
