# SPDX-License-Identifier: Apache-2.0
"""Operators that keep part of a stream: over the runs, reference, kernels and TFLM give the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agreement import Tflm, agree, runtime
from compiled_models import KernelRunner
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import ArchiveError
from mlf_sdk.frontends.mlf.compiled import archive_of
from signal_models import circular_buffer, one

Array = np.ndarray[Any, np.dtype[Any]]
RUNS = 9
Answer = Callable[[list[Array]], list[Array]]


def agree_where_valid(model: bytes, folder: Path, valid: list[bool]) -> None:
    """Compare runs of which the second output tells whether the first one counts.

    Raises:
        AssertionError: answers differ, or others than those of ``valid`` count.
    """
    path = folder / "m.tflite"
    path.write_bytes(model)
    graph = load_tflite(path)
    runner = KernelRunner(archive_of(compile_graph(graph, Choice())), folder, exact=True)
    answers: list[Answer] = [Interpreter(graph).run, runner.run]
    if runtime is not None:
        oracle = Tflm(model)
        answers.append(lambda inputs: oracle.run(inputs, 2))
    random = np.random.default_rng(3)
    shape = graph.values[graph.inputs[0]].shape
    for wanted in valid:
        x = random.integers(-100, 100, shape).astype(graph.values[graph.inputs[0]].dtype)
        found = [answer([x]) for answer in answers]
        assert [bool(one[1].reshape(-1)[0]) for one in found] == [wanted] * len(found)
        if wanted:
            for others in found[1:]:
                np.testing.assert_array_equal(others[0].reshape(-1), found[0][0].reshape(-1))


@pytest.mark.parametrize(("shape", "length"), [((4,), 6), ((2, 5), 3), ((3, 2, 4), 4), ((3,), 0)])
def test_a_delay(shape: tuple[int, ...], length: int, tmp_path: Path) -> None:
    agree(one("Delay", [("int16", shape)], ("int16", shape), delay_length=length), tmp_path, 0, runs=RUNS)


@pytest.mark.parametrize(
    ("shape", "size", "step", "prefill", "invalid"),
    [
        ((4,), 10, 4, False, 2), ((4,), 10, 4, True, 0), ((6,), 5, 2, False, 1), ((2, 8), 8, 4, False, 1),
        ((2, 6), 7, 3, True, 0), ((6,), 2, 3, False, 0), ((3,), 3, 3, False, 0), ((3,), 3, 3, True, 0),
    ],
)  # fmt: skip
def test_frames(
    shape: tuple[int, ...], size: int, step: int, prefill: bool, invalid: int, tmp_path: Path
) -> None:
    """Frames longer and shorter than steps; without zeros in front, the first runs do not count."""
    y = (*shape[:-1], shape[-1] // step, size)
    options = {"frame_size": size, "frame_step": step, "prefill": prefill}
    model = one("Framer", [("int16", shape)], ("int16", y), ("bool", ()), **options)
    agree_where_valid(model, tmp_path, [run >= invalid for run in range(RUNS)])


@pytest.mark.parametrize(("left", "right", "step"), [(1, 1, 2), (2, 0, 3), (0, 2, 1), (3, 1, 1), (0, 0, 1)])
def test_a_stack_of_frames(left: int, right: int, step: int, tmp_path: Path) -> None:
    names = ("num_channels", "stacker_left_context", "stacker_right_context", "stacker_step")
    options = dict(zip(names, (5, left, right, step), strict=True))
    y = ("int16", (5 * (left + right + 1),))
    model = one("Stacker", [("int16", (5,))], y, ("bool", ()), **options)
    valid = [run >= right and (run - right) % step == 0 for run in range(RUNS)]
    agree_where_valid(model, tmp_path, valid)


@pytest.mark.parametrize(("shape", "step"), [((1, 6), 4), ((3, 6), 2), ((2, 3, 4), 1), ((2, 4), 4)])
@pytest.mark.parametrize(("dtype", "number"), [("int16", 7), ("float32", 0)])
def test_frames_that_overlap_are_added(
    shape: tuple[int, ...], step: int, dtype: str, number: int, tmp_path: Path
) -> None:
    """Sums of int16 samples of the whole range are limited after each frame."""
    y = (*shape[:-2], shape[-2] * step)
    model = one("OverlapAdd", [(dtype, shape)], (dtype, y), T=number, frame_step=step)
    agree(model, tmp_path, 0, runs=RUNS)


@pytest.mark.parametrize("slots", [1, 2, 5])
@pytest.mark.parametrize("period", [1, 2, 3])
def test_a_circular_buffer(slots: int, period: int, tmp_path: Path) -> None:
    """The buffer is full of zero points at first, and tells once a period."""
    agree_where_valid(
        circular_buffer(slots, period, two=True),
        tmp_path,
        [run % period == period - 1 for run in range(RUNS)],
    )


def test_a_circular_buffer_of_the_last_layer(tmp_path: Path) -> None:
    """Without a stated period, the number of slots gives it, as in TFLM."""
    agree(circular_buffer(5, 0, two=False), tmp_path, 0, runs=RUNS)


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (circular_buffer(6, 0, two=False), "it ends 1 of 2 runs of the model before what is behind it"),
        (circular_buffer(6, 3, two=False), "set its cycles_max to 1"),
        (one("Delay", [("int16", (4,))], ("int16", (5,)), delay_length=2), "is stated with shape"),
        (one("OverlapAdd", [("int16", (2, 4))], ("int16", (4,)), T=7, frame_step=5), "from 1 to 4 is needed"),
        (one("OverlapAdd", [("int16", (4,))], ("int16", (4,)), T=7, frame_step=4), "frames of samples"),
        (one("OverlapAdd", [("int32", (2, 4))], ("int32", (4,)), T=2, frame_step=2), "the type 2"),
        (
            one("Framer", [("int16", (5,))], ("int16", (2, 3)), ("bool", ()), frame_size=3, frame_step=2, prefill=True),
            "frames of 3 samples every 2 of 5",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(model: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(model)
    with pytest.raises(ArchiveError) as caught:
        load_tflite(path)
    assert what in str(caught.value)
