# SPDX-License-Identifier: Apache-2.0
"""The node tests of ONNX's own test suite, run with compiled kernels."""

from __future__ import annotations

import functools
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from compiled_models import KernelRunner
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.errors import MlfError
from mlf_sdk.frontends.mlf.compiled import archive_of

# Results that are random, or computed in types that no kernel has.
SKIPPED = (
    "training",
    "sequence",
    "string",
    "optional",
    "image_decoder",
    "float8",
    "int4",
    "uint4",
    "float4",
    "int2",
    "bfloat16",
)

# ONNX Runtime computes these in another way, which docs/howto-onnx.md states.
CONTRADICTED = (
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
)

TYPES = ("float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool")


# Pooling over three axes: most of the time that it takes to make all tests goes into what ONNX expects of these.
SLOW = ("export_averagepool_3d_default", "export_lppool_3d_default", "export_maxpool_3d_default")


@functools.cache
def node_tests(slow: bool = False) -> dict[str, Any]:
    """Tests by name, with or without the slow ones: as the first call in a process says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case import base

        class Exporter(type(base.Base)):  # type: ignore[misc]
            """Makes the tests of a class of functions when the class is made."""

            def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
                wanted = {k: v for k, v in members.items() if slow or k not in SLOW}
                super().__init__(name, bases, wanted)

        with (
            mock.patch.object(base, "Base", Exporter("Base", (), {})),
            mock.patch.object(base, "process_snippet", lambda *_: ("", "")),  # for ONNX's pages alone
        ):
            from onnx.backend.test.case.node import collect_testcases

            cases = collect_testcases(None)
    skipped = (*SKIPPED, *CONTRADICTED)
    return {c.name: c for c in cases if not any(s in c.name for s in skipped) and _is_plain(c)}


def _is_plain(case: Any) -> bool:
    """True where all inputs and outputs are arrays of types that kernels have."""
    arrays = [x for pair in case.data_sets for part in pair for x in part]
    return all(isinstance(x, np.ndarray | np.generic) and x.dtype.name in TYPES for x in arrays)


LIST = Path(__file__).resolve().parents[2] / "docs" / "onnx-nodes.md"


def passing() -> list[str]:
    """Names of the tests that the documentation lists."""
    return re.findall(r"`(test_\w+)`", LIST.read_text())


def with_constants(case: Any) -> Any:
    """The test's model with every input but the first as a constant, as weights are in a real model."""
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    values = dict(zip([i.name for i in model.graph.input], case.data_sets[0][0], strict=True))
    for value in list(model.graph.input)[1:]:
        model.graph.initializer.append(
            onnx.numpy_helper.from_array(np.asarray(values[value.name]), value.name)
        )
        model.graph.input.remove(value)
    return model


def run_node_test(case: Any, folder: Path, *, kernels: bool = True) -> str:
    """Run one test; returns why it can't be compiled, or an empty text."""
    path = folder / "node.onnx"
    reason = ""
    for model in (case.model, with_constants(case)):
        path.write_bytes(model.SerializeToString())
        try:
            graph = load_onnx(path)
        except MlfError as error:
            reason = reason or str(error)
            continue
        for inputs, outputs in case.data_sets:
            given = [np.asarray(x) for x in inputs][: len(graph.inputs)]
            if any(x.size == 0 for x in given):
                return "inputs without elements"
            found = Interpreter(graph).run(given)
            check(found, outputs, case)
            if kernels:
                runner = KernelRunner(archive_of(compile_graph(graph, Choice())), folder, ("-O0",))
                typed = [x.astype(graph.values[i].dtype) for x, i in zip(given, graph.inputs, strict=True)]
                check(runner.run(typed), outputs, case)
        return ""
    return reason


def check(found: list[Any], wanted: list[Any], case: Any) -> None:
    for got, expected in zip(found, wanted, strict=True):
        expected = np.asarray(expected)
        got = np.asarray(got).reshape(expected.shape)
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(got, expected, rtol=case.rtol, atol=case.atol)
        else:
            np.testing.assert_array_equal(got, expected)


def page(cases: dict[str, Any], names: list[str], refused: dict[str, str]) -> str:
    """The list as a page of the documentation."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(cases[name].model.graph.node[0].op_type, []).append(name)
    lines = [
        "# ONNX's node tests",
        "",
        "Made by `make onnx-nodes`: the tests of single operators that the package `onnx` ships, run with compiled",
        "kernels on the host within ONNX's own tolerances. Inputs that are weights in a real model are constants.",
        "",
        f"{len(names)} pass. {len(refused)} are refused when the model is read: types that no kernel has, operators",
        "that are not supported, or what is computed at run time where a constant is needed. Left out, as ONNX Runtime",
        f"computes them in another way ([how-to](howto-onnx.md)): {' and '.join(f'`{n[5:]}`' for n in CONTRADICTED)}.",
        "",
    ]
    for kind in sorted(groups):
        lines.append(f"- {kind}: " + ", ".join(f"`{n}`" for n in groups[kind]))
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run all tests, or those whose names contain the first argument; write the list."""
    names: list[str] = []
    refused: dict[str, str] = {}
    failed: dict[str, str] = {}
    cases = node_tests(slow=True)
    for name, case in cases.items():
        if len(sys.argv) > 1 and sys.argv[1] not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                reason = run_node_test(case, Path(folder))
            except Exception as error:
                failed[name] = f"{type(error).__name__} {error}"[:300].replace("\n", " ")
                continue
        if reason:
            refused[name] = reason
        else:
            names.append(name)
    for name, reason in (refused if len(sys.argv) > 1 else failed).items():
        print(name, reason)
    print(f"{len(names)} pass, {len(refused)} refused, {len(failed)} fail", *failed.items(), sep="\n")
    if len(sys.argv) == 1 and not failed:
        LIST.write_text(page(cases, names, refused))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
