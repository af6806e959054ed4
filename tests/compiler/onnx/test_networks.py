# SPDX-License-Identifier: Apache-2.0
"""Random ONNX networks: what they draw, that they are right, and that a mistake is noticed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from core_images import MISSING
from kernel_checks import all_choices, checks_of, trace
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.onnx import load, qoperators
from mlf_sdk.compiler.onnx.classical import EXPANSIONS
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.load import BUILDERS
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.passes import improve
from onnx_models import OnnxMaker

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
from core_batches import core_faults
from onnx_comparison import compare
from onnx_drawing import network
from onnx_draws import DRAWS
from onnx_network import CLASSICAL
from onnx_operators import run_batch

Builder = Callable[[Context, Node], None]
KINDS = sorted(set().union(*DRAWS.values()))
DRAWN_AT_MOST = 60  # networks for one operator
# Attributes that no network has, and why.
_REFUSED = "refused by the reader"
_RANDOM = "of random numbers, which inference doesn't draw"
_OTHER_TYPES = "of types that no kernel has"
_STRINGS = "of strings, which networks don't have"
_DOUBLES = "of double precision"
NOT_DRAWN = {
    "ai.onnx.ml.LabelEncoder": dict.fromkeys(("default_string", "keys_strings", "values_strings"), _STRINGS),
    "ai.onnx.ml.LinearClassifier": {"classlabels_strings": _STRINGS},
    "ai.onnx.ml.OneHotEncoder": {"cats_strings": _STRINGS},
    "ai.onnx.ml.SVMClassifier": {"classlabels_strings": _STRINGS},
    "ai.onnx.ml.TreeEnsembleClassifier": {
        "classlabels_strings": _STRINGS,
        **dict.fromkeys(
            ("base_values_as_tensor", "class_weights_as_tensor", "nodes_hitrates_as_tensor", "nodes_values_as_tensor"),
            _DOUBLES,
        ),
    },
    "ai.onnx.ml.TreeEnsembleRegressor": dict.fromkeys(
        ("base_values_as_tensor", "target_weights_as_tensor", "nodes_hitrates_as_tensor", "nodes_values_as_tensor"),
        _DOUBLES,
    ),
    "BatchNormalization": {"spatial": _REFUSED},
    "Cast": {"round_mode": _OTHER_TYPES},
    "CastLike": {"round_mode": _OTHER_TYPES, "saturate": _OTHER_TYPES},
    "DequantizeLinear": {"block_size": _REFUSED, "output_dtype": _OTHER_TYPES},
    "QuantizeLinear": {"block_size": _REFUSED, "output_dtype": _OTHER_TYPES, "precision": _OTHER_TYPES},
    "Dropout": {"seed": _RANDOM},
    "GRU": dict.fromkeys(("activation_alpha", "activation_beta", "clip", "layout"), _REFUSED),
    "LSTM": dict.fromkeys(("activation_alpha", "activation_beta", "clip", "input_forget", "layout"), _REFUSED),
    "RNN": dict.fromkeys(("activation_alpha", "activation_beta", "clip", "layout"), _REFUSED),
    "Scan": {"directions": "of version 8, which is refused by the reader"},
    "Resize": {"antialias": _REFUSED, "extrapolation_value": _REFUSED},
}  # fmt: skip


def test_every_operator_that_the_reader_knows_is_drawn() -> None:
    standard = {"QLinearConv", "QLinearMatMul"}
    microsoft = {qoperators.MICROSOFT + kind for kind in {*qoperators.LAYERS, "QLinearConcat"} - standard}
    classical = EXPANSIONS.keys() - {f"{CLASSICAL}.ZipMap"}  # whose result is no tensor
    assert {*BUILDERS, *microsoft, *classical, *standard} - set(KINDS) == set()


@functools.cache
def attributes_of(kind: str) -> frozenset[str]:
    """Attributes of an operator in all versions that are read."""
    found: set[str] = set()
    if kind.startswith(CLASSICAL):
        name = kind.rpartition(".")[2]
        version = 5 if name == "TreeEnsemble" else 3
        return frozenset(onnx.defs.get_schema(name, version, CLASSICAL).attributes)
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


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
def test_depthwise_layer_of_one_window_that_is_square(tmp_path: Path) -> None:
    """Rows and columns of the window are the same number there; the compiler kept both in one register."""
    m = OnnxMaker(3)
    m.add("Conv", m.input(1, 8, 3, 2), m.weights(8, 1, 2, 2), m.weights(8), group=8, strides=[3, 1])
    graph = improve(load.load_onnx(m.save(tmp_path / "m.onnx", m.nodes[-1].output[0])))
    given = np.random.default_rng(1).uniform(-2, 2, (1, 8, 3, 2)).astype(np.float32)
    checks = checks_of("one window", graph, trace(graph, [[given]]), all_choices(core_named("cortex-m4")))
    assert any("real_depthwise" in check.label for check in checks)
    assert list(core_faults(checks, core_named("cortex-m4"), tmp_path)) == []
