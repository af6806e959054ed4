# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import random
from collections.abc import Callable

import pytest

from mlf_sdk.frontends.intake.bytestream import ArchiveStream
from mlf_sdk.frontends.intake.limits import DEFAULT_LIMITS, Limits, StopReadingError

NOISE = random.Random(1).randbytes(300_000)
PACK: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "gzip in two": lambda data: gzip.compress(data[:1000], mtime=0) + gzip.compress(data[1000:], mtime=0),
    "gzip padded": lambda data: gzip.compress(data, mtime=0) + bytes(200_000),
    "xz": lzma.compress,
    "xz in two": lambda data: lzma.compress(data[:1000]) + lzma.compress(data[1000:]),
}


def open_stream(data: bytes, limits: Limits = DEFAULT_LIMITS) -> ArchiveStream:
    return ArchiveStream(io.BytesIO(data), limits)


@pytest.mark.parametrize("how", PACK)
@pytest.mark.parametrize("size", [1, 511, 512, 65536, 65537, 299_000])
def test_reads_in_any_pieces(how: str, size: int) -> None:
    packed = PACK[how](NOISE)
    stream = open_stream(packed)
    assert stream.read(size) == NOISE[:size]
    assert stream.read(0) == b""
    assert stream.skip(107) == 107
    rest = stream.read(10**9)
    assert rest.rstrip(b"\x00") == NOISE[size + 107 :].rstrip(b"\x00")
    assert stream.read(1) == b""
    assert stream.skip(5) == 0
    assert stream.finish() == hashlib.sha256(packed).hexdigest()


@pytest.mark.parametrize("how", PACK)
def test_only_zeros_may_follow(how: str) -> None:
    stream = open_stream(PACK[how](b"archive" + bytes(100_000)))
    stream.read(7)
    assert len(stream.finish()) == 64
    stream = open_stream(PACK[how](b"archive" + bytes(100_000) + b"x"))
    stream.read(7)
    with pytest.raises(StopReadingError, match="behind the end of the archive"):
        stream.finish()


@pytest.mark.parametrize("how", PACK)
def test_total_size_is_bounded(how: str) -> None:
    data = PACK[how](NOISE)
    with pytest.raises(StopReadingError, match="100000 bytes"):
        open_stream(data, Limits(total_bytes=100_000)).skip(10**9)
    bound = max(len(data), len(NOISE))
    assert open_stream(data, Limits(total_bytes=bound)).skip(10**9) == len(NOISE)


def test_unpacked_size_is_bounded() -> None:
    data = gzip.compress(bytes(100_000), mtime=0)
    with pytest.raises(StopReadingError, match="unpacks to more than 99999 bytes"):
        open_stream(data, Limits(total_bytes=99_999)).skip(10**9)
    assert open_stream(data, Limits(total_bytes=100_000)).skip(10**9) == 100_000


@pytest.mark.parametrize("how", ["gzip", "xz"])
def test_ratio_is_bounded_beyond_the_free_bytes(how: str) -> None:
    data = PACK[how](bytes(1 << 20))
    assert open_stream(data).skip(10**9) == 1 << 20
    with pytest.raises(StopReadingError, match="unpacks to more than 200 times its size"):
        open_stream(PACK[how](bytes(2 << 20))).skip(10**9)
    assert open_stream(PACK[how](bytes(2 << 20)), Limits(ratio=5000)).skip(10**9) == 2 << 20


@pytest.mark.parametrize("how", ["gzip", "xz", "gzip in two", "xz in two"])
def test_cut_anywhere(how: str) -> None:
    data = PACK[how](NOISE[:2000])
    for end in range(1, len(data)):
        stream = open_stream(data[:end])
        try:
            assert stream.read(10**6) in (NOISE[:1000], data[:end])
        except StopReadingError as stop:
            assert "cut short" in stop.what or "behind" in stop.what


def test_xz_memory_is_bounded() -> None:
    with pytest.raises(StopReadingError, match="damaged"):
        open_stream(lzma.compress(b"x" * 1000), Limits(xz_memory_bytes=1 << 20)).read(1)
