# SPDX-License-Identifier: Apache-2.0
"""Builds exports of whole models as each format's world does, and writes their table in docs/howto-export.md.

Usage: PYTHONPATH=tests/support python docs/exports.py NAME=MODEL...

Every format is built by its own manifest (tests/support/export_worlds.py) and its example is run: it compares
its outputs with those that the model's witnesses confirmed, and they are compared here once more with the
numpy reference, or with the archive's own code without the planner. The exit code is 1 where a format fails.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from pathlib import Path

import mlf_sdk
from export_outputs import check
from export_worlds import WORLDS, World

PAGE = Path(__file__).resolve().parent / "howto-export.md"
MARK = "<!-- made by docs/exports.py; nothing below is written by hand -->\n"


def outcome(kind: str, world: World, path: Path) -> tuple[str, str]:
    """Result of one build and run, and the evidence for the outputs that its example expects."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        made = mlf_sdk.export(path, out, to=kind, model_name="net", sample_outputs=True)
        try:
            said = world(out, "net")
            check(said, path)
            if "as expected" not in said:
                raise AssertionError(said)
        except AssertionError:
            traceback.print_exc()
            return "**FAIL**", "".join(made.samples)
        return "PASS", "".join(made.samples)


def main() -> int:
    """Build, run and compare all; write the table."""
    models = {name: Path(path) for name, _, path in (word.partition("=") for word in sys.argv[1:])}
    if not models or not all(path.is_file() for path in models.values()):
        sys.exit(__doc__)
    evidence: dict[str, str] = {}
    rows = []
    for kind, worlds in WORLDS.items():
        for world in worlds:
            cells = []
            for name, path in models.items():
                cell, evidence[name] = outcome(kind, world, path)
                cells.append(cell)
                print(f"{world.__name__}: {name}: {cell}", flush=True)
            how = (world.__doc__ or "").partition("\n")[0].replace("``", "`").rstrip(".")
            rows.append(f"| `{kind}` | {how} | {' | '.join(cells)} |")
    head = PAGE.read_text().partition(MARK)[0]
    names = [f"{name} ({evidence[name].partition(': ')[2]})" for name in models]
    lines = [
        f"Outputs for the sample: {'; '.join(names)}.",
        "",
        f"| `--as` | built by | {' | '.join(models)} |",
        f"|---|---|{'---|' * len(models)}",
        *rows,
    ]
    PAGE.write_text(head + MARK + "\n" + "\n".join(lines) + "\n")
    return 1 if any("FAIL" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
