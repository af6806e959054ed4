# SPDX-License-Identifier: Apache-2.0
"""Entries of ahead-of-time models as steps, run: all interfaces in one image, as steps and as compiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from aot_mains import INTERFACES, build_aot, reference
from archives import write
from image_runs import assert_promises, run_all
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import TargetError
from mlf_sdk.frontends import aotsteps
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request

X = np.array([[1.0, -2.0, 3.5, 4.0, -5.0, 6.0, 0.0, 8.0]], dtype=np.float32)

pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("aot")
    return [write(build_aot(name, name), folder / f"{name}.tar") for name in INTERFACES]


@pytest.mark.parametrize(
    ("board", "plan", "as_compiled"),
    [
        ("host", "none", False),
        ("host", "shared", True),
        pytest.param("mps2-an386", "shared", False, marks=pytest.mark.qemu),
    ],
)
def test_all_interfaces(
    tmp_path: Path, sources: list[Path], board: str, plan: str, as_compiled: bool
) -> None:
    folder = tmp_path / "app"
    mlf_sdk.generate(sources, folder, board=board, plan=plan, as_compiled=as_compiled)
    lock = read_lock(folder)
    assert [len(model.steps) for model in lock.models] == [1 if as_compiled else 5] * len(INTERFACES)
    assert lock.options.as_compiled is as_compiled
    done = run_all(folder, [[X]] * len(INTERFACES))
    for model, execution in zip(lock.models, done, strict=True):
        assert execution.outputs[0].reshape(X.shape).tolist() == reference(X).tolist(), model.name
    if not as_compiled and plan == "shared":
        assert_promises(folder, lock, done)


def test_the_twin_runs_main_itself(sources: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that are not what main does are found out by the entry, which shares nothing with them."""
    request = Request(source=(str(sources[1]),), board="mps2-an386", inputs={"x": X[None]})
    twin, why = Pipeline().host_twin(request)
    assert twin is not None, why
    assert next(iter(twin.outputs.values())).reshape(X.shape).tolist() == reference(X).tolist()
    right = aotsteps.read_calls

    def wrong(*arguments: object) -> aotsteps.CallList:
        """The calls of main, of which the last takes what half left in place of the sums."""
        found = right(*arguments)  # type: ignore[arg-type]
        calls = [found.calls[i] for i in (0, 1, 2, 3, 1, 4)]
        return aotsteps.CallList(calls=tuple(calls), workspaces=found.workspaces)

    monkeypatch.setattr(aotsteps, "read_calls", wrong)
    with pytest.raises(TargetError, match="its steps give other outputs than its main function"):
        Pipeline().host_twin(request)


def test_a_kernel_that_counts_its_runs(tmp_path: Path) -> None:
    """Measurements are no runs before the first: its outputs are those of a model that never ran."""
    counting = {"((float*)x)[i] * 0.5f": "((float*)x)[i] * 0.5f + count", "void* x, void* y) {\n  for (int32_t i = 0; i < 8": "void* x, void* y) {\n  static float count = 0.0f;\n  count = count + 1.0f;\n  for (int32_t i = 0; i < 8"}  # fmt: skip
    source = write(build_aot("c", "tiny", counting), tmp_path / "tiny.tar")
    report = mlf_sdk.run(source, board="host", inputs={"x": np.stack([X, X, X])})
    (outputs,) = report.outputs.values()
    wanted = [reference(X) + 4.0 * run for run in (1, 2, 3)]
    assert outputs.reshape(3, *X.shape).tolist() == np.stack(wanted).tolist()
