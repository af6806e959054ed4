# SPDX-License-Identifier: Apache-2.0
"""Real archives on an emulated Cortex-M4F: outputs, host twin, memory. `make proof` runs all archives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from mlf_sdk.errors import InputError

SHARED_MLF = Path(__file__).resolve().parents[3] / "shared" / "mlf"
BOARD = "mps2-an386"
NEED_CMSIS_NN = ("graphm7", "aotcm7", "cmsisnn")
PATHS = sorted(SHARED_MLF.rglob("*.tar")) if SHARED_MLF.is_dir() else []
Arrays = dict[str, np.ndarray[Any, Any]]

pytestmark = [pytest.mark.shared, pytest.mark.toolchain, pytest.mark.qemu, pytest.mark.slow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One module of an archive, and which npz file has its inputs and outputs."""

    path: Path
    kind: str
    data: str
    module: str | None = None

    def __str__(self) -> str:
        return f"{self.path.stem}:{self.module}" if self.module else self.path.stem


def deployments() -> list[Deployment]:
    found = []
    for path in PATHS:
        model, *rest = path.stem.split("-")
        if model.startswith("multi_"):
            modules = model.removeprefix("multi_").split("_")
            found += [Deployment(path=path, kind="multi", data=m, module=m) for m in modules]
        elif model == "operator":
            found.append(Deployment(path=path, kind="operator", data=""))
        else:
            found.append(Deployment(path=path, kind=rest[0], data=model))
    return found


DEPLOYMENTS = deployments()
# Built without a C host target: the main function lies in a module that the export leaves out.
NO_MAIN = [d for d in DEPLOYMENTS if d.kind in ("aot", "aotc") and d.path.stem.endswith("-tvm0.8.0")]
RUNS = [d for d in DEPLOYMENTS if d.kind not in NEED_CMSIS_NN and d not in NO_MAIN]
# Kinds that each model runs as: each kind of each version of TVM once or twice, and each model.
KINDS = {
    "ad_int8": ("graphlp-tvm0.11.1",),
    "conv1d": ("aot-tvm0.11.1", "graphlp-tvm0.8.0", "llvmgraph-tvm0.11.1", "llvmgraph-tvm0.8.0"),
    "digits": ("graph-tvm0.11.1",),
    "kws_int8": ("aotc-tvm0.11.1",),
    "resnet8_int8": ("aotusmp-tvm0.11.1",),
    "two_in_two_out": ("aotc-tvm0.11.1", "graph-tvm0.8.0", "usmp-tvm0.11.1"),
    "vww_int8": ("aotc-tvm0.11.1",),
}
RUN = [
    d
    for d in RUNS
    if d.kind in ("multi", "operator") or d.path.stem in {f"{d.data}-{k}" for k in KINDS[d.data]}
]
REFUSED = [d for d in DEPLOYMENTS if d.kind in NEED_CMSIS_NN]
MISSING = [pytest.param(None, id="no-archives")]


def arrays_of(deployment: Deployment) -> tuple[Arrays, Arrays]:
    """Inputs and outputs as the README beside the archives describes them."""
    if deployment.kind == "operator":
        value = np.linspace(-3, 5, 8, dtype=np.float32)
        return {"0": value}, {"0": 2 * value}
    if deployment.data == "digits":
        data = np.load(SHARED_MLF / "digits" / "test.npz")
        return {"image": data["image"][:5]}, {"0": data["logits"][:5], "label": data["label"][:5]}
    data = np.load(SHARED_MLF / f"{deployment.data}.npz")
    if any(key.startswith("A::") for key in data):
        names = [key.removeprefix("A::in::") for key in data if key.startswith("A::in::")]
        inputs = {name: np.concatenate([data[f"{p}::in::{name}"] for p in "AB"]) for name in names}
        return inputs, {"0": np.concatenate([data[f"{p}::tvm::0"] for p in "AB"])}
    return (
        {key.removeprefix("in::"): data[key] for key in data if key.startswith("in::")},
        {key.removeprefix("out::"): data[key] for key in data if key.startswith("out::")},
    )


def test_every_kind_is_there(shared_mlf: Path) -> None:
    assert {d.kind for d in DEPLOYMENTS} == {
        *("graph", "graphlp", "llvmgraph", "aot", "aotc", "usmp", "aotusmp", "multi", "operator"),
        *NEED_CMSIS_NN,
    }
    assert len(RUNS) > 30 and len(REFUSED) > 6 and len(NO_MAIN) == 5
    assert {(d.kind, d.path.stem.rpartition("-")[2]) for d in RUN} == {
        (d.kind, d.path.stem.rpartition("-")[2]) for d in RUNS
    }
    assert {d.data for d in RUN} == {d.data for d in RUNS}


@pytest.mark.parametrize("deployment", RUN or MISSING, ids=str)
def test_runs(shared_mlf: Path, needs_qemu: None, deployment: Deployment) -> None:
    inputs, expected = arrays_of(deployment)
    report = mlf_sdk.run(
        deployment.path,
        board=BOARD,
        module=deployment.module,
        inputs=inputs,
        expect=expected,
        twin=True,
        timeout_s=240.0,
    )
    assert report.compare is not None
    assert report.compare.mismatches == 0, report.compare
    assert sorted(o.elements for o in report.compare.outputs) == sorted(
        array.size for name, array in expected.items() if name != "label"
    )
    memory = report.memory
    assert memory.exact
    assert memory.arena_high_water_bytes == memory.arena_bytes == memory.lower_bound_bytes
    assert report.check.ok, [row for row in report.check.rows if row.state != "proven"]
    assert report.twin is not None, report.twin_note
    assert report.twin.mismatches == 0, report.twin
    exact = [o for o in report.twin.outputs if report.outputs[o.name].dtype.kind in "iu"]
    assert all(o.max_abs == 0 for o in exact)
    assert len(exact) == len(report.twin.outputs) or "int8" not in deployment.data
    if deployment.kind == "llvmgraph":
        assert "board image, unshared" in report.evidence
    else:
        assert "host twin, own memory per tensor" in report.evidence
    if "label" in expected:
        assert report.accuracy is not None and report.accuracy >= 0.8
    assert report.ok


@pytest.mark.parametrize("deployment", REFUSED or MISSING, ids=str)
def test_needs_cmsis_nn(shared_mlf: Path, tmp_path: Path, deployment: Deployment) -> None:
    """One clear error that names the header and the option; nothing is written."""
    with pytest.raises(InputError) as caught:
        mlf_sdk.generate(deployment.path, tmp_path / "out", board=BOARD)
    assert "arm_nn" in caught.value.what and ".h" in caught.value.what
    assert "--cmsis-nn" in caught.value.hint
    assert deployment.path.name in caught.value.where
    assert caught.value.exit_code == 2
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("deployment", NO_MAIN or MISSING, ids=str)
def test_needs_its_main_function(shared_mlf: Path, deployment: Deployment) -> None:
    """One error that says what is missing, and how to export the archive with it."""
    with pytest.raises(InputError) as caught:
        mlf_sdk.load(deployment.path)
    assert "is declared but not defined" in caught.value.what
    assert "without a C host target" in caught.value.what and "export it again" in caught.value.what
    assert deployment.path.name in caught.value.where
