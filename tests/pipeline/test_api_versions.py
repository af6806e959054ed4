# SPDX-License-Identifier: Apache-2.0
"""Hand-made archives of every version and executor: deployed, run, equal to numpy, memory as promised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from archives import Spec, build, reference, sample, write
from image_runs import assert_memory, run_all
from mlf_sdk.codegen.lock import LockModel, read_lock
from mlf_sdk.judge.execute import Execution

Once = Callable[[str, Callable[[Path], None]], Path]
# Names of C functions carry their module's name from version 3 on: what TVM's ahead-of-time executor
# builds on; the style "operator" came with version 4.
FIRST = {"graph": 1, "aot-c": 3, "aot-packed": 3, "operator": 4}
SPECS = [
    Spec(name=f"{kind.replace('-', '_')}_{version}_{dtype}", kind=kind, version=version, dtype=dtype)
    for kind, first in FIRST.items()
    for version in range(first, 8)
    for dtype in ("float32", "int8")
]


def archive(spec: Spec, path: Path) -> Path:
    """The archive; ahead of time with relay text that tells the types, as TVM's does."""
    files = build(spec)
    tensor = f"Tensor[(1, 8), {spec.dtype}]"
    if spec.kind.startswith("aot"):
        (member,) = [name for name in files if name.startswith("src/")]
        files[member] = f"def @main(%x: {tensor}) -> {tensor} {{\n  nn.relu(%x)\n}}\n".encode()
    return write(files, path)


def given(spec: Spec) -> np.ndarray:
    return sample(spec).reshape(8) if spec.kind == "operator" else sample(spec)


def make(board: str) -> Callable[[Path], None]:
    def generate(folder: Path) -> None:
        archives = [archive(spec, folder / f"{spec.name}.tar") for spec in SPECS]
        mlf_sdk.generate(archives, folder / "project", board=board)

    return generate


def runs(folder: Path) -> dict[str, tuple[LockModel, Execution]]:
    """All of them, in one image and one session, by the model's name."""
    done = run_all(folder, [[given(spec)] for spec in SPECS])
    lock = read_lock(folder)
    assert mlf_sdk.check(folder).ok
    return {model.name: (model, execution) for model, execution in zip(lock.models, done, strict=True)}


@pytest.fixture(scope="module")
def on_host(once: Once, needs_host: None) -> dict[str, tuple[LockModel, Execution]]:
    return runs(once("versions-host", make("host")) / "project")


@pytest.fixture(scope="module")
def on_board(once: Once, needs_qemu: None) -> dict[str, tuple[LockModel, Execution]]:
    return runs(once("versions-board", make("mps2-an386")) / "project")


def verify(spec: Spec, run: tuple[LockModel, Execution]) -> None:
    model, execution = run
    (output,) = execution.outputs
    wanted = reference(spec, given(spec))
    np.testing.assert_array_equal(output.reshape(wanted.shape), wanted)
    assert wanted.any(), "the sample must give more than zeros"
    assert (model.format_version, output.dtype) == (str(spec.version), wanted.dtype)
    assert all(step.exact for step in model.steps)
    assert_memory(model, execution)


@pytest.mark.toolchain
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_on_the_host(on_host: dict[str, tuple[LockModel, Execution]], spec: Spec) -> None:
    verify(spec, on_host[spec.name])


@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_on_a_board(on_board: dict[str, tuple[LockModel, Execution]], spec: Spec) -> None:
    verify(spec, on_board[spec.name])


ALONE = [
    Spec(version=1),
    Spec(version=2, dtype="int8"),
    Spec(version=3, kind="aot-c"),
    Spec(version=4, kind="operator"),
    Spec(version=5, kind="aot-packed", dtype="int8"),
    Spec(version=6, nop=True),
    Spec(version=7, kind="aot-c", dtype="int8"),
]


@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("spec", ALONE, ids=lambda spec: f"v{spec.version}-{spec.kind}")
def test_one_call_for_one_archive(tmp_path: Path, needs_qemu: None, spec: Spec) -> None:
    x = given(spec)
    report = mlf_sdk.run(
        archive(spec, tmp_path / "tiny.tar.gz"),
        board="mps2-an386",
        inputs={"0": np.stack([x, x // 2])},
        expect={
            "0": np.stack([reference(spec, v).reshape(-1) for v in (x, x // 2)]).reshape(
                2, *output_shape(spec)
            )
        },
    )
    assert report.ok
    assert report.compare is not None and report.compare.max_abs == 0.0
    assert report.inferences == 2
    assert report.instructions is not None and 50 < report.instructions < 20_000
    assert (
        report.memory.arena_high_water_bytes == report.memory.arena_bytes == report.memory.lower_bound_bytes
    )
    assert report.memory.stack_high_water_bytes is not None
    assert 0 < report.memory.stack_high_water_bytes < 2048


def output_shape(spec: Spec) -> tuple[int, ...]:
    return (8,) if spec.kind == "operator" else spec.output_shape
