# SPDX-License-Identifier: Apache-2.0
"""Measures what a model costs on Zephyr, and writes the table of docs/howto-zephyr.md.

    python docs/zephyr_cost.py TREE...

Each TREE is a Zephyr tree. Its modules are those of its west workspace, else of the variable ZEPHYR_MODULES.
Three applications are built for the AN385: one that does nothing, one with the digits example as a library,
and the generated one. Columns of trees that are not given stay as they are.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import mlf_sdk
from mlf_sdk.targets.zephyr.build import ZephyrSetup, build_environment
from mlf_sdk.targets.zephyr.files import zephyr_board, zephyr_naming
from mlf_sdk.targets.zephyr.tree import find_tree
from mlf_sdk.targets.zephyr.workspace import west_topdir
from mlf_sdk.tools.process import run_process

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "howto-zephyr.md"
ARCHIVE = ROOT / "examples" / "digits" / "digits-graph-tvm0.11.1.tar"
BOARD = "mps2_an385"
BEGIN, END = "<!-- docs/zephyr_cost.py: begin -->", "<!-- docs/zephyr_cost.py: end -->"
ROWS = (
    "an application that does nothing",
    "the same with the model as a library, and one inference",
    "the generated application: model, RPC server, fault report, UART driver with interrupts",
)
_OPTIONS = (
    "CONFIG_SERIAL=y\nCONFIG_UART_CONSOLE=n\nCONFIG_PRINTK=n\nCONFIG_BOOT_BANNER=n\n"
    "CONFIG_MAIN_STACK_SIZE=8192\n"
)
_NOTHING = "int main(void) { return 0; }\n"
_INFERENCE = """#include "digits.h"

int main(void)
{
	float *image = digits_input_image();

	for (unsigned int i = 0; i < DIGITS_INPUT_IMAGE_ELEMENTS; i++) {
		image[i] = (float)(i % 16);
	}
	return digits_run() != MLF_OK;
}
"""
_LISTING = """cmake_minimum_required(VERSION 3.20.0)
find_package(Zephyr REQUIRED HINTS $ENV{ZEPHYR_BASE})
project(own LANGUAGES C)
target_sources(app PRIVATE main.c)
"""
_USED = re.compile(r"^\s*(FLASH|RAM|SRAM):\s+(\d+) (K?B)\b", re.MULTILINE)


def measure(base: Path) -> tuple[str, list[tuple[int, int]]]:
    """Return the version of a tree, and flash and RAM in bytes of each application."""
    setup = ZephyrSetup(base=base)
    tree = find_tree(base, {}, Path.home())
    board = zephyr_naming(zephyr_board(BOARD), tree)
    modules = _modules(base)
    with tempfile.TemporaryDirectory(prefix="mlf-cost-") as name:
        folder = Path(name)
        mlf_sdk.generate(
            ARCHIVE, folder / "digits", board=BOARD, app="library", platform="zephyr", zephyr_base=str(base)
        )
        mlf_sdk.generate(ARCHIVE, folder / "app", board=BOARD, platform="zephyr", zephyr_base=str(base))
        _application(folder / "empty", _NOTHING, _OPTIONS)
        _application(folder / "own", _INFERENCE, f"{_OPTIONS}CONFIG_MLF=y\n")
        environment = build_environment(tree, setup, is_native=False)
        extra = f"-D{board.profile.extra_modules}={folder / 'digits'}"
        found = []
        for app, more in (("empty", []), ("own", [extra]), ("app", [])):
            build = folder / app / "build"
            argv = ["cmake", "-GNinja", "-S", folder / app, "-B", build, f"-DBOARD={board.board}", *more]
            _run([*argv, f"-DUSER_CACHE_DIR={build}/cache", f"-DZEPHYR_MODULES={modules}"], environment)
            used = {
                m[1]: int(m[2]) * (1024 if m[3] == "KB" else 1)
                for m in _USED.finditer(_run(["cmake", "--build", build], environment))
            }
            found.append((used["FLASH"], used.get("RAM", used.get("SRAM", 0))))
    return str(tree.version), found


def _modules(base: Path) -> str:
    topdir = west_topdir(base)
    if topdir is not None:
        return ";".join(
            str(path) for name in ("cmsis", "cmsis_6") if (path := topdir / "modules/hal" / name).is_dir()
        )
    return os.environ.get("ZEPHYR_MODULES", "")


def _application(folder: Path, code: str, options: str) -> None:
    folder.mkdir()
    (folder / "main.c").write_text(code)
    (folder / "prj.conf").write_text(options)
    (folder / "CMakeLists.txt").write_text(_LISTING)


def _run(argv: list[object], environment: dict[str, str]) -> str:
    return run_process([str(word) for word in argv], env=environment, timeout_s=1800.0).stdout


def read_table(page: str) -> dict[str, list[str]]:
    """Columns of the page's table by version."""
    inside = page.partition(BEGIN)[2].partition(END)[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in inside.strip().splitlines() if line]
    return {head: [row[i] for row in rows[2:]] for i, head in enumerate(rows[0]) if head} if rows else {}


def write_table(page: str, columns: dict[str, list[str]]) -> str:
    """Return the page with the table of these columns."""
    order = sorted(columns, key=lambda version: [int(part) for part in version.split(".")])
    lines = [f"| | {' | '.join(order)} |", f"|---|{'---|' * len(order)}"]
    lines += [f"| {row} | {' | '.join(columns[v][i] for v in order)} |" for i, row in enumerate(ROWS)]
    head, _, rest = page.partition(BEGIN)
    return head + "\n".join([BEGIN, "", *lines, "", END]) + rest.partition(END)[2]


def main(trees: list[str]) -> None:
    """Measure the trees and write the page."""
    if not trees or shutil.which("cmake") is None:
        sys.exit(str(__doc__))
    for tree in trees:
        version, found = measure(Path(tree))
        page = PAGE.read_text(encoding="utf-8")
        columns = read_table(page) | {version: [f"{flash:,} / {ram:,}" for flash, ram in found]}
        PAGE.write_text(write_table(page, columns), encoding="utf-8")
        sys.stdout.write(f"{version}: {columns[version]}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
