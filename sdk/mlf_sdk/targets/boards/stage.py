# SPDX-License-Identifier: Apache-2.0
"""Second stage of a boot ROM: 256 bytes of code at the start of a flash outside of the chip, to set it up."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from mlf_sdk.targets.boards.row import Init
from mlf_sdk.tools.isas import STAGE_BYTES

_PAIRS: Final = struct.Struct("<2I")
_POLYNOMIAL: Final = 0x04C1_1DB7
_ALL: Final = 0xFFFF_FFFF


def second_stage(writes: Sequence[Init], code: Sequence[int], origin: int) -> bytes:
    """Image of the second stage: code, its writes, address of the vector table after it, checksum.

    Args:
        code: of the architecture, in words of 16 bits, an even number of them.
        origin: address of the flash; the vector table follows the second stage.
    """
    pairs = [(write.address, write.value) for write in writes] + [(0, origin + STAGE_BYTES)]
    data = struct.pack(f"<{len(code)}H", *code) + b"".join(_PAIRS.pack(*pair) for pair in pairs)
    data = data.ljust(STAGE_BYTES - 4, b"\0")
    return data + struct.pack("<I", _crc(data))


def _crc(data: bytes) -> int:
    """Checksum of the RP2040's boot ROM: CRC-32, most significant bit first, not inverted at the end."""
    result = _ALL
    for byte in data:
        result ^= byte << 24
        for _ in range(8):
            result = (result << 1 ^ (_POLYNOMIAL if result >> 31 else 0)) & _ALL
    return result
