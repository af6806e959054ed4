# SPDX-License-Identifier: Apache-2.0
"""Models that take frames of a time series: at every frame what TFLM makes of the whole window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agreement import Array, Tflm, runtime
from compiled_models import KernelRunner
from corpus import CORPUS
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.recurrences import AppendRows
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.rows.frames import by_frames
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.mlf.compiled import archive_of
from mlf_sdk.ir.step import Frames, frames_of
from row_networks import Build, pair
from tflite_models import Maker
from time_series import EXACT, convolutional, drawn, later_rows, strided, wake_word

FRAMES = 9  # behind the first whole window


def written(model: bytes, folder: Path) -> Graph:
    path = folder / "model.tflite"
    path.write_bytes(model)
    return load_tflite(path)


def frames_in(graph: Graph) -> Frames:
    found = frames_of({"window": ",".join(map(str, graph.window))}, graph.values[graph.inputs[0]].shape)
    assert found is not None
    return found


def check_frames(model: bytes, graph: Graph, run: Callable[[Array], Array], seed: int) -> int:
    """Compare every frame behind the first window with TFLM on the window; returns how many there were."""
    frames, oracle = frames_in(graph), Tflm(model)
    shape = list(frames.window)
    shape[frames.axis] = (frames.count + FRAMES) * frames.rows
    series = np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)

    def part(start: int, end: int) -> Array:
        return np.ascontiguousarray(np.take(series, range(start, end), axis=frames.axis))

    compared = 0
    for end in range(frames.rows, shape[frames.axis] + 1, frames.rows):
        found = run(part(end - frames.rows, end))
        if end >= frames.count * frames.rows:
            whole = part(end - frames.window[frames.axis], end)
            assert found.tobytes() == oracle.run([whole], 1)[0].tobytes(), f"at row {end}"
            compared += 1
    return compared


def kernels_of(graph: Graph, core: str, folder: Path) -> tuple[Graph, Callable[[Array], Array]]:
    """The graph by frames, and the kernels of its archive on this machine."""
    compiled = compile_graph(graph, Choice(frames=True, core=core_named(core)))
    runner = KernelRunner(archive_of(compiled), folder, exact=True)
    return compiled.graph, lambda frame: runner.run([frame])[0]


@pytest.mark.skipif(runtime is None, reason="tflite-micro is not installed")
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0"])
@pytest.mark.parametrize("build", EXACT, ids=lambda build: build.__name__)
def test_every_frame_is_what_tflm_makes_of_its_window(build: Build, core: str, tmp_path: Path) -> None:
    m = Maker(7)
    model = m.finish(build(m))
    graph, run = kernels_of(written(model, tmp_path), core, tmp_path)
    assert graph.states
    assert check_frames(model, graph, run, 5) == FRAMES + 1


@pytest.mark.skipif(runtime is None, reason="tflite-micro is not installed")
@pytest.mark.parametrize("seed", range(40))
def test_random_networks(seed: int, tmp_path: Path) -> None:
    """The reference of the graph by frames, which shares no kernel with TFLM."""
    m = Maker(seed)
    model = m.finish(drawn(m, np.random.default_rng(seed)))
    graph = by_frames(improve(written(model, tmp_path)))
    interpreter = Interpreter(graph)
    assert check_frames(model, graph, lambda frame: interpreter.run([frame])[0], seed) == FRAMES + 1


@pytest.mark.skipif(runtime is None, reason="tflite-micro is not installed")
@pytest.mark.skipif(not (CORPUS.parent / "tflite").is_dir(), reason="the models of MLPerf are not here")
def test_the_wake_word_of_mlperf(tmp_path: Path) -> None:
    path = CORPUS.parent / "tflite" / "sww_int8.tflite"
    graph, run = kernels_of(load_tflite(path), "cortex-m4", tmp_path)
    assert sum(state.initial.nbytes for state in graph.states) == 3960
    assert check_frames(path.read_bytes(), graph, run, 3) == FRAMES + 1


@pytest.mark.skipif(runtime is None, reason="tflite-micro is not installed")
@pytest.mark.parametrize("build", [wake_word, convolutional, strided], ids=lambda build: build.__name__)
def test_a_row_less_in_any_state_is_noticed(build: Build, tmp_path: Path) -> None:
    """Each state is needed to its first row: with that row's values lost, outputs differ from TFLM's."""
    m = Maker(11)
    model = m.finish(build(m))
    graph = by_frames(improve(written(model, tmp_path)))
    for number in range(len(graph.states)):
        interpreter, random = Interpreter(graph), np.random.default_rng(number)
        (writer,) = [o for o in graph.operators if isinstance(o, AppendRows) and o.state == number]
        added = graph.read(writer)[0].shape[1]

        def run(
            frame: Array,
            number: int = number,
            interpreter: Interpreter = interpreter,
            random: np.random.Generator = random,
            added: int = added,
        ) -> Array:
            found = interpreter.run([frame])[0]
            state = interpreter.states[number]
            state[:, added] = random.integers(-128, 128, state[:, 0].shape)  # the first row of the next frame
            return found

        with pytest.raises(AssertionError, match="at row"):
            check_frames(model, graph, run, 3)


def refused(build: Build, said: str, tmp_path: Path) -> None:
    m = Maker(3)
    with pytest.raises(InputError, match=said):
        by_frames(improve(written(m.finish(build(m)), tmp_path)))


def squeezed(m: Maker) -> int:
    x = m.conv(m.input((1, 12, 1, 4)), 8, (3, 1), 1, same=False)
    return m.dense(m.binary("MUL", x, m.logistic(m.pool(x, 10, largest=False))), 3)


def sequence(m: Maker) -> int:
    return m.conv(m.input((1, 12, 1, 4)), 8, (3, 1), 1, same=False)


def unequal_rates(m: Maker) -> int:
    x = m.input((1, 12, 1, 4))
    a, b = m.conv(x, 4, (2, 1), 2, same=False), m.conv(x, 4, (7, 1), 1, same=False)
    return m.dense(m.binary("ADD", a, b), 3)


def without_newest(m: Maker) -> int:
    x = m.conv(m.input((1, 13, 1, 4)), 4, (1, 1), 2, same=False)
    return m.dense(m.conv(x, 4, (3, 1), 1, same=False), 3)


def padded_later(m: Maker) -> int:
    x = m.conv(m.input((1, 12, 1, 4)), 8, (3, 1), 1, same=False)
    return m.dense(m.conv(x, 8, (3, 1), 1, same=True), 3)


def two_inputs(m: Maker) -> int:
    return m.dense(m.binary("ADD", m.input((1, 12, 1, 4)), m.input((1, 12, 1, 4))), 3)


def without_time(m: Maker) -> int:
    return m.dense(m.input((1, 12)), 3)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (pair, r"layer 0 \(CONV_2D\) pads its input in time"),
        (padded_later, r"layer 1 \(CONV_2D\) pads its input in time"),
        (squeezed, r"layer \d \(MUL\) gives each row something of the whole window"),
        (sequence, "has 10 rows of time"),
        (unequal_rates, r"\(ADD\) joins rows of different rates"),
        (without_newest, "does not read the newest rows"),
        (two_inputs, "2 inputs"),
        (without_time, "no rows of time"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_is_not_exact_is_refused(build: Build, said: str, tmp_path: Path) -> None:
    refused(build, said, tmp_path)


def test_rows_that_end_a_value_need_no_state(tmp_path: Path) -> None:
    """What a residual adds is the newest row, which is there anyway."""
    m = Maker(1)
    x = m.conv(m.input((1, 8, 1, 4)), 4, (3, 1), 1, same=False)
    y = m.conv(x, 4, (2, 1), 1, same=False)
    model = m.finish(m.dense(m.binary("ADD", y, later_rows(m, x, 5)), 2))
    graph = by_frames(improve(written(model, tmp_path)))
    assert [state.shape for state in graph.states] == [(1, 3, 1, 4), (1, 2, 1, 4), (1, 5, 1, 4)]
