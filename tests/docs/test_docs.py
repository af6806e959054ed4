# SPDX-License-Identifier: Apache-2.0
"""Every page's commands are run in the order in which a reader meets them, and show what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from doc_blocks import Block, Command, blocks, commands, missing_line
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.flashers.load import find_runner
from zephyr_trees import put, version_text

ROOT = Path(__file__).resolve().parents[2]
# The site's own pages are checked by its build (test_site.py); what they show is the README's.
PAGES = sorted(
    page
    for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md"))
    if page.parent.name != "site"
)
TIMEOUT_S = 300.0
_COPY = re.compile(
    r"(?P<source>[^:\[]+)(\[:(?P<count>\d+)\])?(:(?P<target>.+))?"
)  # of an .npz: its first cases
_LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#[^)]*)?\)")


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.qemu
@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_of_a_page_do_what_it_shows(page: Path, tmp_path: Path, needs_qemu: None) -> None:
    for block in blocks(page.read_text()):
        if "skip" in block.directives or "only" in block.directives:
            continue
        if reason := _lacking(block.directives.get("needs", "")):
            pytest.skip(f"{_name(page)}:{block.line} and what follows: {reason}")
        _do(page, block, tmp_path)


@pytest.mark.slow
@pytest.mark.zephyr
@pytest.mark.parametrize(
    ("page", "line"),
    [
        (page, block.line)
        for page in PAGES
        for block in blocks(page.read_text())
        if "only" in block.directives
    ],
    ids=lambda value: _name(value) if isinstance(value, Path) else str(value),
)
def test_a_block_that_few_machines_can_run(page: Path, line: int, tmp_path: Path) -> None:
    """Run it after what it needs: the page's files, and its blocks about Zephyr."""
    before = [block for block in blocks(page.read_text()) if block.line <= line]
    if reason := _lacking(before[-1].directives["only"]):
        pytest.skip(f"{_name(page)}:{line}: {reason}")
    for block in before[:-1]:
        if block.directives.keys() & {"copy", "zephyr"}:
            _do(page, block, tmp_path)
    _do(page, before[-1], tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    targets = _LINK.findall(page.read_text())
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_the_first_page_of_the_site_shows_the_run_of_the_readme() -> None:
    first, shown = (
        next(text for text in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL))
        for page in (ROOT / "docs/site/index.md", ROOT / "README.md")
    )
    assert "mlf-sdk run" in first
    assert [line for line in first.splitlines() if line not in shown.splitlines()] == []


def test_the_tutorial_flashes_a_board_that_has_a_runner() -> None:
    """Its last commands need a board on a port; all that can be known without one holds."""
    said = [c.text for block in blocks((ROOT / "docs/tutorial.md").read_text()) for c in commands(block)]
    last = next(text for text in reversed(said) if text.startswith("mlf-sdk generate "))
    folder, board = last.split("-o ")[1].split(" --board ")
    assert {f"mlf-sdk build {folder}", f"mlf-sdk flash {folder}"} < set(said)
    assert find_runner(None, find_board(board)).program


def _lacking(needs: str) -> str:
    """What of ``needs`` is not on this machine; empty when all is."""
    for need in filter(None, needs.split(",")):
        if need == "zephyr":
            if not (os.environ.get("ZEPHYR_BASE") or Path("~/zephyrproject/zephyr").expanduser().exists()):
                return "no Zephyr tree"
        elif need.startswith("hal_"):
            base = Path(os.environ.get("ZEPHYR_BASE") or "~/zephyrproject/zephyr").expanduser()
            here = base.parent / "modules/hal" / need.removeprefix("hal_")
            if need not in os.environ.get("ZEPHYR_MODULES", "") and not here.exists():
                return f"no module of Zephyr: {need}"
        elif need.isupper():
            if need not in os.environ:
                return f"not set: {need}"
        elif shutil.which(need) is None:
            return f"not installed: {need}"
    return ""


def _do(page: Path, block: Block, folder: Path) -> None:
    if copy := block.directives.get("copy"):
        part = _COPY.fullmatch(copy)
        assert part is not None, f"{_name(page)}:{block.line}: copy={copy}"
        source, target = ROOT / part["source"], folder / (part["target"] or "")
        if part["count"] is None:
            shutil.copy(source, target)
        else:
            with np.load(source) as cases:
                np.savez(target, **{name: cases[name][: int(part["count"])] for name in cases})
    elif path := block.directives.get("file"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(block.text)
    elif block.language == "console":
        said = commands(block)
        more = _zephyr_of(block.directives.get("zephyr", ""), folder)
        for number, command in enumerate(said, start=1):
            code = int(block.directives.get("exit", 0)) if number == len(said) else 0
            _run(page, command, folder, code, more)
    elif block.language == "python":
        (folder / "block.py").write_text(block.text)
        _run(page, Command(line=block.line, text="python block.py", expected=()), folder, 0)


def _zephyr_of(board: str, folder: Path) -> dict[str, str]:
    """Environment with a tree of Zephyr that has the name of a board alone, where the machine has no tree."""
    if not board or not _lacking("zephyr"):
        return {}
    tree = folder / "zephyr-tree"
    put(tree / "VERSION", version_text("3.2.0"))
    put(tree / f"boards/arm/{board}/{board}_defconfig")
    return {"ZEPHYR_BASE": str(tree)}


def _run(
    page: Path, command: Command, folder: Path, exit_code: int, more: Mapping[str, str] = MappingProxyType({})
) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "COLUMNS": "120",
        "NO_COLOR": "1",
        **more,
    }
    done = subprocess.run(
        ["/bin/bash", "-c", command.text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    place = f"{_name(page)}:{command.line}: $ {command.text}\n{done.stdout}"
    assert done.returncode == exit_code, place
    missing = missing_line(command.expected, done.stdout)
    assert missing is None, f"the page shows what the command does not print: {missing}\n{place}"
