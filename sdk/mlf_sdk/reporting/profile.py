# SPDX-License-Identifier: Apache-2.0
"""Text of a profile: one row for each step, with a bar for its share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mlf_sdk.judge.profile import LayerProfile, Profile, StepProfile
from mlf_sdk.reporting.layout import Parts, counted, line, lines, number, table

_BAR = 20


def profile_parts(profile: Profile) -> Parts:
    """Lay out the measurement, the cost of each step in the order of execution, and the sums."""
    what = "step" if profile.rows == "steps" else "kernel call"
    return [
        line("model", f"{profile.model}: {counted(len(profile.steps), what)}"),
        line("board", profile.board),
        *measured_parts(profile, profile.steps),
    ]


_Row = StepProfile | LayerProfile


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table: its heading, texts of a step and of a layer inside, and of the last two rows."""

    heading: str
    cell: Callable[[StepProfile], str]
    inner: Callable[[LayerProfile], str] = lambda _: ""
    overhead: str = ""
    total: str = ""


def measured_parts(profile: Profile, steps: Iterable[StepProfile]) -> Parts:
    """Lay out the measurement, the cost of each of ``steps`` in their order, and the sums.

    Layers that run by rows inside a step stand below it, indented: their costs are part of its own.
    """
    columns = list(_columns(profile))
    rows = []
    for step in steps:
        rows.append([column.cell(step) for column in columns])
        rows += [[column.inner(layer) for column in columns] for layer in step.inside]
    rows.append([column.overhead for column in columns])
    rows.append([column.total for column in columns])
    return [
        line("measured", f"{counted(profile.runs, 'run')}; {profile.method}"),
        *_estimate_lines(profile),
        *lines("note", profile.notes),
        "",
        table([column.heading for column in columns], rows),
    ]


def _columns(profile: Profile) -> Iterator[_Column]:
    def share(row: _Row) -> str:
        return f"{row.share:.1%}"

    def each(row: _Row) -> str:
        return "-" if row.per_mac is None else f"{row.per_mac:.2f}"

    def cost(row: _Row) -> str:
        return number(row.cost)

    def least(row: _Row) -> str:
        return number(row.least)

    def most(row: _Row) -> str:
        return number(row.most)

    overhead = f"{profile.overhead / profile.total:.1%}" if profile.total else "-"
    yield _Column(">step", lambda step: str(step.index))
    yield _Column(">share", share, share, overhead)
    yield _Column("~", lambda step: bar(step.share), lambda layer: bar(layer.share))
    yield _Column(f">{profile.unit}", cost, cost, number(profile.overhead), number(profile.total))
    if profile.cycles is not None:
        total = f"~{number(profile.cycles.cycles)}"
        yield _Column(">cycles", lambda step: f"~{number(step.cycles)}", total=total)
    if profile.runs > 1:
        yield _Column(">least", least, least)
        yield _Column(">most", most, most)
    if profile.rows == "steps":
        mean = f"{profile.total / profile.macs:.2f}" if profile.macs else "-"
        yield _Column(
            ">MACs",
            lambda step: number(step.work.macs),
            lambda inner: number(inner.layer.macs),
            total=number(profile.macs),
        )
        yield _Column(">each", each, each, total=mean)
        yield _Column(">bytes", lambda step: number(step.work.moved_bytes), total=_moved_text(profile))

    def name(step: StepProfile) -> str:
        return step.name.removeprefix(profile.symbol_prefix)

    rest = "the executor" if profile.rows == "steps" else "executor, entry, and what is part of it"
    if profile.has_layers:
        yield _Column(
            "layer",
            lambda step: step.layer.text if step.layer else name(step),
            lambda inner: f"  {inner.layer.text}",
            rest,
            "total",
        )
        yield _Column("shapes", lambda step: step.shapes)
        yield _Column("kernel", lambda step: step.layer.kernel if step.layer else "")
    else:
        yield _Column("function", name, overhead=rest, total="total")


def _estimate_lines(profile: Profile) -> Parts:
    """Lay out the estimate of cycles and its method."""
    cycles = profile.cycles
    if cycles is None:
        return []
    waits = f", {number(cycles.waits)} of them for the flash" if cycles.waits else ""
    states = f"wait states {cycles.wait_states}"
    text = f"{number(cycles.cycles)} cycles{waits}: {cycles.core}, {cycles.kind}, {states}"
    parts: Parts = [line("estimate", text), line("timings", cycles.source)]
    if cycles.assumes:
        parts.append(line("assumes", cycles.assumes))
    if cycles.undecided:
        parts.append(
            line("open", f"{number(cycles.undecided)} branches, taken as far as the counts show: all")
        )
    if cycles.unknown:
        parts.append(line("no price", f"{number(cycles.unknown)} instructions, taken as one cycle each"))
    return parts


def _moved_text(profile: Profile) -> str:
    moved = [step.work.moved_bytes for step in profile.steps]
    known = [m for m in moved if m is not None]
    return number(sum(known)) if len(known) == len(moved) else "-"


def bar(share: float) -> str:
    """Bar of a share, 0 to 1; a block is a twentieth."""
    return "█" * max(0, min(_BAR, round(share * _BAR)))
