# SPDX-License-Identifier: Apache-2.0
"""Witnesses in tests with the pytest plugin: a wrong compiler fails a test that expects what it gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import mlf_sdk
from mlf_sdk.judge.witnesses import interpreter
from pytest_runs import UNUSED
from small_models import svdf, two_layers

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.toolchain

TFLM = pytest.mark.skipif(interpreter.Tflm().title() is None, reason="tflite-micro is not installed")

# The compiler of tests/pipeline/test_witness.py: its last layer saturates at 3.
WRONG = """
import dataclasses
from mlf_sdk.compiler import build

right = build.improve

def worse(graph):
    graph = right(graph)
    *others, last = graph.operators
    return dataclasses.replace(graph, operators=(*others, dataclasses.replace(last, clamp=(-128, 3))))

build.improve = worse
"""
# As by the plugin for tflite-micro that is not there.
ABSENT = """
from mlf_sdk.judge.witnesses import interpreter
interpreter.installed = lambda *_: None
"""
USES = """
import numpy as np

X = np.arange(-32, 32, 8, dtype=np.int8).reshape(1, 8)

def test_one(mlf_model):
    assert mlf_model("{source}").infer(X)[0].shape == (1, 8)

def test_more(mlf_model):
    assert mlf_model("{source}").infer(np.stack([X, X]))[0].shape == (2, 1, 8)
"""


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Caches of the right and the wrong compiler, for the tests here."""
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and an archive, made before pytester begins: it forgets modules that are imported after that."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "two.tflite").write_bytes(two_layers())
    (folder / "line.tflite").write_bytes(svdf(0, 16, 8, 1, 6, 1, "int16"))
    mlf_sdk.compile(folder / "two.tflite", folder / "two.tar")
    return folder


@pytest.fixture
def model(made: Path, caches: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CACHES_OF_TEST", str(caches))
    for path in made.iterdir():
        shutil.copy(path, pytester.path)
    return pytester.path / "two.tflite"


def run(pytester: pytest.Pytester, source: str, *options: str, conftest: str = "") -> pytest.RunResult:
    cache = (
        f"import os\nos.environ['XDG_CACHE_HOME'] = os.environ['CACHES_OF_TEST'] + '/{WRONG in conftest}'\n"
    )
    pytester.makeconftest(cache + conftest)
    pytester.makepyfile(source)
    workers = () if "-n" in options else ("-p", "no:xdist")
    return pytester.runpytest_subprocess(*UNUSED, *workers, "--mlf-board", "host", *options)


def evidence(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith("mlf: ")]


@TFLM
def test_a_wrong_compiler_fails_the_test(pytester: pytest.Pytester, model: Path) -> None:
    """Each test fails at its own line, and the board goes on."""
    result = run(pytester, USES.format(source="two.tflite"), conftest=WRONG)
    result.assert_outcomes(failed=2)
    shown = result.stdout.str()
    assert "MeaningError: model two: the outputs are not what the model file means: TFLM 2026-10: '" in shown
    assert "of 8 elements (max" in shown and "; reference: '" in shown
    assert "attending.py" not in shown and "contradict each other" not in shown
    assert evidence(result) == [
        "mlf: two on host: TFLM 2026-10 + reference, 2 inferences; outputs differ from TFLM 2026-10 and reference"
    ]


@TFLM
def test_the_right_one_passes(pytester: pytest.Pytester, model: Path) -> None:
    result = run(pytester, USES.format(source="two.tflite"))
    result.assert_outcomes(passed=2)
    assert evidence(result) == ["mlf: two on host: TFLM 2026-10 + reference, 3 inferences"]


def test_a_witness_that_is_not_installed(pytester: pytest.Pytester, model: Path) -> None:
    source = USES.format(source="two.tflite")
    result = run(pytester, source, "-n", "2", conftest=ABSENT + WRONG)
    result.assert_outcomes(failed=2)
    assert "TFLM" not in result.stdout.str()
    assert evidence(result) == [
        "mlf: two on host: reference, 2 inferences; outputs differ from reference"
    ]  # of two workers


def test_none_is_asked(pytester: pytest.Pytester, model: Path) -> None:
    """By an option, which overrides mlf.toml, or by mlf.toml."""
    source = USES.format(source="two.tflite")
    result = run(pytester, source, "--mlf-witness", "0", conftest=WRONG)
    result.assert_outcomes(passed=2)
    assert evidence(result) == []
    (pytester.path / "mlf.toml").write_text("witness = 0\n")
    run(pytester, source, conftest=WRONG).assert_outcomes(passed=2)


def test_an_archive_and_its_file(pytester: pytest.Pytester, model: Path) -> None:
    """Away from it, kernels are compared with themselves; by its name, with the model."""
    apart = pytester.path / "elsewhere" / "two.tflite"
    apart.parent.mkdir()
    model.rename(apart)
    source = USES.format(source="two.tar")
    result = run(pytester, source, conftest=ABSENT)
    result.assert_outcomes(passed=2)
    assert evidence(result) == [
        "mlf: two on host: kernels were only compared with themselves, 3 inferences; "
        "--mlf-model FILE names the file that it was made from (two.tflite)"
    ]
    result = run(pytester, source, "--mlf-model", str(apart), conftest=ABSENT)
    assert evidence(result) == ["mlf: two on host: reference, 3 inferences"]
    model.with_suffix(".onnx").write_bytes(apart.read_bytes() + b"1")
    result = run(pytester, source, "--mlf-model", str(model.with_suffix(".onnx")), conftest=ABSENT)
    result.assert_outcomes(failed=2)
    assert "was made from another file" in result.stdout.str()


STATES = """
import numpy as np
import pytest

X = np.random.default_rng(4).integers(-100, 100, (6, 1, 16)).astype(np.int8)

def test_first(mlf_model):
    mlf_model("line.tflite").infer(X)

def test_goes_on(mlf_model):
    mlf_model("line.tflite").infer(X[0])
"""
BESIDES = """
@pytest.mark.mlf("line.tflite")
def test_the_session_itself(mlf_session):
    mlf_session.infer(0, [X[3]])

def test_after_it(mlf_model):
    mlf_model("line.tflite").infer(X[1])
"""


@TFLM
def test_a_model_that_keeps_states(pytester: pytest.Pytester, model: Path) -> None:
    """Over all tests; once something else ran it, its states are not those of the witnesses any more."""
    result = run(pytester, STATES + BESIDES)
    result.assert_outcomes(passed=4)
    assert evidence(result) == [
        "mlf: line on host: TFLM 2026-10 (7 of 8 inferences) + reference (7 of 8 inferences), 8 inferences; "
        "the model keeps states, and it was run by something else than infer()"
    ]
