# SPDX-License-Identifier: Apache-2.0
"""Random ONNX networks: what they draw, that they are right, and that a mistake is noticed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from mlf_sdk.compiler.onnx import load, qoperators
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.load import BUILDERS
from mlf_sdk.compiler.onnx.node import Node

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
from onnx_comparison import compare
from onnx_drawing import network
from onnx_draws import DRAWS
from onnx_operators import run_batch

Builder = Callable[[Context, Node], None]
KINDS = sorted(set().union(*DRAWS.values()))
DRAWN_AT_MOST = 60  # networks for one operator
# Attributes that no network has, and why.
_REFUSED = "refused by the reader"
_RANDOM = "of random numbers, which inference doesn't draw"
_OTHER_TYPES = "of types that no kernel has"
NOT_DRAWN = {
    "BatchNormalization": {"spatial": _REFUSED},
    "Cast": {"round_mode": _OTHER_TYPES},
    "CastLike": {"round_mode": _OTHER_TYPES, "saturate": _OTHER_TYPES},
    "DequantizeLinear": {"block_size": _REFUSED, "output_dtype": _OTHER_TYPES},
    "QuantizeLinear": {"block_size": _REFUSED, "output_dtype": _OTHER_TYPES, "precision": _OTHER_TYPES},
    "Dropout": {"seed": _RANDOM},
    "GRU": dict.fromkeys(("activation_alpha", "activation_beta", "clip", "layout"), _REFUSED),
    "LSTM": dict.fromkeys(("activation_alpha", "activation_beta", "clip", "input_forget", "layout"), _REFUSED),
    "RNN": dict.fromkeys(("activation_alpha", "activation_beta", "clip", "layout"), _REFUSED),
    "Resize": {"antialias": _REFUSED, "extrapolation_value": _REFUSED},
}  # fmt: skip


def test_every_operator_that_the_reader_knows_is_drawn() -> None:
    quantised = {*qoperators._UNARY, *qoperators._BINARY, "QGemm", "QLinearConcat"}
    microsoft = {qoperators.MICROSOFT + kind for kind in quantised}
    assert {*BUILDERS, *microsoft, "QLinearConv", "QLinearMatMul"} - set(KINDS) == set()


@functools.cache
def attributes_of(kind: str) -> frozenset[str]:
    """Attributes of an operator in all versions that are read."""
    found: set[str] = set()
    for version in range(7, 25):
        if "." not in kind and onnx.defs.has(kind):
            try:
                schema = onnx.defs.get_schema(kind, version)
            except onnx.defs.SchemaError:
                continue
            found |= set() if schema.deprecated else set(schema.attributes)
    return frozenset(found)


@pytest.mark.parametrize("part", range(4))
def test_every_attribute_is_drawn(part: int) -> None:
    """Each operator in networks of its own, until it had all of its attributes."""
    missing = {}
    for kind in KINDS[part::4]:
        left = set(attributes_of(kind)) - set(NOT_DRAWN.get(kind, ()))
        drawn = False
        for seed in range(DRAWN_AT_MOST):
            for one, attributes in network(seed, kind=kind, size=1).drawn:
                if one == kind:
                    drawn = True
                    left -= set(attributes)
            if drawn and not left:
                break
        if left or not drawn:
            missing[kind] = left
    assert not missing


@pytest.mark.parametrize("first", [0, 8])
def test_networks_are_right(first: int) -> None:
    """As `make operators` compares them, which runs thousands."""
    report = run_batch(list(range(first, first + 8)))
    assert report.faults == []
    assert report.networks == 8 and report.kernels > 80


def _wrong_function(context: Context, node: Node) -> None:
    node.kind = "Floor"
    BUILDERS["Floor"](context, node)


def _wrong_dilation(context: Context, node: Node) -> None:
    node.raw.attributes["dilations"] = [1, 1]
    BUILDERS_BEFORE["Conv"](context, node)


def _wrong_operand(context: Context, node: Node) -> None:
    node.kind = "Sub"
    BUILDERS_BEFORE["Sub"](context, node)


BUILDERS_BEFORE: dict[str, Builder] = dict(BUILDERS)
MISTAKES: list[tuple[str, str, Builder]] = [
    ("float", "Ceil", _wrong_function),
    ("float", "Conv", _wrong_dilation),
    ("float", "Add", _wrong_operand),
    ("qdq", "Add", _wrong_operand),
]


@pytest.mark.parametrize(("style", "kind", "wrong"), MISTAKES, ids=lambda x: getattr(x, "__name__", x))
def test_a_builder_that_reads_an_operator_wrong_is_noticed(
    style: str, kind: str, wrong: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faults(seed: int) -> list[str]:
        return compare(network(seed, style=style, kind=kind, size=2), f"s{seed}", tmp_path).faults

    assert [fault for seed in range(3) for fault in faults(seed)] == []
    monkeypatch.setitem(load.BUILDERS, kind, wrong)
    assert any(faults(seed) for seed in range(20))
