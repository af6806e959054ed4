# SPDX-License-Identifier: Apache-2.0
"""The figures of a report: they are the lock's, the image's and the run's, and they add up."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives import Spec, build, write
from mlf_sdk.analysis.elf.debuginfo import DebugInfo
from mlf_sdk.analysis.elf.image import Section, Symbol
from mlf_sdk.judge.check import statics_rows
from mlf_sdk.judge.memorymap import Contents, memory_maps, region_use
from mlf_sdk.reporting.html.arenadata import live_bytes
from mlf_sdk.reporting.html.collect import collect
from mlf_sdk.reporting.html.data import ArenaRect, Flow, FlowEdge, FlowNode, Report
from mlf_sdk.reporting.html.flow import layers_of
from mlf_sdk.reporting.html.names import shared_prefix, short_names, shorten
from mlf_sdk.reporting.html.page import render_page
from mlf_sdk.reporting.html.svg import LabelRequest, spread, ticks
from mlf_sdk.tools.checks import printable
from report_cases import Page, findings, image_of


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return write(build(Spec(nop=True)), tmp_path / "graph.tar")


# ---- memory ----


def test_parts_fill_a_memory_exactly(graph: Path) -> None:
    found = findings(graph)
    regions = found.board.regions
    for memory, region in zip(found.memories, region_use(found.image.sections, regions), strict=True):
        assert memory.used_bytes == region.used_bytes
        assert memory.used_bytes + memory.free_bytes == memory.size_bytes
    flash = {p.kind: p.size_bytes for p in found.memories[0].parts}
    assert flash["vectors"] == 64
    assert flash["params"] == 64
    assert flash["tables"] == 16 * len(found.model.steps)
    assert flash["init"] == 96
    assert flash["runtime"] == 116
    assert flash["constants"] == 40, "what no symbol covers"
    gaps = 4 * (len(found.model.kernel_symbols) // 2)
    assert flash["kernels"] + flash["library"] + gaps >= sum(
        i.size_bytes for i in found.code if i.kind in ("kernels", "library")
    )
    ram = {p.kind: p.size_bytes for p in found.memories[1].parts}
    assert ram == {
        "stack": 8192,
        "data": 96,
        "arena": found.model.arena_reserved_bytes + 2 * found.model.guard_bytes,
        "bss": 24,
    }


def test_one_figure_for_one_inference(graph: Path) -> None:
    """The profile's exact count stands for the run's as well; without one the run's, with its resolution."""
    found = findings(graph)
    report = collect(found)
    assert report.inference is not None and found.profile is not None
    assert (report.inference.instructions, report.inference.resolution) == (found.profile.total, 0)
    alone = collect(dataclasses.replace(found, profile=None)).inference
    assert alone is not None
    assert (alone.instructions, alone.resolution) == (1_234_600, 120)


def test_the_rpc_server_is_told_from_the_product(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its buffers are variables of files; what is left of the zeroed variables is told apart as well."""
    found = findings(graph)
    start = found.image.sections[-1].end
    rows = [
        ("ring", 800, "uart_rx.c"),
        ("rpc", 400, "main.c"),
        ("mlf_context", 40, ""),
        ("mlf_rpc_scratch", 16, ""),
    ]
    symbols, at = [], start
    for name, size, file in rows:
        symbols.append(
            Symbol(
                name=name, address=at, size_bytes=size, is_function=False, is_object=True, section=".bss", file=file
            )
        )  # fmt: skip
        at += size
    section = Section(
        name=".bss", address=start, load_address=start, size_bytes=at - start + 24, in_file=False
    )
    image = dataclasses.replace(
        found.image, symbols=(*found.image.symbols, *symbols), sections=(*found.image.sections, section)
    )
    paths = {"uart_rx.c": "crt/baremetal/uart_rx.c", "main.c": "src/main.c"}
    monkeypatch.setattr(DebugInfo, "full_path", lambda _, file: paths.get(file, file))
    ram = memory_maps(Contents(found.lock, image), image, found.board.regions)[1]
    parts = {p.kind: p.size_bytes for p in ram.parts}
    assert (parts["server"], parts["runtime"], parts["bss"]) == (1216, 40, 48)
    assert ram.product_bytes == ram.used_bytes - 1216
    report = dataclasses.replace(collect(found), memories=(ram,))
    words = Page(render_page(report)).root.words()
    assert f"a product leaves out: {ram.name} {ram.product_bytes:,} B." in words


def test_static_objects_of_models_are_a_row_and_a_part(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeroed and initialised ones; code that is copied to RAM, and constants in flash, are none."""
    found = findings(graph)
    end = found.image.sections[-1].end
    bss = Section(name=".bss", address=end, load_address=end, size_bytes=16, in_file=False)
    data = Section(name=".own", address=end + 16, load_address=0x2000, size_bytes=16, in_file=True)
    symbols = [
        Symbol(
            name=name, address=section.address + at, size_bytes=size, is_function=is_function,
            is_object=not is_function, section=section.name, file="lib0.c",
        )
        for name, section, at, size, is_function in (
            ("scratch", bss, 0, 16, False), ("table", data, 0, 8, False), ("fast_code", data, 8, 8, True),
        )
    ]  # fmt: skip
    sections = (*found.image.sections, bss, data)
    image = dataclasses.replace(found.image, symbols=(*found.image.symbols, *symbols), sections=sections)
    monkeypatch.setattr(
        DebugInfo,
        "full_path",
        lambda _, file: "model/tiny/codegen/host/src/lib0.c" if file == "lib0.c" else "",
    )
    (row,) = statics_rows(found.lock, image)
    assert (row.item, row.model, row.image, row.planned) == ("statics", "", 24, None)
    assert row.note == "of the model's code, outside the arena: scratch, table"
    parts = memory_maps(Contents(found.lock, image), image, found.board.regions)[1].parts
    assert {p.kind: p.size_bytes for p in parts}["statics"] == 24
    assert statics_rows(found.lock, found.image) == []


def test_debug_information_decides_before_names(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = findings(graph).lock
    image = image_of(lock)
    kernel = next(s for s in image.symbols if s.name == lock.models[0].kernel_symbols[0])
    monkeypatch.setattr(DebugInfo, "path_at", lambda _, at: "src/main.c" if at == kernel.address else "")
    kinds = {item.name: item.kind for item in Contents(lock, image).items()}
    assert kinds[kernel.name] == "application"
    assert kinds["mlf_run"] == "runtime"
    assert kinds["memcpy"] == "library"


def test_a_region_without_anything(graph: Path) -> None:
    lock = findings(graph).lock
    contents = Contents(lock, image_of(lock))
    (found,) = memory_maps(contents, image_of(lock), [("spare", 0x40000000, 1024)])
    assert (found.parts, found.used_bytes, found.free_bytes) == ((), 0, 1024)


# ---- arena ----


def test_arena_is_the_plan(reports: dict[str, Report], graph: Path) -> None:
    lock = findings(graph).lock.models[0]
    arena = reports["graph"].arena
    assert [(r.name, r.offset, r.size_bytes, r.first, r.last) for r in arena.rects] == [
        (b.name, b.offset, b.size_bytes, b.first, b.last) for b in lock.buffers
    ]
    assert {r.kind for r in arena.rects} >= {"input", "output", "workspace"}
    assert max(r.offset + r.size_bytes for r in arena.rects) == arena.size_bytes == lock.arena_bytes
    most = max(live for _, live in arena.live)
    at_peak = len(covered(arena.rects, arena.peak))
    assert at_peak == most <= arena.size_bytes
    assert arena.live[-1] == (arena.end + 1, 0)


def covered(rects: Iterable[ArenaRect], time: int) -> set[int]:
    """Offsets of the bytes that are in use."""
    used = (r for r in rects if r.first <= time <= r.last)
    return {byte for r in used for byte in range(r.offset, r.offset + r.size_bytes)}


@given(
    st.lists(
        st.tuples(st.integers(1, 99), st.integers(0, 30), st.integers(0, 9), st.integers(0, 200)), max_size=12
    )
)
def test_live_bytes(spans: list[tuple[int, int, int, int]]) -> None:
    """A byte that two buffers share counts once: what is in use is never more than the arena."""
    rects = [
        ArenaRect(
            kind="tensor",
            name="",
            label="",
            offset=offset,
            size_bytes=size,
            first=first,
            last=first + more,
            steps=None,
        )
        for size, first, more, offset in spans
    ]
    points = dict(live_bytes(rects))
    for time in range(45):
        known = [t for t in points if t <= time]
        assert (points[max(known)] if known else 0) == len(covered(rects, time))


# ---- steps and graph ----


def test_flow(reports: dict[str, Report]) -> None:
    flow = reports["graph"].flow
    assert [node.step for node in flow.nodes] == [None, 0, 1, 2, None]
    assert [(e.source, e.target) for e in flow.edges] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    long = reports["long"].flow
    assert len(long.nodes) == 66
    assert len(long.edges) == 65 + 16, "16 branches"


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(st.just(n), st.sets(st.tuples(st.integers(0, n), st.integers(0, n))))
    )
)
def test_layers_go_down(case: tuple[int, set[tuple[int, int]]]) -> None:
    count, pairs = case
    nodes = tuple(FlowNode(label=str(n), name=str(n), detail="", step=n) for n in range(count + 1))
    edges = tuple(FlowEdge(source=a, target=b, tensor="") for a, b in sorted(pairs) if a < b)
    layers = layers_of(Flow(nodes=nodes, edges=edges))
    level = {n: index for index, members in enumerate(layers) for n in members}
    assert sorted(level) == list(range(count + 1))
    assert all(level[e.source] < level[e.target] for e in edges)


def test_a_failed_row_makes_the_report_fail(graph: Path) -> None:
    found = findings(graph)
    broken = dataclasses.replace(
        found.check, rows=(dataclasses.replace(found.check.rows[0], state="failed", note="why"),)
    )
    assert found.run is not None
    report = collect(
        dataclasses.replace(found, run=dataclasses.replace(found.run, check=broken), check=broken)
    )
    assert report.ok is False
    assert [v.ok for v in report.verdicts if v.what == "image"] == [False]
    assert any(row.state == "failed" and row.note == "why" for row in report.proof)
    assert collect(found).ok is True


def test_not_run(reports: dict[str, Report]) -> None:
    still = reports["still"]
    assert still.ok is True
    assert (still.verdict, still.inference) == ("NOT RUN", None)
    assert [v.ok for v in still.verdicts] == [True, None, None]
    assert still.arena.measured_bytes is None
    assert all(row.measured is None for row in still.proof)


def test_a_run_that_was_compared_with_nothing(graph: Path) -> None:
    found = findings(graph)
    assert found.run is not None
    assert collect(found).verdict == "PASS"
    alone = collect(dataclasses.replace(found, run=dataclasses.replace(found.run, twin=None)))
    assert (alone.ok, alone.verdict) == (True, "RAN, NOT COMPARED")
    page = render_page(alone)
    assert "RAN, NOT COMPARED</title>" in page.decode() and "✓ PASS" not in page.decode().split("<ul", 1)[0]


# ---- small parts ----


def test_names() -> None:
    names = ["tvmgen_net_fused_nn_conv2d_add", "tvmgen_net_fused_nn_dense", "tvmgen_net_nn_pool"]
    assert shared_prefix(names) == "tvmgen_net_"
    assert short_names(names) == ["nn_conv2d_add", "nn_dense", "nn_pool"]
    assert short_names(["default___tvm_main__"]) == ["default___tvm_main__"]
    assert short_names(["same", "same"]) == ["same", "same"]
    assert short_names([]) == []
    assert short_names(["tvmgen_net_fused_add_1", "tvmgen_net_fused_add_2"]) == ["add_1", "add_2"]
    assert shorten("abcdefghij", 10) == "abcdefghij"
    assert shorten("abcdefghijk", 7) == "abcd…jk"
    assert [len(shorten("a" * 50, n)) for n in range(1, 9)] == list(range(1, 9))
    assert printable("a\u202eb\x00<\u00e4") == "a\\u202eb\\x00<\u00e4"


@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(1, 60)), max_size=12))
def test_labels_do_not_overlap(wanted: list[tuple[float, float]]) -> None:
    labels = [LabelRequest(x=x, width=width) for x, width in sorted(wanted)]
    middles = spread(labels, 0.0, 1000.0)
    edges = [(m - label.width / 2, m + label.width / 2) for m, label in zip(middles, labels, strict=True)]
    assert all(left >= -1e-6 and right <= 1000 + 1e-6 for left, right in edges)
    assert all(b[0] - a[1] >= 10 - 1e-6 for a, b in pairwise(edges))


@pytest.mark.parametrize(("most", "count"), [(0, 1), (1, 2), (96_288, 6), (8, 9), (1 << 32, 9)])
def test_ticks(most: int, count: int) -> None:
    found = ticks(most)
    assert len(found) == count
    assert found[0] == 0
    assert found[-1] <= most
