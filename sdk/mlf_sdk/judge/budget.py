# SPDX-License-Identifier: Apache-2.0
"""Budgets: limits on the sizes of an image, from the command line and from a file.

flash = "64K"            # totals; 64K, 64KiB, 1.5M or plain bytes
ram = "20K"
stack = "2K"             # of the static bound
heap = false             # no function of an allocator may be linked

[sections]               # by name
".text" = "40K"

[symbols]                # by name or pattern; a pattern limits the sum of what it matches
"tvmgen_*" = "30K"

[models.digits]          # by the model's name
arena = 7296
params = "17K"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.judge.sizes import Sizes, parse_size
from mlf_sdk.tools.rowfile import read_row

BUDGET_NAME = "mlf-budget.toml"
"""Name of the budget file in the folder of a project."""

_Size = int | str


class _ModelBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    arena: _Size | None = None
    params: _Size | None = None


class _BudgetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    flash: _Size | None = None
    ram: _Size | None = None
    stack: _Size | None = None
    heap: bool = True
    sections: dict[str, _Size] = {}
    symbols: dict[str, _Size] = {}
    models: dict[str, _ModelBudget] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Upper limit of one size.

    Attributes:
        kind: ``total``, ``section``, ``symbol``, ``model`` or ``heap``.
        name: e.g. ``flash``, ``.text``, ``tvmgen_*``, ``digits arena``.
        field: option or field of the file that states it.
    """

    kind: str
    name: str
    most_bytes: int
    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLine:
    """A limit and the actual size, which is None where ``note`` says why it is not known."""

    limit: Limit
    actual_bytes: int | None
    note: str = ""

    @property
    def ok(self) -> bool:
        """Return whether the actual size is known and within the limit."""
        return self.actual_bytes is not None and self.actual_bytes <= self.limit.most_bytes


def read_budget(path: Path) -> tuple[Limit, ...]:
    """Read the limits of a budget file.

    Raises:
        InputError: the file can't be read, or a field is invalid; with its path.
    """
    return tuple(_limits(read_row(path, _BudgetFile), str(path)))


def total_limits(given: Mapping[str, str | None]) -> tuple[Limit, ...]:
    """Parse the limits of ``flash``, ``ram`` and ``stack`` that the command line has.

    Raises:
        InputError: a value is not a size.
    """
    return tuple(
        Limit(kind="total", name=name, most_bytes=parse_size(text, f"--max-{name}"), field=f"--max-{name}")
        for name, text in given.items()
        if text is not None
    )


def _limits(file: _BudgetFile, path: str) -> Iterator[Limit]:
    def limit(kind: str, name: str, size: _Size, field: str) -> Limit:
        return Limit(kind=kind, name=name, most_bytes=parse_size(size, f"{path}: {field}"), field=field)

    for name, size in (("flash", file.flash), ("ram", file.ram), ("stack", file.stack)):
        if size is not None:
            yield limit("total", name, size, f"$.{name}")
    if not file.heap:
        yield Limit(kind="heap", name="functions of an allocator", most_bytes=0, field="$.heap")
    for name, size in file.sections.items():
        yield limit("section", name, size, f"$.sections['{name}']")
    for name, size in file.symbols.items():
        yield limit("symbol", name, size, f"$.symbols['{name}']")
    for name, model in file.models.items():
        for what, size in (("arena", model.arena), ("params", model.params)):
            if size is not None:
                yield limit("model", f"{name} {what}", size, f"$.models.{name}.{what}")


def check_budget(limits: tuple[Limit, ...], sizes: Sizes, report: CheckReport) -> tuple[BudgetLine, ...]:
    """Compare the sizes of an image with the limits.

    Raises:
        InputError: a limit names a section, symbol or model that the image does not have.
    """
    return tuple(_line(limit, sizes, report) for limit in limits)


def _line(limit: Limit, sizes: Sizes, report: CheckReport) -> BudgetLine:
    if limit.kind == "heap":
        allocators = report.allocators
        note = "not examined: nothing reads the machine code" if allocators is None else ""
        return BudgetLine(
            limit=limit, actual_bytes=None if allocators is None else len(allocators), note=note
        )
    if limit.kind == "total":
        actual = {"flash": sizes.flash, "ram": sizes.ram, "stack": sizes.stack}[limit.name]
        return BudgetLine(limit=limit, actual_bytes=actual, note=sizes.stack_note if actual is None else "")
    return BudgetLine(limit=limit, actual_bytes=sum(_matching(limit, sizes)))


def _matching(limit: Limit, sizes: Sizes) -> list[int]:
    known = {"model": sizes.models, "section": sizes.sections, "symbol": sizes.symbols}[limit.kind]
    result = [size for name, size in known.items() if name == limit.name]
    if not result and limit.kind == "symbol":
        result = [size for name, size in known.items() if fnmatchcase(name, limit.name)]
    if not result:
        hint = "The image has: " + ", ".join(sorted(known)[:8]) if limit.kind != "symbol" else ""
        raise InputError(f"the image has no {limit.kind} '{limit.name}'", where=limit.field, hint=hint)
    return result
