# SPDX-License-Identifier: Apache-2.0
"""Mutation run of ``make mutate``: changes the code in small ways, and lists the changes that no test notices.

    python tests/mutation/mutate.py                             # every module of [tool.mutate] in pyproject.toml
    python tests/mutation/mutate.py wire/bulk.py --list         # survivors of the last run
    python tests/mutation/mutate.py wire/bulk.py --survivors    # after a new test: runs only those again
    python tests/mutation/mutate.py --list --markdown docs/mutation.md   # the page of all results

Cosmic Ray makes the changes, one module at a time; `forked.py` runs the tests that pyproject.toml names for it,
in a copy of the tree under build/mutate. A run that was stopped goes on where it was, and a larger sample adds to
a smaller one; a run starts anew when the module has changed, or with --again. `equal.toml` gives the reasons of
survivors that compute the same.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutation_page import Change, Result, read_reasons, renew_page

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutate"
REASONS = Path(__file__).with_name("equal.toml")
COPIED = ("sdk", "tests", "crt", "board_templates", "qemu", "examples", "docs", "pyproject.toml", "README.md")
PACKAGE = Path("sdk/mlf_sdk")


def folder_of(module: str) -> Path:
    """Folder of a module's run."""
    return WORK / module.replace("/", "-").removesuffix(".py")


def mutate(module: str, tests: list[str], args: argparse.Namespace) -> None:
    """Run the mutations of a module that have no result yet."""
    folder = folder_of(module)
    digest = hashlib.sha256((ROOT / PACKAGE / module).read_bytes()).hexdigest()
    about, stated = folder / "about.txt", f"{digest} seed {args.seed}\n"
    if args.again or not about.is_file() or about.read_text() != stated:
        shutil.rmtree(folder, ignore_errors=True)
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    about.write_text(stated)
    for name in COPIED:
        source = ROOT / name
        ignored = shutil.ignore_patterns("__pycache__", "build")
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=ignored)
        else:
            shutil.copy2(source, tree / name)
    job = {
        **{
            "results": str(folder / "results.jsonl"),
            "module": module,
            "tests": tests,
            "timeout_s": args.timeout,
        },
        **{"sample": args.sample, "seed": args.seed, "survivors": args.survivors},
    }
    (folder / "job.json").write_text(json.dumps(job))
    environment = {**os.environ, "PYTHONPATH": str(tree / "sdk")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each child compiles the package anew
    command = [sys.executable, str(Path(__file__).with_name("forked.py")), "run", str(folder / "job.json")]
    with (folder / "log.txt").open("w") as log:
        done = subprocess.run(command, cwd=tree, env=environment, stdout=log, stderr=log, check=False)
    if done.returncode not in (0, 5):  # pytest says 5: it ran no test itself
        sys.exit(f"{module}: {folder / 'log.txt'} says what is wrong")


def result_of(module: str, tests: list[str]) -> Result | None:
    """The result of a module's run; None without one."""
    file = folder_of(module) / "results.jsonl"
    if not file.is_file() or not file.stat().st_size:
        return None
    rows = [*map(json.loads, file.read_text().splitlines())]
    head = next(row for row in reversed(rows) if "chosen" in row)
    last = {tuple(row["mutation"]): row for row in rows if row.get("outcome", "late") != "late"}
    invalid = sum(row["outcome"] == "invalid" for row in last.values())
    day = dt.datetime.fromtimestamp(file.stat().st_mtime, dt.timezone.utc).date().isoformat()
    found = Result(module, tuple(tests), day, ran=len(last) - invalid)
    found.pending, found.left_out = len(head["chosen"]) - len(last), head["mutations"] - len(head["chosen"])
    found.timed_out = sum(row["outcome"] == "time" for row in last.values())
    found.survivors = sorted(
        Change.of_diff(line, row["diff"]) for (line, *_), row in last.items() if not row["outcome"]
    )
    return found


def main() -> int:
    """Run the mutations and print the survivors; 1 when one is left without a reason."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutate"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", default=[*table], help=f"of {PACKAGE}: {', '.join(table)}")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        help="seconds for the tests of one mutation, then it is pending",
    )
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N mutations of a module (0: all)")
    parser.add_argument("--seed", type=int, default=0, help="chooses the sample")
    parser.add_argument("--again", action="store_true", help="start anew")
    parser.add_argument("--survivors", action="store_true", help="run the survivors of the last run again")
    parser.add_argument("--list", action="store_true", help="only list the survivors of the last run")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="renew the page of the results")
    args = parser.parse_args()
    if unknown := [module for module in args.modules if module not in table]:
        parser.error(f"{unknown[0]} is not in [tool.mutate] of pyproject.toml")
    if not args.list:
        with ThreadPoolExecutor(args.jobs) as pool:
            for job in [pool.submit(mutate, m, table[m], args) for m in args.modules]:
                job.result()
    reasons = read_reasons(REASONS)
    results = [found for module in args.modules if (found := result_of(module, table[module]))]
    for result in results:
        print(result.text(reasons))
    if args.markdown:
        renew_page(args.markdown, results, reasons, [*table])
    return int(any(result.unexplained(reasons) for result in results))


if __name__ == "__main__":
    sys.exit(main())
