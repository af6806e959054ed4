# SPDX-License-Identifier: Apache-2.0
"""A baseline: the sizes of an image, kept in a file, and what changed since, symbol by symbol."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mlf_sdk.codegen.lock import Lock
from mlf_sdk.errors import InputError
from mlf_sdk.judge.sizes import Sizes, parse_size
from mlf_sdk.tools.files import write_whole

SCHEMA = 1
_MAX_BYTES = 1 << 26
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%", re.ASCII)


class Baseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sizes of an image in bytes, and what it was."""

    schema: int
    sdk_version: str
    board: str
    archives: dict[str, str]
    totals: dict[str, int]
    sections: dict[str, int]
    symbols: dict[str, int]
    models: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How much a thing may grow: the larger of a share of what it was and a number of bytes."""

    share: float = 0.0
    bytes: int = 0

    def allows(self, before: int, after: int) -> bool:
        """Whether the growth is within it."""
        return after - before <= max(before * self.share, self.bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A thing whose size is not what it was.

    Attributes:
        kind: ``total``, ``section``, ``symbol`` or ``model``.
        before, after: bytes; None: it was not there, it is gone.
        ok: it did not grow, or within the tolerance.
    """

    kind: str
    name: str
    before: int | None
    after: int | None
    ok: bool

    @property
    def word(self) -> str:
        """``new``, ``gone``, ``grown`` or ``shrunk``."""
        if self.before is None:
            return "new"
        if self.after is None:
            return "gone"
        return "grown" if self.after > self.before else "shrunk"

    @property
    def growth(self) -> int:
        """Bytes more than before."""
        return (self.after or 0) - (self.before or 0)


def make_baseline(lock: Lock, sizes: Sizes) -> Baseline:
    """The baseline of an image."""
    totals = {"flash": sizes.flash, "ram": sizes.ram}
    if sizes.stack is not None:
        totals["stack"] = sizes.stack
    return Baseline(
        schema=SCHEMA,
        sdk_version=lock.sdk_version,
        board=lock.board,
        archives={model.name: model.archive_sha256 for model in lock.models},
        totals=totals,
        sections=sizes.sections,
        symbols=sizes.symbols,
        models={f"{name} {what}": size for name, of in sizes.models.items() for what, size in of.items()},
    )


def save_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline, whole or not at all; the same image gives the same bytes.

    Raises:
        InputError: the file can't be written.
    """
    encoded = msgspec.json.encode(baseline, order="deterministic")
    write_whole(path, msgspec.json.format(encoded, indent=1) + b"\n")


def read_baseline(path: Path, board: str) -> Baseline:
    """The baseline in a file.

    Raises:
        InputError: it can't be read, is damaged, or is of another board or schema.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
        found = msgspec.json.decode(data, type=Baseline)
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(
            f"the baseline can't be read: {reason}",
            where=str(path),
            hint="Make one with: mlf-sdk check DIR --save-baseline FILE",
        ) from error
    for what, was, wanted in (("schema", found.schema, SCHEMA), ("board", found.board, board)):
        if was != wanted:
            raise InputError(
                f"the baseline is for {what} {was}, and the image for {what} {wanted}",
                where=str(path),
                hint="Make a new one with --save-baseline.",
            )
    return found


def parse_tolerance(text: str) -> Tolerance:
    """``1%``, ``64`` (bytes), ``1K``, or both with a comma between.

    Raises:
        InputError: it is none of these.
    """
    share, size = 0.0, 0
    for part in text.split(","):
        percent = _PERCENT.fullmatch(part.strip())
        if percent:
            share = float(percent.group(1)) / 100
        else:
            size = parse_size(part, "--tolerance")
    return Tolerance(share=share, bytes=size)


def changes(before: Baseline, after: Baseline, tolerance: Tolerance) -> tuple[Change, ...]:
    """All that is not as it was: what grew too much first, then by how much it changed."""
    found = []
    for kind, old, new in (
        ("total", before.totals, after.totals),
        ("section", before.sections, after.sections),
        ("symbol", before.symbols, after.symbols),
        ("model", before.models, after.models),
    ):
        for name in {**old, **new}:
            was, now = old.get(name), new.get(name)
            if was != now:
                ok = tolerance.allows(was or 0, now or 0)
                found.append(Change(kind=kind, name=name, before=was, after=now, ok=ok))
    return tuple(sorted(found, key=lambda c: (c.ok, -abs(c.growth), c.kind, c.name)))
