# SPDX-License-Identifier: Apache-2.0
"""The page in a browser: no errors, nothing loaded, no page that scrolls sideways, details open in print."""

from __future__ import annotations

from pathlib import Path

import pytest

from chromium import Chromium
from mlf_sdk.reporting.html.data import Report
from mlf_sdk.reporting.html.page import render_page

NAMES = ("graph", "aot", "long", "still", "layers")


@pytest.fixture(scope="module")
def pages(reports: dict[str, Report], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for name, report in reports.items():
        (folder / f"{name}.html").write_bytes(render_page(report))
    return {name: folder / f"{name}.html" for name in reports}


@pytest.mark.parametrize(
    ("width", "scheme"), [(400, "light"), (400, "dark"), (768, "light"), (1280, "light"), (2200, "dark")]
)
@pytest.mark.parametrize("name", NAMES)
def test_in_a_browser(browser: Chromium, pages: dict[str, Path], name: str, width: int, scheme: str) -> None:
    browser.open(pages[name], width=width, scheme=scheme)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.logged() == []
    assert browser.requested() == [pages[name].as_uri()]
    ground = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)")
    assert browser.ask("document.querySelectorAll('.scroll > svg').length") >= 3
    assert browser.ask("[...document.querySelectorAll('.scroll > svg')].every(s => s.clientHeight > 60)")


@pytest.mark.parametrize("name", NAMES)
def test_labels_stay_in_their_pictures(browser: Chromium, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name], width=1280)
    outside = browser.ask(
        """[...document.querySelectorAll('.scroll > svg')].flatMap(svg => {
             const box = svg.getBoundingClientRect();
             return [...svg.querySelectorAll('text')].filter(t => {
               const at = t.getBoundingClientRect();
               return at.left < box.left - 1 || at.right > box.right + 1 || at.top < box.top - 1
                 || at.bottom > box.bottom + 1;
             }).map(t => t.textContent);
           })"""
    )
    assert outside == []


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_and_names_are_seen_on_a_telephone(
    browser: Chromium, pages: dict[str, Path], name: str
) -> None:
    browser.open(pages[name], width=400)
    right = browser.ask(
        "Math.max(...[...document.querySelectorAll('#proof .verdict')].map(v => v.getBoundingClientRect().right))"
    )
    assert 0 < right <= 400


@pytest.mark.parametrize("width", [400, 1280])
def test_the_arena_is_legible(browser: Chromium, pages: dict[str, Path], width: int) -> None:
    """Of 64 steps: letters at their full size, each buffer wide enough to be seen and named on hover."""
    browser.open(pages["long"], width=width)
    picture = "document.querySelector('#arena .scroll > svg')"
    if width == 1280:
        assert browser.ask(f"{picture}.parentNode.scrollWidth <= {picture}.parentNode.clientWidth")
    assert browser.ask(f"{picture}.getScreenCTM().a") >= 0.99
    assert (
        browser.ask(
            f"Math.min(...[...{picture}.querySelectorAll('rect.f')].map(r => r.getBoundingClientRect().width))"
        )
        >= 3
    )
    boxes = browser.ask(f"{picture}.querySelectorAll('rect.f').length")
    assert browser.ask(f"{picture}.querySelectorAll('g > title').length") >= boxes > 64


@pytest.mark.parametrize("name", ["layers", "long"])
def test_labels_of_buffers_do_not_lie_over_others(
    browser: Chromium, pages: dict[str, Path], name: str
) -> None:
    browser.open(pages[name], width=1280)
    clipped = browser.ask(
        """[...document.querySelectorAll('#arena svg text.over')].filter(t => {
             const at = t.getBoundingClientRect();
             return ![...document.querySelectorAll('#arena svg rect.f')].some(r => {
               const box = r.getBoundingClientRect();
               return box.left - 2 <= at.left && at.right <= box.right + 2
                 && box.top - 2 <= at.top && at.bottom <= box.bottom + 2;
             });
           }).map(t => t.textContent)"""
    )
    assert clipped == []
    over_each_other = browser.ask(
        """(texts => texts.filter((t, i) => texts.slice(0, i).some(o => {
             const [a, b] = [t.getBoundingClientRect(), o.getBoundingClientRect()];
             return a.left + 2 < b.right && b.left + 2 < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
           })).map(t => t.textContent))([...document.querySelectorAll('#arena svg text.over')])"""
    )
    assert over_each_other == []


def test_a_step_is_chosen(browser: Chromium, pages: dict[str, Path]) -> None:
    """No card is shown until its step is chosen in the picture; then that one alone, and its source from there."""
    browser.open(pages["layers"], width=1280)
    shown = "[...document.querySelectorAll('.card')].filter(c => c.clientHeight > 0).map(c => c.id)"
    assert browser.ask(shown) == []
    browser.ask(
        "document.querySelector('#graph svg a').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert browser.ask(shown) == ["step-0"]
    browser.ask("document.querySelector('#step-0 dd a').click()")
    assert browser.ask(shown)[0].startswith("source-")


@pytest.mark.parametrize("width", [1280])
def test_rows_of_the_profile_take_one_line(browser: Chromium, pages: dict[str, Path], width: int) -> None:
    browser.open(pages["layers"], width=width)
    heights = browser.ask(
        "[...document.querySelectorAll('#profile tbody tr')].map(r => r.getBoundingClientRect().height)"
    )
    assert max(heights) < 34
    assert browser.ask("(b => b.scrollWidth <= b.clientWidth)(document.querySelector('#profile .scroll'))")


def test_in_print(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.open(pages["graph"], width=700, scheme="dark")
    closed = browser.ask("[...document.querySelectorAll('details')].map(d => d.clientHeight)")
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF-")
    opened = browser.ask("[...document.querySelectorAll('details')].map(d => d.clientHeight)")
    assert len(closed) >= 4
    assert all(after > before + 20 for before, after in zip(closed, opened, strict=True))
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.ask("document.querySelector('nav').clientHeight") == 0
    assert browser.ask("document.documentElement.scrollWidth") <= 700


def test_a_page_that_does_too_much_is_seen(browser: Chromium, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<body style='width:3000px'><script>console.error('x')</script><img src='other.png'>")
    browser.open(page, width=400)
    assert browser.ask("document.documentElement.scrollWidth") > 400
    assert any("other.png" in url for url in browser.requested())
    assert browser.logged()
