# SPDX-License-Identifier: Apache-2.0
"""Baselines: the sizes of an image kept in a file, and the changes since, symbol by symbol."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mlf_sdk.codegen.lock import Lock
from mlf_sdk.errors import InputError
from mlf_sdk.judge.sizes import Sizes, parse_size
from mlf_sdk.tools.files import write_whole
from mlf_sdk.tools.rowfile import described

SCHEMA = 1
_MAX_BYTES = 1 << 26
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%", re.ASCII)


class Baseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes of an image in bytes, with the SDK, board and archives that it was made of."""

    schema: int
    sdk_version: str
    board: str
    archives: dict[str, str]
    totals: dict[str, int]
    sections: dict[str, int]
    symbols: dict[str, int]
    models: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthLimit:
    """Permitted growth: the larger of a share of the former size and a number of bytes."""

    share: float = 0.0
    size_bytes: int = 0

    def allows(self, before: int, after: int) -> bool:
        """Check a growth from ``before`` to ``after`` bytes."""
        return after - before <= max(before * self.share, self.size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Change of one size since the baseline.

    Attributes:
        kind: ``total``, ``section``, ``symbol`` or ``model``.
        before, after: bytes; None before it existed, or after it was removed.
        ok: it did not grow by more than is permitted.
    """

    kind: str
    name: str
    before: int | None
    after: int | None
    ok: bool

    @property
    def status(self) -> str:
        """``new``, ``gone``, ``grown`` or ``shrunk``."""
        if self.before is None:
            return "new"
        if self.after is None:
            return "gone"
        return "grown" if self.after > self.before else "shrunk"

    @property
    def growth(self) -> int:
        """Growth in bytes; negative when it shrank."""
        return (self.after or 0) - (self.before or 0)


def make_baseline(lock: Lock, sizes: Sizes) -> Baseline:
    """Make the baseline of an image that was built from ``lock``."""
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
        models=sizes.models,
    )


def save_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline atomically; the same image gives the same bytes.

    Raises:
        InputError: the file can't be written.
    """
    encoded = msgspec.json.encode(baseline, order="deterministic")
    write_whole(path, msgspec.json.format(encoded, indent=1) + b"\n")


def read_baseline(path: Path, board: str) -> Baseline:
    """Read the baseline of ``board``.

    Raises:
        InputError: the file can't be read, is damaged, or has another board or schema.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
        result = msgspec.json.decode(data, type=described(Baseline))
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(
            f"the baseline can't be read: {reason}",
            where=str(path),
            hint="Make one with: mlf-sdk check DIR --save-baseline FILE",
        ) from error
    for what, was, wanted in (("schema", result.schema, SCHEMA), ("board", result.board, board)):
        if was != wanted:
            raise InputError(
                f"the baseline is for {what} {was}, and the image for {what} {wanted}",
                where=str(path),
                hint="Make a new one with --save-baseline.",
            )
    return result


def parse_growth_limit(text: str) -> GrowthLimit:
    """Parse ``1%``, ``64`` (bytes), ``1K``, or a share and a size separated by a comma.

    Raises:
        InputError: ``text`` is none of these.
    """
    share, size = 0.0, 0
    for part in text.split(","):
        percent = _PERCENT.fullmatch(part.strip())
        if percent:
            share = float(percent.group(1)) / 100
        else:
            size = parse_size(part, "--tolerance")
    return GrowthLimit(share=share, size_bytes=size)


def find_changes(before: Baseline, after: Baseline, limit: GrowthLimit) -> tuple[Change, ...]:
    """Find all changes of size: those beyond the limit first, then by their size."""
    result = []
    for kind, old, new in (
        ("total", before.totals, after.totals),
        ("section", before.sections, after.sections),
        ("symbol", before.symbols, after.symbols),
        ("model", before.models, after.models),
    ):
        for name in {**old, **new}:
            was, now = old.get(name), new.get(name)
            if was != now:
                ok = limit.allows(was or 0, now or 0)
                result.append(Change(kind=kind, name=name, before=was, after=now, ok=ok))
    return tuple(sorted(result, key=lambda c: (c.ok, -abs(c.growth), c.kind, c.name)))
