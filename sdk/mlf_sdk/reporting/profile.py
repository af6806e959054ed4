# SPDX-License-Identifier: Apache-2.0
"""Text of a profile: one row for each step, with a bar for its share."""

from __future__ import annotations

from collections.abc import Iterable

from mlf_sdk.judge.profile import Profile, StepProfile
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


def measured_parts(profile: Profile, steps: Iterable[StepProfile]) -> Parts:
    """Lay out the measurement, the cost of each of ``steps`` in their order, and the sums."""
    rows = [_row(profile, step) for step in steps]
    ends = [""] * (len(_last_headings(profile)) - 1)
    rows.append(
        (
            "",
            _share_text(profile, profile.overhead),
            "",
            number(profile.overhead),
            *_blanks(profile),
            _rest(profile),
            *ends,
        )
    )
    cycles = _cycles_cell(profile, profile.cycles.cycles if profile.cycles else None)
    rows.append(("", "", "", number(profile.total), *cycles, *_sums(profile), "total", *ends))
    return [
        line("measured", f"{counted(profile.runs, 'run')}; {profile.method}"),
        *_estimate_lines(profile),
        *lines("note", profile.notes),
        "",
        table(_headings(profile), rows),
    ]


def _estimate_lines(profile: Profile) -> Parts:
    """Lay out the estimate of cycles and its method."""
    found = profile.cycles
    if found is None:
        return []
    waits = f", {number(found.waits)} of them for the flash" if found.waits else ""
    text = (
        f"{number(found.cycles)} cycles{waits}: {found.core}, {found.kind}, wait states {found.wait_states}"
    )
    parts: Parts = [line("estimate", text), line("timings", found.source)]
    if found.assumes:
        parts.append(line("assumes", found.assumes))
    if found.undecided:
        parts.append(
            line("open", f"{number(found.undecided)} branches, taken as far as the counts show: all")
        )
    if found.unknown:
        parts.append(line("no price", f"{number(found.unknown)} instructions, taken as one cycle each"))
    return parts


def _cycles_cell(profile: Profile, cycles: int | None) -> list[str]:
    return [] if profile.cycles is None else [f"~{number(cycles)}"]


def _rest(profile: Profile) -> str:
    return "the executor" if profile.rows == "steps" else "executor, entry, and what is part of it"


def _headings(profile: Profile) -> list[str]:
    spread = [">least", ">most"] if profile.runs > 1 else []
    more = [">MACs", ">each", ">bytes"] if profile.rows == "steps" else []
    cycles = [] if profile.cycles is None else [">cycles"]
    return [">step", ">share", "~", f">{profile.unit}", *cycles, *spread, *more, *_last_headings(profile)]


def _last_headings(profile: Profile) -> list[str]:
    return ["layer", "shapes", "kernel"] if profile.has_layers else ["function"]


def _row(profile: Profile, step: StepProfile) -> tuple[str, ...]:
    spread = [number(step.least), number(step.most)] if profile.runs > 1 else []
    each = "-" if step.per_mac is None else f"{step.per_mac:.2f}"
    more = [number(step.work.macs), each, number(step.work.moved_bytes)] if profile.rows == "steps" else []
    share = f"{step.share:.1%}"
    name = step.name.removeprefix(profile.symbol_prefix)
    last = [name]
    if profile.has_layers:
        layer = step.layer
        last = [name, step.shapes, ""] if layer is None else [layer.text, step.shapes, layer.kernel]
    return (
        str(step.index),
        share,
        bar(step.share),
        number(step.cost),
        *_cycles_cell(profile, step.cycles),
        *spread,
        *more,
        *last,
    )


def _share_text(profile: Profile, cost: int) -> str:
    return f"{cost / profile.total:.1%}" if profile.total else "-"


def _blanks(profile: Profile) -> list[str]:
    return [""] * (len(_headings(profile)) - len(_last_headings(profile)) - 4)


def _sums(profile: Profile) -> list[str]:
    spread = ["", ""] if profile.runs > 1 else []
    if profile.rows != "steps":
        return spread
    moved = [step.work.moved_bytes for step in profile.steps]
    known = [m for m in moved if m is not None]
    each = f"{profile.total / profile.macs:.2f}" if profile.macs else "-"
    return [*spread, number(profile.macs), each, number(sum(known)) if len(known) == len(moved) else "-"]


def bar(share: float) -> str:
    """Bar of a share, 0 to 1; a block is a twentieth."""
    return "█" * max(0, min(_BAR, round(share * _BAR)))
