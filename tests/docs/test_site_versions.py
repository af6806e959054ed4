# SPDX-License-Identifier: Apache-2.0
"""The sites of releases beside each other: `make site-versions` on a small project of three states."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chromium import PROGRAM, Chromium

ROOT = Path(__file__).parents[2]
Once = Callable[[str, Callable[[Path], None]], Path]
for needed in ("sphinx", "myst_parser", "furo"):
    pytest.importorskip(needed, reason=f"no {needed} here: the site is not built (pip install -e .[docs])")


class Project:
    """A checkout with the site's own builder, two pages and a package that has a version."""

    def __init__(self, root: Path) -> None:
        self.root = root
        site = root / "docs/site"
        shutil.copytree(ROOT / "docs/site", site, ignore=shutil.ignore_patterns("__pycache__"))
        (site / "generated.py").write_text("def write_generated(folder):\n    pass\n")
        (site / "api.md").write_text("# Functions\n")
        (site / "index.md").write_text("# Index\n\n```{toctree}\n:glob:\n\n*\n```\n")
        (root / "sdk/mlf_sdk").mkdir(parents=True)
        (root / "sdk/mlf_sdk/__init__.py").write_text("")
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> None:
        who = ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *words], cwd=self.root, check=True, capture_output=True)

    def commit(self, version: str, pages: dict[str, str], tag: str = "") -> None:
        (self.root / "sdk/mlf_sdk/version.py").write_text(f'__version__ = "{version}"\n')
        for name, text in pages.items():
            (self.root / name).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", version)
        if tag:
            self.git("tag", tag)

    def build(self, output: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "docs/site/versions.py", str(output)]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def sites(once: Once) -> Path:
    return once("site-versions", _make_sites) / "out"


def _make_sites(folder: Path) -> None:
    project = Project(folder / "project")
    project.commit("0.9.0", {"page.md": "# Page\n\nnine\n"}, tag="v0.9.0")
    project.commit("0.10.0", {"page.md": "# Page\n\nten\n", "other.md": "# Other\n"}, tag="v0.10.0")
    project.git("tag", "vendor-drop")
    project.commit("0.11.0", {"page.md": "# Page\n\neleven\n"})
    done = project.build(folder / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("built: 0.10.0, 0.9.0, dev\n")


def test_each_release_has_its_own_pages(sites: Path) -> None:
    for name, words in (("0.9.0", "nine"), ("0.10.0", "ten"), ("dev", "eleven")):
        assert f"<p>{words}</p>" in (sites / name / "page.html").read_text()
    assert not (sites / "0.9.0/other.html").exists()
    assert "url=0.10.0/index.html" in (sites / "index.html").read_text()
    line = (sites / "versions.js").read_text().splitlines()[0]
    listed = json.loads(line.removeprefix("const versions = ").removesuffix(";"))
    assert [v["name"] for v in listed] == ["0.10.0", "0.9.0", "dev"]
    assert "other.html" in listed[0]["pages"] and "other.html" not in listed[1]["pages"]


@pytest.mark.parametrize("width", [400, 1280])
def test_a_reader_chooses_among_them(sites: Path, tmp_path: Path, width: int) -> None:
    if PROGRAM is None:
        pytest.skip("no Chromium here: pages are not looked at (apt-get install chromium)")
    browser = Chromium(tmp_path)
    try:
        browser.open(sites / "0.10.0/other.html", width=width)
        options = browser.ask(
            "[...document.querySelectorAll('#versions option')].map(o => o.textContent + ' ' + o.value)"
        )
        assert options == [
            "0.10.0 ./../0.10.0/other.html",
            "0.9.0 ./../0.9.0/index.html",
            "dev ./../dev/other.html",
        ]
        assert browser.ask("document.querySelector('#versions p')") is None
        browser.open(sites / "0.9.0/page.html", width=width)
        assert (
            browser.ask("document.querySelector('#versions select').selectedOptions[0].textContent")
            == "0.9.0"
        )
        assert (
            browser.ask("document.querySelector('#versions p').textContent")
            == "an old release; newest: 0.10.0"
        )
        assert browser.ask("document.documentElement.scrollWidth") <= width
        assert browser.logged() == []
    finally:
        browser.close()


def test_a_release_that_does_not_build_is_named(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.commit("0.1.0", {"page.md": "# Page\n\n[gone](gone.md)\n"}, tag="v0.1.0")
    done = project.build(tmp_path / "out")
    assert done.returncode != 0
    assert "the site of v0.1.0 does not build" in done.stderr


def test_a_checkout_alone_offers_no_choice(sites: Path, tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.commit("0.1.0", {"page.md": "# Page\n"})
    subprocess.run(
        [sys.executable, "docs/site/build.py", str(tmp_path / "out")], cwd=project.root, check=True
    )
    assert 'id="versions"' not in (tmp_path / "out/html/page.html").read_text()
    assert 'id="versions"' in (sites / "dev/page.html").read_text()
