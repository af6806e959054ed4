# SPDX-License-Identifier: Apache-2.0
"""Results of mutation runs, as text and as the page docs/mutation.md."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Reasons = Mapping[str, Mapping[str, str]]  # module, changed line (old => new), reason

HEAD = """\
# Mutation runs

`make mutate MODULES="..."` changes a module in small ways (one operator of a comparison or of arithmetic, `and` for `or`, a
negated condition, `break` for `continue`, a loop that does not run, an exception that is not caught) and runs its tests
against each change. A change that no test notices, a *survivor*, is a missing test, code that could be simpler, or it
computes the same: then [equal.toml](../tests/mutation/equal.toml) says why. Not changed: numbers, decorators, annotations.
In modules that make kernels, attributes of operators are left out as well (`operator.log`, a dilation, a zero point: what they are where
a model states nothing), and operators of the C text are changed.

This page is made of the results by `python tests/mutation/mutate.py --list --markdown docs/mutation.md`. Line numbers are
those of the module when it ran. "30 of 203": a sample, which `--sample` and `--seed` choose; "pending" did not run yet. A change meets
the tests named here that reach its statement. "By time": none of them failed, but they took more than ten times their usual CPU time, and three seconds more.
"Run" is the day of the run: what has changed in a module since, its history says.

| module | run | mutations | killed | by time | survived | of these equal | unexplained |
|---|---|---:|---:|---:|---:|---:|---:|
"""


@dataclasses.dataclass(frozen=True, order=True)
class Change:
    """A changed line: its number, its text before and after."""

    line: int
    before: str
    after: str

    @classmethod
    def of_diff(cls, line: int, diff: str) -> Change:
        """Read a unified diff without context."""
        rows = [row for row in diff.splitlines() if row[:1] in "+-" and row[:3] not in ("+++", "---")]
        before, after = (" ".join(row[1:].strip() for row in rows if row[0] == sign) for sign in "-+")
        return cls(line, before, after)

    @property
    def key(self) -> str:
        """How equal.toml names it."""
        return f"{self.before} => {self.after}"


@dataclasses.dataclass
class Result:
    """What a module's mutations came to, with the day of the run (YYYY-MM-DD)."""

    module: str
    tests: tuple[str, ...]
    day: str = ""
    ran: int = 0
    timed_out: int = 0
    pending: int = 0
    left_out: int = 0
    survivors: list[Change] = dataclasses.field(default_factory=list)

    def unexplained(self, reasons: Reasons) -> list[Change]:
        """Survivors without a reason."""
        known = reasons.get(self.module, {})
        return [change for change in self.survivors if change.key not in known]

    @property
    def count(self) -> str:
        """How many mutations ran, of how many."""
        parts = [str(self.ran)]
        if self.left_out:
            parts.append(f"of {self.ran + self.left_out + self.pending}")
        if self.pending:
            parts.append(f"({self.pending} pending)")
        return " ".join(parts)

    def text(self, reasons: Reasons) -> str:
        """Print form: the counts, then the survivors without a reason."""
        unexplained = self.unexplained(reasons)
        same = len(self.survivors) - len(unexplained)
        head = f"{self.module}: {self.count} mutations, {len(unexplained)} survived, {same} more compute the same"
        return "\n".join([head, *(f"  {self.module}:{c.line}: {c.key}" for c in unexplained)])

    def row(self, reasons: Reasons) -> str:
        """Row of the page's table."""
        unexplained = len(self.unexplained(reasons))
        survived = len(self.survivors)
        values = (
            self.day,
            self.count,
            self.ran - survived,
            self.timed_out,
            survived,
            survived - unexplained,
            unexplained,
        )
        return f"| `{self.module}` | {' | '.join(map(str, values))} |"

    def section(self, reasons: Reasons) -> str:
        """Section of the page: each survivor with its reason."""
        known = reasons.get(self.module, {})
        lines = [f"## {self.module}", "", f"Tests: {', '.join(f'`{test}`' for test in self.tests)}."]
        for change in self.survivors:
            reason = known.get(change.key, "**no test notices it**")
            lines += ["", f"- `{self.module}:{change.line}`: {reason}", ""]
            lines += ["  ```diff", f"  -{change.before}", f"  +{change.after}", "  ```"]
        return "\n".join([*lines, ""])


def read_reasons(path: Path) -> Reasons:
    """Read equal.toml: a table a module, each key a changed line, its value the reason."""
    return tomllib.loads(path.read_text())


def renew_page(page: Path, results: Sequence[Result], reasons: Reasons, order: Sequence[str]) -> None:
    """Write the page; modules without a new result keep what it says of them."""
    old = page.read_text() if page.is_file() else ""
    rows = {found[1]: found[0] for found in re.finditer(r"^\| `([^`]+)` \|.*$", old, re.MULTILINE)}
    sections = {
        text.partition("\n")[0]: f"## {text.rstrip()}\n"
        for text in re.split(r"^## ", old, flags=re.MULTILINE)
    }
    for result in results:
        rows[result.module], sections[result.module] = result.row(reasons), result.section(reasons)
    shown = [module for module in order if module in rows]
    page.write_text(HEAD + "\n".join(rows[m] for m in shown) + "\n\n" + "\n".join(sections[m] for m in shown))
