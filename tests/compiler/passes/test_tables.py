# SPDX-License-Identifier: Apache-2.0
"""Chains of functions of a byte become one table with the reference's results."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mlf_sdk.compiler.operators import Map, Reshape, Table
from mlf_sdk.compiler.passes import compose_tables
from pass_checks import changed, graph_of
from tflite_models import Maker

SHAPE = (1, 5, 4, 3)


def swish_of_bytes(m: Maker, x: int) -> int:
    """DEQUANTIZE, x * LOGISTIC(x) with a factor, QUANTIZE."""
    real = [m.spec.tensor(f"real{len(m.spec.tensors)}", "float32", SHAPE) for _ in range(4)]
    factor = m.spec.tensor("factor", "float32", (1,), data=np.array([0.7], np.float32))
    product = ("MulOptions", {"FusedActivationFunction": 0})
    m.spec.add("DEQUANTIZE", (x,), real[0])
    m.spec.add("LOGISTIC", (real[0],), real[1])
    m.spec.add("MUL", (real[0], real[1]), real[2], product)
    m.spec.add("MUL", (real[2], factor), real[3], product)
    return m.spec.add("QUANTIZE", (real[3],), m.activation(SHAPE))


def test_real_functions_between_bytes_are_one_table(tmp_path: Path) -> None:
    """Also where they meet again, and multiply by a constant."""
    m = Maker(1)
    before = graph_of(m.finish(swish_of_bytes(m, m.input(SHAPE))), tmp_path)
    assert len(before.operators) == 5
    (table,) = changed(before).operators
    assert isinstance(table, Table)
    assert table.kind == "MUL"
    assert np.unique(table.results).size > 10


def test_a_byte_that_others_read_ends_a_chain(tmp_path: Path) -> None:
    m = Maker(2)
    first = swish_of_bytes(m, m.input(SHAPE))
    second = m.spec.add("QUANTIZE", (first,), m.activation(SHAPE))
    third = m.spec.add("QUANTIZE", (second,), m.activation(SHAPE))
    after = changed(graph_of(m.finish(third, first), tmp_path))
    assert [type(one) for one in after.operators] == [Table, Table]
    assert after.operators[1].inputs == after.operators[0].outputs


def test_a_function_that_changes_no_value_that_occurs_is_left_out(tmp_path: Path) -> None:
    """RELU behind a layer that gives nothing below zero; the output keeps its name."""
    m = Maker(3)
    layer = m.conv(m.input(SHAPE), 8, (1, 1), 1, same=True, activation=1)
    positive = m.spec.add("RELU", (layer,), m.same_scale(layer, m.spec.tensors[layer].shape))
    after = changed(graph_of(m.finish(positive), tmp_path))
    assert [o.kind for o in after.operators] == ["CONV_2D"]
    assert after.values[after.outputs[0]].name == m.spec.tensors[positive].name


def test_the_same_function_behind_a_layer_without_limits_stays(tmp_path: Path) -> None:
    m = Maker(4)
    layer = m.conv(m.input(SHAPE), 8, (1, 1), 1, same=True)
    m.spec.tensors[layer].zero_point = (0,)
    positive = m.spec.add("RELU", (layer,), m.same_scale(layer, m.spec.tensors[layer].shape))
    after = changed(graph_of(m.finish(positive), tmp_path))
    assert [type(o) for o in after.operators[1:]] == [Map]


def test_an_output_that_is_an_input_stays_a_copy(tmp_path: Path) -> None:
    m = Maker(5)
    x = m.input(SHAPE)
    y = m.spec.add("QUANTIZE", (x,), m.same_scale(x, SHAPE))
    after = changed(graph_of(m.finish(y), tmp_path), compose_tables)
    assert [type(o) for o in after.operators] == [Reshape]
    assert after.inputs != after.outputs
