# SPDX-License-Identifier: Apache-2.0
"""Mutation run of ``make mutate``: changes the code in small ways, and lists the changes that no test notices.

    python tests/mutation/mutate.py                       # every module of [tool.mutate] in pyproject.toml
    python tests/mutation/mutate.py wire/bulk.py --list   # survivors of the last run

Cosmic Ray makes the changes, one module at a time; `forked.py` runs the tests that pyproject.toml names for it,
in a copy of the tree under build/mutate. A run that was stopped goes on where it was; --again starts anew.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutate"
COPIED = ("sdk", "tests", "crt", "board_templates", "qemu", "examples", "docs", "pyproject.toml", "README.md")
PACKAGE = Path("sdk/mlf_sdk")
CONFIG = """\
[cosmic-ray]
module-path = {module}
timeout = {timeout}
excluded-modules = []
test-command = ""

[cosmic-ray.distributor]
name = "local"

[cosmic-ray.filters.operators-filter]
# What changes no result: annotations such as ``int | None``, and the text of decorators.
exclude-operators = [
  "core/ReplaceBinaryOperator_BitOr_.*", "core/RemoveDecorator", "core/NumberReplacer",
  # What nobody writes by mistake, or what is the same for small whole numbers.
  "core/ReplaceBinaryOperator_.*_(Pow|Mod|FloorDiv|BitAnd|BitOr|BitXor|LShift|RShift)",
  "core/ReplaceComparisonOperator_(Eq|NotEq|Lt|LtE|Gt|GtE|In|NotIn)_(Is|IsNot)",
]
"""


def mutate(module: str, tests: list[str], *, timeout_s: float, again: bool) -> Path:
    """Run the mutations of a module; returns the file of the session."""
    folder = WORK / module.replace("/", "-").removesuffix(".py")
    if again:
        shutil.rmtree(folder, ignore_errors=True)
    session, config = folder / "session.sqlite", folder / "config.toml"
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)  # a run that was stopped leaves a change behind
    tree.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        ignored = shutil.ignore_patterns("__pycache__", "build")
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=ignored)
        else:
            shutil.copy2(source, tree / name)
    config.write_text(CONFIG.format(module=json.dumps(str(PACKAGE / module)), timeout=timeout_s))
    ray = str(Path(sys.executable).with_name("cosmic-ray"))
    if not session.is_file():
        subprocess.run([ray, "init", str(config), str(session)], cwd=tree, check=True)
        chosen = str(Path(sys.executable).with_name("cr-filter-operators"))
        subprocess.run([chosen, str(session), str(config)], cwd=tree, check=True)
    run = [sys.executable, str(Path(__file__).with_name("forked.py")), str(session), module, str(timeout_s)]
    environment = {**os.environ, "PYTHONPATH": str(tree / "sdk")}
    subprocess.run([*run, *tests], cwd=tree, check=True, env=environment)
    return session


def survivors(module: str) -> tuple[int, list[str]]:
    """Mutations that ran, and those that no test noticed: place, operator and the changed lines."""
    session = WORK / module.replace("/", "-").removesuffix(".py") / "session.sqlite"
    if not session.is_file():
        return 0, []
    ray = str(Path(sys.executable).with_name("cosmic-ray"))
    dumped = subprocess.run([ray, "dump", str(session)], capture_output=True, text=True, check=True).stdout
    ran, found = 0, []
    for item, result in map(json.loads, dumped.splitlines()):
        if result is None or result["worker_outcome"] != "normal":
            continue
        ran += 1
        if result["test_outcome"] != "survived":
            continue
        for mutation in item["mutations"]:
            lines = [
                line
                for line in (result["diff"] or "").splitlines()
                if line[:1] in "+-" and line[:3] not in ("+++", "---")
            ]
            place = f"{module}:{mutation['start_pos'][0]}"
            found.append(f"{place}: {mutation['operator_name']}: {' => '.join(x[1:].strip() for x in lines)}")
    return ran, sorted(found)


def without_equal(found: list[str], equal: dict[str, str]) -> tuple[list[str], int]:
    """Survivors but for those whose changed line computes the same, and the number of these."""
    kept = [line for line in found if line.partition(" => ")[2] not in equal]
    return kept, len(found) - len(kept)


def main() -> int:
    """Run the mutations and print the survivors."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    table, equal = tool["mutate"], tool["mutate-equal"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", default=[*table], help=f"of {PACKAGE}: {', '.join(table)}")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for the tests of one mutation")
    parser.add_argument("--again", action="store_true", help="start anew")
    parser.add_argument("--list", action="store_true", help="only list the survivors of the last run")
    args = parser.parse_args()
    if not args.list:
        with ThreadPoolExecutor(args.jobs) as pool:
            jobs = [
                pool.submit(mutate, m, table[m], timeout_s=args.timeout, again=args.again)
                for m in args.modules
            ]
            for job in jobs:
                job.result()
    for module in args.modules:
        ran, found = survivors(module)
        found, same = without_equal(found, equal.get(module, {}))
        print(f"{module}: {ran} mutations, {len(found)} survived, {same} more compute the same")
        for line in found:
            print(f"  {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
