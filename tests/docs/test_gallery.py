# SPDX-License-Identifier: Apache-2.0
"""The gallery: its list, a model from its file to its row and report, and changes since the last release."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from report_cases import Page

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def gallery() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "docs" / "gallery"))
    yield importlib.import_module("gallery")
    sys.path.remove(str(ROOT / "docs" / "gallery"))
    del sys.modules["gallery"]


def test_the_list(gallery: ModuleType) -> None:
    models = gallery.load_models()
    names = [model.name for model in models]
    assert len(models) >= 40
    assert len(set(names)) == len(names)
    assert len({model.file for model in models}) == len(models)
    assert all((m.tflm_instructions is None) == (m.tflm_arena_bytes is None) for m in models)


def test_a_model_and_its_row(gallery: ModuleType, tmp_path: Path) -> None:
    """A model of this project; another one is not here, and counted. What was measured is kept."""
    models = [m for m in gallery.load_models() if m.name in ("forest", "kws")]
    found = gallery.measure_all(models, tmp_path / "nowhere", tmp_path, 1)
    assert found["kws"].fault == "its file is not here"
    forest = found["forest"]
    assert forest.verdict == "PASS"
    assert "ONNX Runtime" in forest.evidence
    assert forest.instructions > 100
    assert forest.rows_arena_bytes <= forest.arena_bytes
    report = tmp_path / "forest.html"
    assert f"{forest.instructions:,}" in Page(report.read_bytes()).root.words()
    page = Page(gallery.render_gallery(models, found).encode())
    rows = page.root.find("tbody")[0].find("tr")
    assert [row.find("a")[0].attributes["href"] for row in rows] == ["forest.html"]
    assert f"{forest.instructions:,}" in rows[0].words()
    assert "1 model of the list not shown" in page.root.words()
    report.write_text("kept")
    assert gallery.measure(models[-1], tmp_path, tmp_path) == forest
    assert report.read_text() == "kept"


def test_changes_since_the_last_release(
    gallery: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [m for m in gallery.load_models() if m.name == "kws"]
    now = gallery.GalleryFigures(
        name="kws", verdict="PASS", arena_bytes=900, model_flash_bytes=5_000, instructions=2_000
    )
    before = msgspec.structs.replace(now, arena_bytes=1_000)
    last = tmp_path / "figures.json"
    last.write_bytes(msgspec.json.encode({"version": "0.1.9", "models": [before]}))
    monkeypatch.setattr(gallery, "LAST", last)
    page = Page(gallery.render_gallery(models, {"kws": now}).encode())
    assert [e.words() for e in page.root.all() if e.attributes.get("class") == "change"] == ["-10.0%"]
    assert "the last release, 0.1.9" in page.root.words()
    assert f"{models[0].tflm_instructions / 2_000:.1f} times" in page.root.words()


def test_figures_of_the_last_release_are_of_models_in_the_list(gallery: ModuleType) -> None:
    version, kept = gallery.last_release()
    names = {model.name for model in gallery.load_models()}
    assert version
    assert len(kept) >= 40
    assert set(kept) <= names
    assert all(row.verdict == "PASS" and not row.fault for row in kept.values())
