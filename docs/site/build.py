# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation site from the project's pages: `make site`.

python docs/site/build.py OUTPUT [--version NAME]

Pages are staged as they lie in the checkout, with the files that they link to, so that every relative link is
checked. A broken link, picture or docstring fails the build (``-W``). ``--version``: the pages lie in a folder of that
name beside those of other versions, among which their reader can choose (versions.py).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from generated import write_generated
from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "site"
_OWN = {"conf.py": "", "index.md": "", "api.md": "", "style.css": "_static", "versions.html": "_templates"}
_LINK = re.compile(r"\[([^][]*)\]\((?!https?:|mailto:|#)([^)#\s]+)")


def main(output: Path, version: str = "") -> int:
    """Build the site in ``output``; Sphinx's exit code."""
    source = output / ".source"
    shutil.rmtree(output, ignore_errors=True)
    for page in pages():
        text = (ROOT / page).read_text()
        for words, target in _LINK.findall(text):
            linked = (ROOT / page).parent / target
            if linked.is_dir():  # a page of its own only where the code is shown
                text = text.replace(f"[{words}]({target})", words)
            elif linked.is_file() and linked.suffix != ".md":
                _copy(linked.resolve().relative_to(ROOT), source)
        _place(source / page).write_text(text)
    for name, folder in _OWN.items():
        shutil.copy(SITE / name, _place(source / folder / name))
    write_generated(source)
    context = ["-A", f"site_version={version}"]
    return build_main(["-q", "-W", "--keep-going", "-b", "html", *context, str(source), str(output / "html")])


def pages() -> list[Path]:
    """Markdown pages of the checkout, relative to it: those that git knows, or all where there is no git."""
    done = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = done.stdout.splitlines() or [p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*.md")]
    hidden = (Path(name) for name in names if not name.startswith((".", "build/", "docs/site/")))
    return sorted(hidden)


def _copy(path: Path, source: Path) -> None:
    shutil.copy(ROOT / path, _place(source / path))


def _place(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path)
    parser.add_argument("--version", default="")
    asked = parser.parse_args()
    sys.exit(main(asked.output.resolve(), asked.version))
