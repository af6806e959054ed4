# SPDX-License-Identifier: Apache-2.0
"""Frames and console text on one byte stream."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlf_sdk.wire import frames
from mlf_sdk.wire.frames import Deframer, FrameError


def deframer(max_payload: int = 512) -> tuple[Deframer, list[bytes]]:
    texts: list[bytes] = []
    return Deframer(max_payload, texts.append), texts


def test_a_known_frame() -> None:
    # CRC-32 of "123456789" is the check value of the polynomial.
    assert frames.encode(b"123456789") == b"\x00\x0e123456789\x26\x39\xf4\xcb\x00"
    assert frames.decode(b"\x0e123456789\x26\x39\xf4\xcb") == b"123456789"


@pytest.mark.parametrize("chunk", [b"", b"\x01", b"\x05abc", b"\x05abcd", b"\x05\x00\x00\x00\x01", b"hello"])
def test_what_is_no_frame(chunk: bytes) -> None:
    with pytest.raises(FrameError):
        frames.decode(chunk)


@given(st.binary(max_size=700))
def test_round_trip_and_size(payload: bytes) -> None:
    frame = frames.encode(payload)
    assert frame[0] == frame[-1] == 0
    assert 0 not in frame[1:-1]
    assert len(frame) - 2 <= frames.longest_frame(len(payload))
    assert frames.decode(frame[1:-1]) == payload


@pytest.mark.parametrize("size", [249, 250, 251, 504, 505])
def test_longest_frame_is_reached(size: int) -> None:
    assert len(frames.encode(b"\xff" * size)) - 2 <= frames.longest_frame(size)
    sizes = [len(frames.encode(bytes([value]) * size)) - 2 for value in (0, 1, 255)]
    assert max(sizes) >= frames.longest_frame(size) - 1


PIECES = st.one_of(
    st.binary(max_size=60).map(frames.encode),
    st.text(alphabet="abcäöü \n", min_size=1, max_size=40).map(lambda text: text.encode() + b"\x00"),
    st.binary(min_size=1, max_size=40),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES, max_size=8), st.randoms(use_true_random=False))
def test_pieces_of_any_size_give_the_same(pieces: list[bytes], draw: random.Random) -> None:
    stream = b"".join(pieces) + b"\x00"
    whole, texts = deframer(30)
    expected = whole.feed(stream)
    for most in (1, 7):
        cut, cut_texts = deframer(30)
        payloads = []
        at = 0
        while at < len(stream):
            size = draw.randint(1, most)
            payloads += cut.feed(stream[at : at + size])
            at += size
        assert payloads == expected
        assert b"".join(cut_texts) == b"".join(texts)
        assert (cut.dropped, cut.good, cut.bad) == (whole.dropped, whole.good, whole.bad)


def test_frames_between_console_text() -> None:
    split, texts = deframer()
    stream = (
        b"boot\r\n" + frames.encode(b"one") + "größe \x1b[1mbold\n".encode() + frames.encode(b"two") + b"end"
    )
    assert split.feed(stream) == [b"one", b"two"]
    assert texts == [b"boot\r\n", "größe \x1b[1mbold\n".encode()]
    split.flush()
    assert texts[-1] == b"end"
    assert split.dropped == 0


def test_flush_keeps_a_frame_under_way() -> None:
    split, texts = deframer()
    payload = b"\x02\x42abcdefghijklmnopqrstuvwxyz"
    frame = frames.encode(payload)
    for cut in range(len(frame)):
        assert split.feed(frame[:cut]) == []
        split.flush()
        assert split.feed(frame[cut:]) == [payload]
    assert texts == []


def test_noise_is_counted_and_not_shown() -> None:
    split, texts = deframer()
    assert split.feed(b"\xff\xfe\xfd\x00\x01\x02\x00a\x80\x81\x82c\x00") == []
    assert (split.dropped, split.bad, texts) == (3, 8, [])
    assert split.feed(frames.encode(b"good")) == [b"good"]


def test_a_flipped_bit_is_never_a_payload() -> None:
    frame = frames.encode(b"\x01\x05\x10\x00 payload")
    for bit in range(8, 8 * (len(frame) - 1)):
        split, _ = deframer()
        damaged = bytearray(frame)
        damaged[bit // 8] ^= 1 << bit % 8
        assert split.feed(bytes(damaged) + frame) == [b"\x01\x05\x10\x00 payload"]


def test_endless_text_is_handed_over_and_memory_stays_bounded() -> None:
    split, texts = deframer(64)
    line = "0123456789 ä\n"
    for _ in range(500):
        split.feed(line.encode())
        assert len(split._pending) <= frames.longest_frame(64)
    assert split.feed(b"\x00" + frames.encode(b"x")) == [b"x"]
    assert b"".join(texts) == line.encode() * 500


def test_endless_text_without_lines_keeps_its_characters() -> None:
    for shift in range(9):  # bytes of the characters below: each is cut once at every place
        split, texts = deframer(64)
        text = "x" * shift + "ä€😀" * 100
        split.feed(text.encode() + b"\x00")
        assert "".join(piece.decode() for piece in texts) == text  # no piece ends within a character
        assert (split.good, split.bad) == (len(text.encode()), 0)


def test_endless_noise_is_dropped() -> None:
    split, texts = deframer(64)
    for _ in range(200):
        assert split.feed(b"\xff\x80" * 50) == []
        assert len(split._pending) <= frames.longest_frame(64)
    assert split.feed(b"\x00" + frames.encode(b"x")) == [b"x"]
    assert texts == [] and split.dropped > 100 and split.bad == 200 * 100


@pytest.mark.parametrize("byte", [b"\xff", b"\x80", b"\x02", b"\x00", b"\x1f"])
def test_one_byte_mutes_nothing(byte: bytes) -> None:
    """Wherever it stands, before text, inside or behind, and however long the device is silent then."""
    text = b"first line\n"
    for at in range(len(text) + 1):
        split, texts = deframer()
        assert split.feed(text[:at] + byte + text[at:]) == []
        split.flush(quiet=True)
        split.feed(b"next\n")
        split.flush()
        assert b"".join(texts).replace(byte, b"") == text + b"next\n"


def test_text_of_another_encoding_is_text() -> None:
    split, texts = deframer()
    split.feed("temp 23°C\n".encode("latin-1"))
    split.flush()
    assert texts == [b"temp 23\xb0C\n"]


def test_text_amid_noise_is_found_at_the_next_line() -> None:
    split, texts = deframer()
    noise = bytes(range(128, 256))
    split.feed(noise + b"\nready to go\n" + noise)
    split.flush(quiet=True)
    assert texts == [b"ready to go\n"]
    assert (split.good, split.bad, split.dropped) == (len(b"\nready to go\n"), 256, 1)


def test_a_line_amid_noise_has_four_bytes_at_least() -> None:
    split, texts = deframer()
    split.feed(bytes(range(128, 160)) + b"\nabc\nab\n" + bytes(range(128, 160)))
    split.flush(quiet=True)
    assert texts == [b"abc\n"]


@pytest.mark.parametrize(("unreadable", "is_text"), [(2, True), (3, False)])
def test_three_quarters_of_text_are_readable(unreadable: int, is_text: bool) -> None:
    split, texts = deframer()
    data = b"abcdefgh"[unreadable:] + b"\xff" * unreadable
    split.feed(data)
    split.flush(quiet=True)
    assert texts == ([data] if is_text else [])


def test_pieces_of_text_are_no_longer_than_a_frame() -> None:
    split, texts = deframer(64)
    split.feed(b"x" * 60)
    split.feed(b"x" * 500)
    assert {len(piece) for piece in texts} == {frames.longest_frame(64) + 1}


def test_two_zeros_in_a_row_are_of_frames_and_more_are_noise() -> None:
    split, _ = deframer()
    split.feed(frames.encode(b"one") + frames.encode(b"two"))
    assert split.bad == 0
    split.feed(bytes(10))
    assert split.bad == 8
    split.feed(b"x" + bytes(3))  # the first of them ends the text
    assert split.bad == 8


def test_a_flush_hands_over_what_follows_a_whole_character() -> None:
    for text in ("aäx", "€x", "😀x", "xä€y", "ä", "a b"):
        split, texts = deframer()
        split.feed(text.encode())
        split.flush()
        assert texts == [text.encode()]


def test_a_frame_longer_than_allowed_is_no_frame() -> None:
    split, _ = deframer(64)
    assert split.feed(frames.encode(b"\x01" * 64)) == [b"\x01" * 64]
    assert split.feed(frames.encode(b"\x01" * 80)) == []
    assert split.dropped == 2  # its beginning and its end
