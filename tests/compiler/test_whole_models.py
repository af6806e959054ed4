# SPDX-License-Identifier: Apache-2.0
"""Whole models: recorded outputs of TFLM, and the path from a .tflite to a verified run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from cli_helpers import Caller
from compiled_models import KernelRunner, PlannedRunner
from corpus import CORPUS, MISSING, RECORDED, REFUSED, recorded_model
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.frontends.mlf.compiled import archive_of
from mlf_sdk.reporting.html.arenadata import arena_of
from planning import plan_project
from tflite_models import small_network


@pytest.mark.skipif(not RECORDED, reason=MISSING)
@pytest.mark.parametrize("name", [n for n in RECORDED if n not in REFUSED])
def test_recorded_outputs(name: str, tmp_path: Path) -> None:
    model = recorded_model(name)
    files = archive_of(compile_graph(load_tflite(model.path), Choice()))
    # By the least optimisation that runs fast enough: most of the time is the compiler's. Others compile with -O2.
    runner = KernelRunner(files, tmp_path, ("-O0" if model.macs < 2_000_000 else "-O1",), exact=True)
    planned = PlannedRunner(runner, files, tmp_path)
    cases = len(model.inputs[0]) if model.macs < 2_000_000 or model.stateful else 1
    for case in range(cases):
        results = runner.run([x[case] for x in model.inputs])
        for got, wanted in zip(results, model.outputs, strict=True):
            equal(got.reshape(-1), wanted[case].reshape(-1))
        assert planned.run([x[case] for x in model.inputs]) == [r.tobytes() for r in results]


def equal(got: np.ndarray, wanted: np.ndarray) -> None:
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * max(1e-9, float(np.abs(wanted).max())))
    else:
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.skipif(not RECORDED, reason=MISSING)
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_not_supported_is_refused_by_name(name: str) -> None:
    with pytest.raises(ArchiveError, match=r"operator \d+ [A-Z_:a-zA-Z]+ \("):
        load_tflite(CORPUS / f"{name}.tflite")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "small.tflite"
    path.write_bytes(small_network())
    return path


@pytest.mark.parametrize("board", ["mps2-an386", "microbit"])
def test_a_model_runs_where_an_archive_does(network: Path, tmp_path: Path, board: str) -> None:
    graph = load_tflite(network)
    x = np.random.default_rng(3).integers(-128, 128, (1, 12, 10, 3)).astype(np.int8)
    np.savez(tmp_path / "in.npz", input=x)
    np.savez(tmp_path / "out.npz", softmax=Interpreter(graph).run([x])[0])
    found = mlf_sdk.run(network, board=board, inputs=tmp_path / "in.npz", expect=tmp_path / "out.npz")
    assert found.ok


def test_compile_writes_an_archive_that_is_the_same_every_time(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Caller(capsys)("compile", network, "-o", tmp_path / "a.tar", "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["output"] == str(tmp_path / "a.tar")
    mlf_sdk.compile(network, tmp_path / "b.tar")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    model = mlf_sdk.load(tmp_path / "a.tar")
    assert (model.provenance.compiler, model.executor) == ("mlf-sdk", "graph")
    assert model.tensors[model.inputs[0]].quantisation is not None
    assert model.output_names == ("softmax",)


def test_an_archive_of_our_own_states_no_summary_and_its_peak_fits(network: Path) -> None:
    """The format asks for sums of sizes: held against the plan they would contradict it."""
    model = mlf_sdk.load(network)
    said = model.summary
    assert (said.workspace_bytes, said.constants_bytes, said.io_bytes) == (None, None, None)
    planned = plan_project([model], board="mps2-an386").lock.models[0]
    arena = arena_of(planned, None)
    assert max(live for _, live in arena.live) == arena.size_bytes == arena.lower_bound_bytes


def test_sources_that_are_no_model(network: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        mlf_sdk.compile(tmp_path / "none.tflite", tmp_path / "a.tar")
    (tmp_path / "text.tflite").write_text("not a model")
    with pytest.raises(InputError, match="not a model of a format that is compiled"):
        mlf_sdk.compile(tmp_path / "text.tflite", tmp_path / "a.tar")
    with pytest.raises(InputError, match="would replace the model"):
        mlf_sdk.compile(network, network)


@pytest.mark.skipif(not RECORDED, reason=MISSING)
def test_a_streaming_model_keeps_its_states_on_a_board(tmp_path: Path) -> None:
    """Consecutive runs, each of which depends on those before it."""
    name = "micro_wake_word_models_v2_hey_jarvis"
    vectors = np.load(CORPUS / f"{name}.npz")
    for prefix in ("in", "out"):
        arrays = {
            k.removeprefix(f"{prefix}::"): vectors[k][:3]
            for k in vectors.files
            if k.startswith(f"{prefix}::")
        }
        np.savez(tmp_path / f"{prefix}.npz", **arrays)
    found = mlf_sdk.run(
        CORPUS / f"{name}.tflite", board="mps2-an386", inputs=tmp_path / "in.npz", expect=tmp_path / "out.npz"
    )
    assert found.ok and found.compare is not None and found.compare.mismatches == 0
    (states,) = (row for row in found.check.rows if row.item == "states")
    assert states.planned == states.image == 2848
