# SPDX-License-Identifier: Apache-2.0
"""Layers as kernels see them: one form for all kinds, sums within their bounds, requantisations found once."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.kernels import layer_sums, rescale
from mlf_sdk.compiler.kernels.contraction import Contraction, Kind
from mlf_sdk.compiler.kernels.rescale import Form, choose_fine, choose_rescale
from mlf_sdk.compiler.operators import (
    UNLIMITED,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Layer,
    TransposeConv,
    Window,
)
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.schedule import Choice, alternatives, candidates
from mlf_sdk.errors import InputError
from one_operator import Values, fields

WINDOW = Window(size=(3, 2), stride=(1, 1), before=(1, 0))
# Shapes of the input, of the weights and of the output.
SHAPES = {
    Kind.CONVOLUTION: ((1, 4, 5, 3), (7, 3, 2, 3), (1, 4, 4, 7)),
    Kind.DEPTHWISE: ((1, 4, 5, 3), (1, 3, 2, 6), (1, 4, 4, 6)),
    Kind.TRANSPOSED: ((1, 4, 5, 3), (7, 3, 2, 3), (1, 5, 6, 7)),
    Kind.DENSE: ((2, 3, 5), (7, 15), (2, 7)),
}


def layer_of(kind: Kind, dtype: str = "int8", unsigned: bool = False, **changes: Any) -> Contraction:
    """A layer of random weights; ``changes``: shapes by the names ``read``, ``shape``, ``written``."""
    read, shape, written = (
        changes.get(name, usual)
        for name, usual in zip(("read", "shape", "written"), SHAPES[kind], strict=True)
    )
    v = Values()
    data = v.random.integers(-127, 128, shape)
    x = v.add(dtype, read, 0.05, 11)
    weights = (
        v.add("uint8", shape, 0.02, 100, data + 127) if unsigned else v.add("int8", shape, 0.02, 0, data)
    )
    channels = written[-1]
    bias = v.add("int32", (channels,), data=v.random.integers(-900, 900, channels))
    inputs, y = (x, weights, bias), v.add("int8", written, 0.3, 7)
    operator: Layer
    if kind is Kind.DENSE:
        operator = FullyConnected(**fields(inputs, y), clamp=(-128, 127))
    elif kind is Kind.DEPTHWISE:
        operator = DepthwiseConv2D(
            **fields(inputs, y),
            window=WINDOW,
            multiplier=written[-1] // read[-1],
            clamp=(-128, 127),
        )
    else:
        make = Conv2D if kind is Kind.CONVOLUTION else TransposeConv
        operator = make(**fields(inputs, y), window=changes.get("window", WINDOW), clamp=(-128, 127))
    return Contraction.of(v.graph(operator), operator)


def test_one_form_of_all_kinds() -> None:
    found = {kind: layer_of(kind) for kind in SHAPES}
    assert {kind: layer.kind for kind, layer in found.items()} == {kind: kind for kind in SHAPES}
    assert {kind: layer.rows.shape for kind, layer in found.items()} == {
        Kind.CONVOLUTION: (7, 18),
        Kind.DEPTHWISE: (6, 6),
        Kind.TRANSPOSED: (7, 18),
        Kind.DENSE: (7, 15),
    }
    assert [layer.depth for layer in found.values()] == [3, 1, 3, 15]
    dense = found[Kind.DENSE]
    assert (dense.x.shape, dense.y.shape) == ((1, 1, 2, 15), (1, 1, 2, 7))
    assert dense.window.is_pointwise(dense.x.shape, dense.y.shape)
    assert found[Kind.DEPTHWISE].multiplier == 2


def test_rows_of_depthwise_weights() -> None:
    """Those of a channel lie apart in the model."""
    layer = layer_of(Kind.DEPTHWISE)
    assert (layer.rows[4] == layer.weights.constant[0, :, :, 4].reshape(-1)).all()


@pytest.mark.parametrize(("kind", "unsigned"), list(product(SHAPES, (False, True))))
def test_sums_stay_within_their_bounds(kind: Kind, unsigned: bool) -> None:
    """And reach them: with the largest inputs where weights are positive, the smallest where they are not."""
    layer = layer_of(kind, unsigned=unsigned)
    weights = layer.rows.astype(np.int64) - layer.weights.zero_point
    ends = np.array([-128 - 11, 127 - 11])
    for end, signs in ((1, weights > 0), (0, weights < 0)):
        inputs = np.where(signs, ends[1], ends[0])
        assert (layer.bounds[:, end] == (weights * inputs).sum(axis=1) + layer.bias).all()


@pytest.mark.parametrize("unsigned", [False, True])
def test_sums_start_with_what_the_zero_point_contributes(unsigned: bool) -> None:
    layer = layer_of(Kind.CONVOLUTION, unsigned=unsigned)
    weights = layer.rows.astype(np.int64) - layer.weights.zero_point
    rescale = layer.rescale()
    assert rescale is not None and not rescale.is_fine and not rescale.constant.any()
    assert (layer.starts(rescale) == layer.bias - 11 * weights.sum(axis=1)).all()
    fine = layer.rescale(fine=True)
    assert fine is not None and fine.is_fine
    assert (layer.starts(fine) == 256 * (layer.bias - 11 * weights.sum(axis=1))).all()


def test_layers_of_bytes() -> None:
    """One image, constant weights, no groups; weights without sign where that is asked for."""
    assert all(layer_of(kind).is_int8() for kind in SHAPES)
    unsigned = layer_of(Kind.CONVOLUTION, unsigned=True)
    assert not unsigned.is_int8() and unsigned.is_int8(unsigned=True)
    assert not layer_of(Kind.CONVOLUTION, "int16").is_int8(unsigned=True)
    images = layer_of(Kind.CONVOLUTION, read=(2, 4, 5, 3), written=(2, 4, 4, 7))
    assert not images.is_int8()
    groups = layer_of(Kind.CONVOLUTION, read=(1, 4, 5, 6), shape=(8, 3, 2, 3), written=(1, 4, 4, 8))
    assert groups.is_grouped and not groups.is_int8()
    assert not layer_of(Kind.DENSE).is_one_pixel
    assert layer_of(Kind.DENSE, read=(1, 15), written=(1, 7)).is_one_pixel


def test_weights_that_are_computed_fit_no_kernel_of_constant_ones() -> None:
    for dtype in ("int8", "float32"):
        v = Values()
        inputs, y = (v.add(dtype, (1, 15), 0.1), v.add(dtype, (7, 15), 0.1)), v.add(dtype, (1, 7), 0.1)
        operator = FullyConnected(**fields(inputs, y), clamp=UNLIMITED if dtype == "float32" else (-128, 127))
        layer = Contraction.of(v.graph(operator), operator)
        assert not layer.is_constant and not layer.is_int8(unsigned=True)
        with pytest.raises(InputError, match="known only at run time"):
            list(candidates(layer.graph, layer.operator, Choice(goal=Goal.SIZE)))


def test_words_for_the_sums_of_all_channels() -> None:
    layer = layer_of(Kind.DENSE)
    assert layer.has_one_scale
    one = layer.fine_of_all()
    assert one is not None and len(one.rows) == 1
    widest = layer.widest
    assert (widest[0, 0], widest[0, 1]) == (layer.bounds[:, 0].min(), layer.bounds[:, 1].max())

    found = layer.rescale_of_all(choose_rescale)
    assert found is not None and len({*map(tuple, found.rows.tolist())}) == 1


def test_layers_share_a_shift_and_so_their_code() -> None:
    """Although another one would lose fewer bits: what each layer takes is exact. Others keep their own."""
    convolution = layer_of(Kind.CONVOLUTION).rescale(fine=True)
    assert convolution is not None and (convolution.form, convolution.shift) == (Form.SIGNED, 15)
    layer = layer_of(Kind.DENSE)
    own, shared = choose_fine(layer.sums), layer.rescale(fine=True)
    assert own is not None and shared is not None
    assert own.shift > shared.shift == 12
    assert own.form is shared.form is Form.FINE


def test_sums_at_which_results_begin_are_searched_once_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although each tile of a convolution asks for a requantisation."""
    calls = []
    monkeypatch.setattr(rescale, "_KEPT", {})
    search = layer_sums.result_starts
    monkeypatch.setattr(layer_sums, "result_starts", lambda *given: calls.append(given) or search(*given))
    layer = layer_of(Kind.CONVOLUTION, written=(1, 4, 4, 8), shape=(8, 3, 2, 3))
    choice = Choice(core=core_named("cortex-m4"), goal=Goal.SPEED)
    kernels = list(candidates(layer.graph, layer.operator, choice))
    assert len(kernels) > 2 and len(calls) == 1
    calls.clear()
    assert len(alternatives(layer.graph, layer.operator, choice)) > 5
    assert len(calls) == 1
