# SPDX-License-Identifier: Apache-2.0
"""Pieces of a package that a device has already: they make up the new one, and only what is worth it is copied."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mlf_sdk.wire.difference import LEAST_COPY_BYTES, MOST_COPY_BYTES, Base, pieces

OLD = bytes(range(256)) * 40


@given(
    st.lists(st.tuples(st.integers(0, len(OLD) - 1), st.integers(1, 300)), max_size=8),
    st.integers(0, len(OLD)),
    st.integers(0, 500),
    st.sampled_from([1, 4, 8, 64]),
)
def test_pieces_make_up_the_new_version(
    changes: list[tuple[int, int]], keep: int, more: int, unit: int
) -> None:
    new = bytearray(OLD[:keep] + bytes(more))
    for at, size in changes:
        for i in range(at, min(at + size, len(new))):
            new[i] ^= 0xA5
    made = b""
    listed = list(pieces(bytes(new), OLD, unit))
    for offset, size, is_copied in listed:
        assert offset == len(made)
        assert size > 0
        assert size % unit == 0 or offset + size == len(new)
        assert not is_copied or (size <= MOST_COPY_BYTES and size % unit == 0)
        made += (OLD if is_copied else new)[offset : offset + size]
    assert made == new
    kinds = [is_copied for _, _, is_copied in listed]
    assert not any(a is b is False for a, b in pairwise(kinds))


def test_short_runs_are_sent() -> None:
    new = bytearray(OLD)
    new[100] ^= 1
    new[100 + LEAST_COPY_BYTES] ^= 1
    sent = [(at, size) for at, size, is_copied in pieces(bytes(new), OLD, 1) if not is_copied]
    assert sent == [(100, LEAST_COPY_BYTES + 1)]
    new[101 + LEAST_COPY_BYTES] ^= 1
    new[100 + LEAST_COPY_BYTES] ^= 1
    sent = [(at, size) for at, size, is_copied in pieces(bytes(new), OLD, 1) if not is_copied]
    assert sent == [(100, 1), (101 + LEAST_COPY_BYTES, 1)]


def test_what_a_device_has() -> None:
    base = Base(version=3, header_crc=7, content=b"paramscases", params_bytes=6)
    assert base.known_to(header_crc=7, version=3) == b"paramscases"
    assert base.known_to(header_crc=7, version=4) == b"params"
    assert base.known_to(header_crc=8, version=3) == b""
