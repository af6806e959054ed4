# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation site from the project's pages: `make site`.

python docs/site/build.py OUTPUT

Pages are staged as they lie in the checkout, with the files that they link to, so that every relative link is
checked. A broken link, picture or docstring fails the build (``-W``).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from pictures import write_pictures
from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "site"
_LINK = re.compile(r"\[([^][]*)\]\((?!https?:|mailto:|#)([^)#\s]+)")


def main(output: Path) -> int:
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
    for name in ("conf.py", "index.md", "api.md", "style.css"):
        folder = source / "_static" if name.endswith(".css") else source
        shutil.copy(SITE / name, _place(folder / name))
    write_pictures(source / "pictures")
    return build_main(["-q", "-W", "--keep-going", "-b", "html", str(source), str(output / "html")])


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
    sys.exit(main(Path(sys.argv[1]).resolve()))
