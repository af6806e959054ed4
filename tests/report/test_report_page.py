# SPDX-License-Identifier: Apache-2.0
"""The page: well formed, self-contained, accessible, the same figures as the JSON, printable whatever a name is."""

from __future__ import annotations

import dataclasses
import io
import re
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from mlf_sdk.ir.model import Finding
from mlf_sdk.planner.uses import Content, MemoryUse
from mlf_sdk.reporting.html import page as page_module
from mlf_sdk.reporting.html.collect import collect
from mlf_sdk.reporting.html.data import Report
from mlf_sdk.reporting.html.layers import layer_cards
from mlf_sdk.reporting.html.memory import LABELS
from mlf_sdk.reporting.html.page import render_page
from mlf_sdk.reporting.overview import overview_parts
from mlf_sdk.reporting.values import result_values
from model_cases import Net
from report_cases import Page, findings

NAMES = ("graph", "aot", "long", "still", "layers")
HOSTILE = (
    "<script>alert(1)<script>",
    "\"'><img src=x onerror=alert(1)>",
    "</style></title><!-- ]]> -->",
    "{{ 7 * 7 }}{% for %}",
    "right\u202eto\u2066left",
    "null\x00 bell\x07 \ud800",
)


@pytest.mark.parametrize("name", NAMES)
def test_well_formed(reports: dict[str, Report], name: str) -> None:
    page = Page(render_page(reports[name]))
    elements = page.root.all()
    (html,) = [e for e in page.root.children if e.tag == "html"]
    assert html.attributes["lang"] == "en"
    ids = [e.attributes["id"] for e in elements if "id" in e.attributes]
    assert len(ids) == len(set(ids)), "an id is there twice"
    for element in elements:
        for key in ("aria-labelledby", "aria-describedby"):
            assert set(element.attributes.get(key, "").split()) <= set(ids)
        if element.attributes.get("href", "").startswith("#"):
            assert element.attributes["href"][1:] in ids
        if element.tag in ("td", "th"):
            assert element.parent is not None
            assert element.parent.tag == "tr"
    used = re.findall(r"url\(#(\w+)\)", "".join(e.words() for e in elements if e.tag == "style"))
    assert used
    assert set(used) <= set(ids)
    assert not page.comments


@pytest.mark.parametrize("name", NAMES)
def test_self_contained(reports: dict[str, Report], name: str) -> None:
    page = Page(render_page(reports[name]))
    elements = page.root.all()
    assert not [
        e for e in elements if e.tag in ("script", "link", "img", "iframe", "object", "embed", "base")
    ]
    assert not [k for e in elements for k in e.attributes if k in ("src", "srcset") or k.startswith("on")]
    assert all(e.attributes["href"].startswith("#") for e in elements if "href" in e.attributes)
    style = "".join(e.words() for e in elements if e.tag == "style")
    assert "@import" not in style
    assert re.findall(r"url\((?!#)", style) == []
    (policy,) = [e for e in elements if e.attributes.get("http-equiv") == "Content-Security-Policy"]
    assert policy.attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'"


@pytest.mark.parametrize("name", NAMES)
def test_accessible(reports: dict[str, Report], name: str) -> None:
    page = Page(render_page(reports[name]))
    elements = page.root.all()
    levels = [int(e.tag[1]) for e in elements if re.fullmatch(r"h[1-6]", e.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    for table in page.root.find("table"):
        (caption,) = table.find("caption")
        assert caption.words().strip()
        assert all(th.attributes.get("scope") in ("row", "col") for th in table.find("th"))
        heads = len(table.find("thead")[0].find("th"))
        assert {len([c for c in row.children if c.tag in ("td", "th")]) for row in table.find("tr")} == {
            heads
        }
    for svg in page.root.find("svg"):
        if svg.attributes.get("aria-hidden") != "true":
            assert svg.attributes["role"] == "img"
            (text,) = [c for c in svg.find("desc") if c.attributes["id"] == svg.attributes["aria-labelledby"]]
            assert len(text.words()) > 20
    for box in elements:
        if box.attributes.get("class") == "scroll":
            assert (box.attributes["tabindex"], box.attributes["role"]) == ("0", "region")
            assert box.attributes["aria-label"]


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_those_of_the_json(reports: dict[str, Report], name: str) -> None:
    report = reports[name]
    values = result_values(report)
    page = Page(render_page(report))
    cells = {
        section.attributes["id"]: [cell.words() for row in section.find("tr") for cell in row.find("td")]
        for section in page.root.find("section")
    }
    memories = [part for memory in values["memories"] for part in memory["parts"]]
    assert memories
    for part in memories:
        assert f"{part['size_bytes']:,}" in cells["memory"]
    for memory in values["memories"]:
        assert f"{memory['used_bytes']:,}" in page.root.words()
    assert len(values["arena"]["rects"]) == len(report.arena.rects) > 2
    for rect in values["arena"]["rects"]:
        assert {f"{rect['offset']:,}", f"{rect['size_bytes']:,}"} <= set(cells["arena"])
    for row in values["proof"]:
        for key in ("summary", "planned", "image", "measured"):
            if row[key] is not None:
                assert any(cell.endswith(f"{row[key]:,}") for cell in cells["proof"])
    for item in values["code"]:
        assert f"{item['size_bytes']:,}" in cells["code"]
    assert (values["profile"] is None) == (name == "still")
    for step in (values["profile"] or {"steps": ()})["steps"]:
        assert f"{step['cost']:,}" in cells["profile"]
    assert [v["ok"] for v in values["verdicts"]] == [v.ok for v in report.verdicts]


def test_same_bytes(reports: dict[str, Report]) -> None:
    assert render_page(reports["graph"]) == render_page(dataclasses.replace(reports["graph"]))


def test_words_beside_colours(reports: dict[str, Report]) -> None:
    good = reports["graph"]
    bad = dataclasses.replace(
        good,
        ok=False,
        proof=(dataclasses.replace(good.proof[0], state="failed", note="it grew"), *good.proof[1:]),
    )
    words = Page(render_page(good)).root.find("main")[0].words()
    assert "WRONG" not in words
    page = Page(render_page(bad))
    assert "✗ FAIL" in page.root.find("header")[0].words()
    assert "✗ WRONG" in page.root.find("main")[0].words()
    assert "FAIL" in page.root.find("title")[0].words()
    for kind in {part.kind for memory in good.memories for part in memory.parts}:
        assert LABELS[kind] in words


def _column(page: Page, section: str, number: int) -> list[str]:
    (found,) = [s for s in page.root.find("section") if s.attributes["id"] == section]
    rows = [[c for c in row.children if c.tag in ("td", "th")] for row in found.find("tr")]
    return [cells[number].words().strip() for cells in rows]


def test_memories_of_a_model_show_what_lies_there_and_its_traffic(reports: dict[str, Report]) -> None:
    arena = Content(kind="arena", name="", size_bytes=9472, read_words=1200, written_words=345, cycles=1545.0)
    conv = Content(
        kind="weights", name="conv_2d_7", size_bytes=5120, read_words=640, written_words=0, cycles=5120.0
    )
    uses = (
        MemoryUse(memory="dtcm", room_bytes=100_000, contents=(arena,)),
        MemoryUse(memory="qspi", room_bytes=1 << 20, contents=(conv,)),
    )
    page = Page(render_page(dataclasses.replace(reports["graph"], uses=uses)))
    (memory,) = [s for s in page.root.find("section") if s.attributes["id"] == "memory"]
    text = " ".join(memory.words().split())
    for part in (
        "9,472 B of 100,000 B",
        "1,545 cycles, 23.2%",
        "weights of conv_2d_7",
        "qspi5,12064005,120",
    ):
        assert part in text
    assert "several memories" not in Page(render_page(reports["graph"])).root.words()


def test_a_verdict_stands_beside_its_name(reports: dict[str, Report]) -> None:
    head, *verdicts = _column(Page(render_page(reports["graph"])), "proof", 1)[
        : 1 + len(reports["graph"].proof)
    ]
    assert head == "verdict"
    assert set(verdicts) <= {"✓ ok", "– unproven"}


def test_the_dearest_steps_come_first_without_their_common_prefix(reports: dict[str, Report]) -> None:
    report = reports["long"]
    assert report.profile is not None
    page = Page(render_page(report))
    costs = [int(text.replace(",", "")) for text in _column(page, "profile", 3)[1:65]]
    assert costs == sorted((step.cost for step in report.profile.steps), reverse=True)
    names = _column(page, "profile", 1)[1:65]
    assert not [name for name in names if name.startswith(("tvmgen", "fused_"))]
    assert len(set(names)) == 64
    kernels = [item.name for item in report.code if item.kind == "kernels"]
    assert all(name.startswith("tvmgen_long_fused_") for name in kernels)
    shown = set(_column(page, "code", 0))
    assert not shown & set(kernels)


def test_tiles_leave_the_test_server_out(reports: dict[str, Report]) -> None:
    """The product has no server: tiles are without it, and the memory map names what it takes."""
    report = reports["graph"]
    (at, memory) = next((i, m) for i, m in enumerate(report.memories) if m.used_bytes > 1000)
    first = memory.parts[0]
    parts = (*memory.parts, dataclasses.replace(first, kind="server", size_bytes=4321))
    changed = dataclasses.replace(memory, parts=parts)
    memories = (*report.memories[:at], changed, *report.memories[at + 1 :])
    words = Page(render_page(dataclasses.replace(report, memories=memories))).root.words()
    assert changed.product_bytes == memory.product_bytes < memory.used_bytes + 4321
    assert f"{memory.name} {memory.product_bytes:,} B" in words.split("Without the RPC server", 1)[1][:200]
    assert f"{memory.name}: {changed.used_bytes:,} B used" in words
    tiles = words.split("RAM of the model", 1)[1][:400]
    assert f"{report.model_flash_bytes:,} B" in tiles.split("flash of the model")[1]
    assert f"{changed.used_bytes:,}" not in tiles


def test_only_memories_that_are_used(reports: dict[str, Report]) -> None:
    report = reports["graph"]
    empty = dataclasses.replace(report.memories[0], name="unused_psram", parts=())
    words = Page(render_page(dataclasses.replace(report, memories=(*report.memories, empty)))).root.words()
    assert "unused_psram" not in words


def test_the_date_is_stated_where_it_is_known(reports: dict[str, Report]) -> None:
    dated = dataclasses.replace(reports["graph"], date="2031-02-03")
    assert "2031-02-03" in Page(render_page(dated)).root.find("header")[0].words()


# ---- names from the archive ----


def test_hostile_names(tmp_path: Path) -> None:
    net = Net(name=HOSTILE[0])
    inputs = [net.input(name) for name in HOSTILE[:4]]  # the others are refused when an archive is read
    last = inputs[0]
    for other in inputs[1:]:
        last = net.call("add", [last, other], "in0[i] + in1[i]", name=HOSTILE[1])
    report = collect(findings(net.write(tmp_path / "hostile.tar", last)))
    hostile = tuple(Finding(where=text, what=text, handled=text) for text in HOSTILE)
    rects = tuple(
        dataclasses.replace(rect, name=HOSTILE[4], label=HOSTILE[4] + HOSTILE[5])
        for rect in report.arena.rects
    )
    report = dataclasses.replace(
        report,
        board=HOSTILE[1],
        findings=hostile,
        arena=dataclasses.replace(report.arena, rects=rects),
        no_profile=HOSTILE[0],
        profile=None,
    )
    data = render_page(report)
    page = Page(data)
    tags = {element.tag for element in page.root.all()}
    assert not tags & {"script", "img"}
    assert not page.comments
    words = page.root.words()
    for text in HOSTILE[:4]:
        assert text in words
    assert "right\\u202eto\\u2066left" in words
    assert "null\\x00 bell\\x07 \\ud800" in words
    assert not {"\u202e", "\u2066", "\x00", "\x07"} & set(data.decode())
    console = Console(width=100, file=io.StringIO(), markup=False)
    for part in overview_parts(report, None):
        console.print(part)


def test_names_keep_their_characters(tmp_path: Path) -> None:
    net = Net(name="größe")
    path = net.write(tmp_path / "net.tar", net.call("neg", [net.input("שלום 模型 _x_")], "-in0[i]"))
    words = Page(render_page(collect(findings(path)))).root.words()
    assert "größe" in words
    assert "שלום 模型 _x_" in words


# ---- colours ----

CSS = (Path(page_module.__file__).parents[1] / "templates" / "report.css").read_text()
TEXTS = (
    ("ink", "page"),
    ("ink", "sheet"),
    ("quiet", "page"),
    ("quiet", "sheet"),
    ("link", "page"),
    ("good", "good-bg"),
    ("bad", "bad-bg"),
    ("quiet", "bad-bg"),
    ("none", "none-bg"),
)


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    digits = colour.lstrip("#")
    digits = "".join(2 * c for c in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_text() -> None:
    schemes = re.findall(r":root \{(.*?)\n\s*\}", CSS, re.DOTALL)
    assert len(schemes) == 3, "light, dark, print"
    for scheme in schemes:
        colours = dict(re.findall(r"--([\w-]+): (#\w+);", scheme))
        for text, ground in TEXTS:
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


def test_colours_of_parts() -> None:
    fills = dict(re.findall(r"\.f-(\w+) \{ fill: (#\w+)", CSS))
    patterns: dict[str, str] = {}
    for names, pattern in re.findall(r"((?:\.p-\w+(?:, )?)+) \{ fill: url\(#(\w+)\)", CSS):
        patterns.update(dict.fromkeys(re.findall(r"\.p-(\w+)", names), pattern))
    assert set(LABELS) <= set(fills)
    (text,) = re.findall(r"text\.in \{ fill: (#\w+)", CSS)
    assert all(contrast(fill, text) >= 4.5 for fill in fills.values())
    pictures = (
        ["vectors", "runtime", "application", "kernels", "library", "tables", "params", "constants", "init"],
        ["stack", "arena", "data", "bss", "params"],
        ["input", "output", "tensor", "workspace"],
    )
    for kinds in pictures:
        looks = [(fills[kind], patterns.get(kind)) for kind in kinds]
        assert len(set(looks)) == len(looks)
        plain = [kind for kind in kinds if kind not in patterns]
        greys = sorted(luminance(fills[kind]) for kind in plain)
        assert all(b - a > 0.05 for a, b in pairwise(greys)), f"told apart by colour alone: {plain}"


def test_each_step_has_a_card(reports: dict[str, Report]) -> None:
    """Attributes, quantisation and values of the layers that it computes, its cost and its source."""
    report = reports["layers"]
    page = Page(render_page(report))
    cards = {e.attributes["id"]: e for e in page.root.find("article")}
    links = [a.attributes["href"] for svg in page.root.find("svg") for a in svg.find("a")]
    assert sorted(links) == sorted(f"#step-{step.index}" for step in report.steps)
    facts = report.layers
    assert facts is not None
    for step in report.steps:
        card = cards[f"step-{step.index}"]
        words = card.words()
        assert step.layer is not None
        layer = facts.of(step.layer.number)
        assert layer is not None
        assert all(name in words and text in words for name, text in layer.attributes)
        assert len(card.find("svg")) == sum(t.histogram is not None for t in layer.tensors) > 0
        assert f"{(step.index + 1) * 1000:,} instructions" in words  # the profile's
        assert f"#source-{step.symbol}" in [a.attributes["href"] for a in card.find("a")]
    source = cards[f"source-{report.steps[0].symbol}"]
    assert "a < b && c" in source.words()
    assert "#source-tile" in [a.attributes["href"] for a in source.find("a")]
    assert "Only its begin is shown." in cards["source-tile"].words()


def test_a_report_without_the_file_says_so(reports: dict[str, Report]) -> None:
    report = dataclasses.replace(reports["graph"], no_layers="the file is not here")
    words = Page(render_page(report)).root.words()
    assert "Attributes and values of layers are not shown: the file is not here." in words


def test_work_that_the_compiler_removed(reports: dict[str, Report]) -> None:
    report = reports["layers"]
    assert report.layers is not None
    assert report.removed_macs == 0
    more = dataclasses.replace(report.layers.layers[0], macs=report.layers.macs + 1_000)
    layers = dataclasses.replace(report.layers, layers=(*report.layers.layers, more))
    changed = dataclasses.replace(report, layers=layers)
    assert changed.removed_macs == more.macs
    assert f"take {layers.macs:,} multiplications" in Page(render_page(changed)).root.words()


def test_a_layer_that_no_reference_computes(reports: dict[str, Report]) -> None:
    report = dataclasses.replace(reports["layers"], evidence="TFLM + reference")
    assert report.layers is not None
    first = report.layers.layers[0]
    layers = tuple(dataclasses.replace(one, covered=one is not first) for one in report.layers.layers)
    changed = dataclasses.replace(report, layers=dataclasses.replace(report.layers, layers=layers))
    cards = {e.attributes["id"]: e.words() for e in Page(render_page(changed)).root.find("article")}
    said = [
        name for name, words in cards.items() if f"no reference computes {first.number} {first.kind}" in words
    ]
    own = [f"step-{s.index}" for s in report.steps if s.layer is not None and s.layer.number == first.number]
    assert said == own


def test_a_region_shows_the_layers_inside(reports: dict[str, Report]) -> None:
    report = reports["layers"]
    first, second = (step.layer for step in report.steps[:2])
    assert first is not None
    assert second is not None
    region = msgspec.structs.replace(second, inside=(first, second))
    step = dataclasses.replace(report.steps[1], layer=region)
    card = {c.step.index: c for c in layer_cards(dataclasses.replace(report, steps=(step,)))}[1]
    assert [layer.number for layer in card.layers] == [first.number, second.number]
