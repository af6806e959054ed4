# SPDX-License-Identifier: Apache-2.0
"""What tests of the report share: figures, pages, a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from archives import Spec, build, write
from chromium import PROGRAM, Chromium
from mlf_sdk.pipeline.compile import compile as compile_model
from mlf_sdk.reporting.html.collect import collect
from mlf_sdk.reporting.html.data import Report
from report_cases import LAYERS, findings, layer_findings, long_net


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """Reports of a graph, an ahead-of-time model, 64 steps, one that was not run, and a compiled file."""
    folder = tmp_path_factory.mktemp("report")
    graph = write(build(Spec(nop=True)), folder / "graph.tar")
    aot = write(build(Spec(kind="aot-c", dtype="int8")), folder / "aot.tar")
    long = long_net(folder / "long.tar", 64)
    compiled = compile_model(LAYERS, folder / "layers.tar", board="mps2-an386").output
    return {
        "graph": collect(findings(graph)),
        "aot": collect(findings(aot)),
        "long": collect(findings(long)),
        "still": collect(findings(graph, was_run=False)),
        "layers": collect(layer_findings(compiled)),
    }


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A headless Chromium."""
    if PROGRAM is None:
        pytest.skip("no Chromium here: pages are not looked at (apt-get install chromium)")
    found = Chromium(tmp_path_factory.mktemp("chromium"))
    yield found
    found.close()
