# SPDX-License-Identifier: Apache-2.0
"""A sample of ONNX's node tests on an emulated board: many of them in one model, so in one image.

Usage: onnx_board.py: runs the sample and writes its section of docs/onnx-nodes.md.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import compose, helper

import mlf_sdk
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.errors import MlfError
from onnx_nodes import LIST, check, node_tests, passing, with_constants

BOARD = "mps2-an386"
IMAGES, TOGETHER = 5, 20
HEADING = "## On a board"


def samples(images: int = IMAGES, together: int = TOGETHER) -> list[list[str]]:
    """Names of tests for each image: evenly from those of one version of the operators, the largest groups."""
    cases = node_tests()
    groups: dict[int, list[str]] = {}
    for name in dict.fromkeys(passing()):
        if name in cases and len(cases[name].data_sets) == 1:
            groups.setdefault(_opset(cases[name].model), []).append(name)
    largest = sorted(groups.values(), key=len, reverse=True)[:images]
    return [[group[i * len(group) // together] for i in range(together)] for group in largest]


def run_on_board(names: Sequence[str], folder: Path) -> dict[str, str]:
    """Run tests in one image; returns what is wrong, by name.

    Raises:
        MlfError: it can't be built, or does not run.
    """
    joined, inputs = _joined(names, folder)
    path = folder / "nodes.onnx"
    path.write_bytes(joined.SerializeToString())
    graph = load_onnx(path)
    types = {graph.values[i].name: graph.values[i].dtype for i in graph.inputs}
    given = {name: np.asarray(array).astype(types[name])[None] for name, array in inputs.items()}
    report = mlf_sdk.run(path, board=BOARD, inputs=given, twin=False)
    if not report.memory.ok or not report.check.ok:
        return dict.fromkeys(names, "the image or its memory is not as planned")
    wrong = {}
    for number, name in enumerate(names):
        case = node_tests()[name]
        wanted = case.data_sets[0][1]
        found = [report.outputs[f"t{number}_{o.name}"] for o in case.model.graph.output]
        try:
            check(found, wanted, case)
        except AssertionError as error:
            wrong[name] = " ".join(str(error).split())[:200]
    return wrong


def _opset(model: Any) -> int:
    return max((o.version for o in model.opset_import if o.domain == ""), default=0)


def _joined(names: Sequence[str], folder: Path) -> tuple[Any, dict[str, Any]]:
    """One model of several tests, and its inputs by name."""
    parts, inputs = [], {}
    opsets: dict[str, int] = {}
    for number, name in enumerate(names):
        case = node_tests()[name]
        model = case.model
        path = folder / "one.onnx"
        path.write_bytes(model.SerializeToString())
        try:
            load_onnx(path)
        except MlfError:
            model = with_constants(case)
        given = dict(zip([i.name for i in case.model.graph.input], case.data_sets[0][0], strict=True))
        inputs |= {f"t{number}_{i.name}": given[i.name] for i in model.graph.input}
        parts.append(compose.add_prefix(model, f"t{number}_").graph)
        opsets |= {o.domain: o.version for o in model.opset_import}
    graph = helper.make_graph(
        [node for part in parts for node in part.node],
        "nodes",
        [value for part in parts for value in part.input],
        [value for part in parts for value in part.output],
        [tensor for part in parts for tensor in part.initializer],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports), inputs


def section(names: Sequence[str], wrong: dict[str, str]) -> str:
    """The section of the page."""
    good = [name for name in names if name not in wrong]
    lines = [
        HEADING,
        "",
        f"{len(good)} of a sample of {len(names)} give the same on the emulated board {BOARD} (Cortex-M4F), within the same",
        f"tolerances, {TOGETHER} of them in an image: " + ", ".join(f"`{name}`" for name in good) + ".",
    ]
    if wrong:
        lines += ["", "They don't:", "", *(f"- `{name}`: {why}" for name, why in wrong.items())]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the sample, and write its section."""
    names: list[str] = []
    wrong: dict[str, str] = {}
    for group in samples():
        with tempfile.TemporaryDirectory() as folder:
            wrong |= run_on_board(group, Path(folder))
        names += group
        print(f"{len(names)} run, {len(wrong)} wrong", *wrong.items(), sep="\n", flush=True)
    text = LIST.read_text().partition(HEADING)[0].rstrip()
    LIST.write_text(f"{text}\n\n{section(names, wrong)}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
