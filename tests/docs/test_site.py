# SPDX-License-Identifier: Apache-2.0
"""The documentation site: a link that leads nowhere fails its build; its pages in a browser (`make site` has what it needs)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from chromium import PROGRAM, Chromium

ROOT = Path(__file__).parents[2]
Once = Callable[[str, Callable[[Path], None]], Path]
for needed in ("sphinx", "myst_parser", "furo"):
    pytest.importorskip(needed, reason=f"no {needed} here: the site is not built (pip install -e .[docs])")

pytestmark = pytest.mark.filterwarnings("default")  # Sphinx's own extensions use what it will remove


@pytest.fixture(scope="module")
def builder() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "docs" / "site"))
    yield importlib.import_module("build")
    sys.path.remove(str(ROOT / "docs" / "site"))
    for name in ("build", "generated", "pictures"):
        del sys.modules[name]


@pytest.fixture(scope="module")
def site(builder: ModuleType, once: Once) -> Path:
    """The whole site."""

    def make(folder: Path) -> None:
        assert builder.main(folder) == 0

    return once("site", make) / "html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    if PROGRAM is None:
        pytest.skip("no Chromium here: pages are not looked at (apt-get install chromium)")
    found = Chromium(tmp_path_factory.mktemp("chromium"))
    yield found
    found.close()


def test_a_link_that_leads_nowhere_fails_the_build(
    builder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "root" / "page.md"
    page.parent.mkdir()
    page.write_text("# Page\n\n[another](other.md)\n")
    monkeypatch.setattr(builder, "ROOT", page.parent)
    monkeypatch.setattr(builder, "write_generated", lambda folder: None)
    (tmp_path / "texts").mkdir()
    for name in ("conf.py", "style.css", "versions.html"):
        (tmp_path / "texts" / name).write_text((ROOT / "docs/site" / name).read_text())
    (tmp_path / "texts/api.md").write_text("# Functions\n")
    (tmp_path / "texts/index.md").write_text("# Index\n\n```{toctree}\npage\napi\n```\n")
    monkeypatch.setattr(builder, "SITE", tmp_path / "texts")
    assert builder.main(tmp_path / "out") != 0
    page.write_text("# Page\n")
    assert builder.main(tmp_path / "out") == 0


def test_every_page_is_there(builder: ModuleType, site: Path) -> None:
    assert all((site / page.with_suffix(".html")).is_file() for page in builder.pages())
    assert (site / "searchindex.js").stat().st_size > 100_000  # search without a server


def test_every_function_has_its_docstring(site: Path) -> None:
    import mlf_sdk

    page = (site / "api.html").read_text()
    functions = [n for n in mlf_sdk.__all__ if n not in ("Request", "__version__")]
    assert [n for n in functions if f'id="mlf_sdk.{n}"' not in page] == []


PAGES = (
    "index", "README", "docs/README", "docs/tutorial", "docs/proof", "docs/howto-tflite", "docs/reference/cli",
    "docs/reference/python", "api", "docs/mutation", "CHANGELOG", "models",
)  # fmt: skip


@pytest.mark.parametrize(
    ("width", "scheme"), [(400, "light"), (400, "dark"), (1280, "light"), (1280, "dark")]
)
@pytest.mark.parametrize("name", PAGES)
def test_in_a_browser(browser: Chromium, site: Path, name: str, width: int, scheme: str) -> None:
    browser.open(site / f"{name}.html", width=width, scheme=scheme)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.logged() == []
    assert all(address.startswith(("file:", "data:")) for address in browser.requested())
    red = browser.ask("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
    assert (red > 200) == (scheme == "light")


@pytest.mark.parametrize("width", [400, 1280])
def test_words_of_pictures_are_inside(browser: Chromium, site: Path, width: int) -> None:
    browser.open(site / "index.html", width=width)
    outside = browser.ask(
        """[...document.querySelectorAll('.picture svg')].flatMap(svg => {
             const box = svg.getBoundingClientRect();
             return [...svg.querySelectorAll('text')].filter(t => {
               const at = t.getBoundingClientRect();
               return at.left < box.left - 1 || at.right > box.right + 1 || at.bottom > box.bottom + 1;
             }).map(t => t.textContent);
           })"""
    )
    assert outside == []
    assert browser.ask("document.querySelectorAll('.picture svg').length") == 4
