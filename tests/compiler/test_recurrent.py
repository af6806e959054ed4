# SPDX-License-Identifier: Apache-2.0
"""LSTM layers: several runs of one state against TFLM, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agreement import agree
from core_images import MISSING, run_on_core
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.cores import Core, core_named
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.reference.stored import logistic, sigmoid_table, tanh
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import ArchiveError
from onnx_models import OnnxMaker
from recurrent_models import lstm
from tflite_models import Maker, TensorSpec


@pytest.mark.parametrize("kind", ["int8", "int16", "float32"])
@pytest.mark.parametrize("seed", range(2))
def test_an_lstm(kind: str, seed: int, tmp_path: Path) -> None:
    shape = ((1, 4, 9), (2, 3, 6))[seed]
    model = lstm(seed, kind, shape=shape, units=7 - seed, time_major=bool(seed), clip=(0.0, 1.5)[seed])
    agree(model, tmp_path, seed, runs=3)


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
@pytest.mark.parametrize(
    "core",
    [core_named("cortex-m0"), core_named("cortex-m4"), core_named("cortex-m55")],
    ids=lambda c: c.name,
)
def test_an_lstm_on_cores(core: Core, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    for kind, size in (("int8", 9), ("int16", 6)):
        path.write_bytes(lstm(1, kind, shape=(1, 3, size), units=7))
        assert run_on_core(compile_graph(load_tflite(path), Choice(core=core)), core, tmp_path, 3)


def test_batches_before_steps(tmp_path: Path) -> None:
    agree(lstm(5, shape=(2, 3, 5), units=4, clip=10.0), tmp_path, 5, runs=2)


def test_a_hybrid_lstm(tmp_path: Path) -> None:
    def stored(m: Maker, _: list[int]) -> None:
        for tensor in weights(m):
            assert tensor.data is not None
            tensor.data, tensor.dtype = np.rint(tensor.data * 60).astype(np.int8), "int8"
            tensor.scale, tensor.zero_point = (1 / 64,), (0,)

    def real(m: Maker, _: list[int]) -> None:
        for tensor in weights(m):
            assert tensor.data is not None
            tensor.data = (np.rint(tensor.data * 60) / 64).astype(np.float32)

    def weights(m: Maker) -> list[TensorSpec]:
        return [t for t in m.spec.tensors if t.name in {f"w{n}" for n in range(8)}]

    agree(lstm(1, "float32", change=real), tmp_path, 1)
    plain = Interpreter(load_tflite(tmp_path / "model.tflite"))
    (tmp_path / "hybrid.tflite").write_bytes(lstm(1, "float32", change=stored))
    hybrid = Interpreter(load_tflite(tmp_path / "hybrid.tflite"))
    given = [np.random.default_rng(1).normal(size=(1, 4, 9)).astype(np.float32)]
    np.testing.assert_array_equal(hybrid.run(given)[0], plain.run(given)[0])


def test_functions_of_16_bits() -> None:
    """Near the real functions everywhere, odd about their centre, and monotonic."""
    table = sigmoid_table()
    assert (table[0], table[255]) == (32768, 65535) and (np.diff(table.astype(int)) >= 0).all()
    x = np.arange(-(1 << 15), 1 << 15)
    for function, exact in ((logistic, 1 / (1 + np.exp(-x / 4096))), (tanh, np.tanh(x / 4096))):
        found = function(x, 0, 0)
        assert np.abs(found / 32768 - exact).max() < 1.2e-4
        assert (np.diff(found) >= 0).all()


def _set(position: int, **fields: object) -> Callable[[Maker, list[int]], None]:
    def change(m: Maker, inputs: list[int]) -> None:
        tensor: TensorSpec = m.spec.tensors[inputs[position]]
        for name, field in fields.items():
            setattr(tensor, name, field)

    return change


def _put(position: int, like: int) -> Callable[[Maker, list[int]], None]:
    def change(_: Maker, inputs: list[int]) -> None:
        inputs[position] = -1 if like < 0 else inputs[like]

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_put(9, 12), "peephole connections; a plain LSTM is supported"),
        (_put(16, 1), "a projection; a plain"),
        (_put(21, 12), "layer normalisation; a plain"),
        (_put(1, -1), "a weight, bias or state is absent"),
        (lambda _, inputs: inputs.pop(), "has 23 inputs; 24 are needed"),
        (_set(19, scale=(0.001,)), "must be a power of two"),
        (_set(18, scale=(0.001,)), "hidden value and output differ"),
        (_set(1, zero_point=(3,)), "a zero point other than 0"),
        (_set(3, data=None), "nothing has written before"),
        (_set(18, shape=(3, 7)), r"the state 'hidden' of shape \(3, 7\) for 1 times 7 units"),
        (_set(12, dtype="int64", data=np.zeros(7, np.int64)), "biases of type int32, int64"),
    ],
)
def test_what_is_refused(change: Callable[[Maker, list[int]], None], says: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(lstm(1, change=change))
    with pytest.raises(ArchiveError, match=rf"operator 0 UNIDIRECTIONAL_SEQUENCE_LSTM \('y'\): .*{says}"):
        load_tflite(path)


def test_files_of_one_network_have_the_same_kernels(tmp_path: Path) -> None:
    """An LSTM of real numbers from TensorFlow Lite and from ONNX: the same functions, the same constants."""
    tensors: dict[str, TensorSpec] = {}

    def kept(m: Maker, _: list[int]) -> None:
        tensors.update({t.name: t for t in m.spec.tensors})

    (tmp_path / "m.tflite").write_bytes(lstm(3, "float32", shape=(4, 1, 9), time_major=True, change=kept))
    m, order = OnnxMaker(), (0, 3, 1, 2)  # input, output, forget, cell

    def stacked(names: list[str]) -> str:
        return m.constant(np.concatenate([np.asarray(tensors[name].data) for name in names])[None])

    weights = [stacked([f"w{first + gate}" for gate in order]) for first in (0, 4)]
    biases = np.concatenate([np.asarray(tensors[f"b{gate}"].data) for gate in order])
    given = (m.input(4, 1, 9), *weights, m.constant(np.concatenate([biases, np.zeros_like(biases)])[None]))
    y = m.add("LSTM", *given, hidden_size=7)
    found = [
        compile_graph(graph, Choice())
        for graph in (load_tflite(tmp_path / "m.tflite"), load_onnx(m.save(tmp_path / "m.onnx", y)))
    ]
    kernels = [
        [
            o.kernel
            for o in one.operators
            if o.kernel is not None and o.kernel.family in ("real_dense", "lstm")
        ]
        for one in found
    ]
    assert [len(one) for one in kernels] == [2, 2]
    for ours, theirs in zip(*kernels, strict=True):
        assert (ours.key, ours.content) == (theirs.key, theirs.content)
