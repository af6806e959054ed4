# SPDX-License-Identifier: Apache-2.0
"""Archives of objects: names of every form, and everything that can be wrong with one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_bundles import archive
from mlf_sdk.analysis.elf import ar
from mlf_sdk.analysis.elf.ar import ArFormatError, read_ar

LONG = "/home/someone/../models//a-very-long-name.o"
MEMBERS = [("a.o", b"one"), (LONG, b"two!"), ("b.o", b"")]


@pytest.mark.parametrize("bsd", [False, True])
def test_members(bsd: bool) -> None:
    assert [(m.name, m.data) for m in read_ar(archive(MEMBERS, bsd=bsd))] == MEMBERS


def cut(data: bytes, place: int, new: bytes) -> bytes:
    return data[:place] + new + data[place + len(new) :]


GOOD = archive(MEMBERS)
AT = 8 + 60 + 4  # behind the index


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"!<thin>\n", "thin"),
        (b"\x7fELF", "not an ar archive"),
        (archive(MEMBERS, index=False), "no symbol index"),
        (GOOD[:40], "header of a member is broken at byte 8"),
        (cut(GOOD, 66, b"xx"), "header of a member is broken at byte 8"),
        (cut(GOOD, 56, b"9999999   "), "beyond the end, at byte 8"),
        (cut(GOOD, 56, b"many      "), "the size of a member is not a number"),
        (GOOD.replace(b"/0  ", b"/99 "), "outside the table of names"),
        (GOOD.replace(b"/0  ", b"/x  "), "the place of a name is not a number"),
        (archive(MEMBERS, bsd=True).replace(b"#1/3 ", b"#1/9 ", 1), "beyond its member"),
    ],
)
def test_broken_archives(data: bytes, what: str) -> None:
    with pytest.raises(ArFormatError, match=what):
        read_ar(data)


def test_members_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ar, "MAX_MEMBERS", 2)
    with pytest.raises(ArFormatError, match="more than 2 members"):
        read_ar(GOOD)


@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=12))
def test_any_change_gives_members_or_an_error(place: int, new: bytes) -> None:
    try:
        found = read_ar(cut(GOOD, place, new))
    except ArFormatError:
        return
    assert sum(len(m.data) for m in found) < len(GOOD) + len(new)
