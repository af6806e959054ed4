# SPDX-License-Identifier: Apache-2.0
"""Names for pictures: short enough for their place, still told apart, and harmless."""

from __future__ import annotations

from collections.abc import Sequence


def harmless(text: str) -> str:
    """``text`` with what does not print escaped: controls, marks that turn the direction."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def short_names(names: Sequence[str]) -> list[str]:
    """Names without the prefix of whole words that all of them share."""
    prefix = shared_prefix(names)
    return [name.removeprefix(prefix).removeprefix("fused_") or name for name in names]


def shared_prefix(names: Sequence[str]) -> str:
    """Whole words, joined by ``_``, that all names begin with; empty for fewer than two names."""
    if len(names) < 2:
        return ""
    first, last = min(names), max(names)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    cut = first[:length].rfind("_") + 1
    while cut and not all(any(map(str.isalpha, name[cut:])) for name in names):
        cut = first.rfind("_", 0, cut - 1) + 1  # what is left has to say something
    return first[:cut]


def shorten(text: str, most: int) -> str:
    """``text`` in at most ``most`` characters: the middle is left out."""
    if len(text) <= most:
        return text
    if most < 2:
        return text[:most]
    tail = (most - 1) // 3
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :] if tail else ''}"
