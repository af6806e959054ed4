# SPDX-License-Identifier: Apache-2.0
"""``bench mlperf`` on an emulated board, by the client of our own: performance, accuracy, port, page."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from cli_helpers import Caller
from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.judge.profile import CycleEstimate
from mlf_sdk.pipeline.mlperf import bench as bench_module
from mlf_sdk.pipeline.mlperf.bench import Host, bench_mlperf
from mlf_sdk.pipeline.mlperf.results import MlperfReport
from mlf_sdk.pipeline.options import MlperfOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from mlf_sdk.reporting.html.mlperf import mlperf_facts
from mlf_sdk.reporting.mlperf import mlperf_page
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.ptyboard import clock_like, start_pty_board
from mlf_sdk.targets.qemu import QemuOptions

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples/digits/digits-aotc-tvm0.11.1.tar"
CASES = ROOT / "examples/digits/test.npz"
INPUTS = 25
QUICK = 10  # shift: an instruction takes a microsecond, so that 12 s are few instructions

pytestmark = pytest.mark.qemu


@pytest.fixture(scope="module")
def project(needs_qemu: None, once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """The digits with the mlperf application, built."""

    def make(folder: Path) -> None:
        options: dict[str, Any] = {"app": "mlperf", "mlperf_id": "digits", "softmax": True}
        mlf_sdk.generate(DIGITS, folder / "app", board="mps2-an386", **options)
        mlf_sdk.build(folder / "app")

    return once("mlperf-digits", make) / "app"


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """A few digits, of every class."""
    with np.load(CASES) as file:
        arrays = {name: file[name][:INPUTS] for name in file.files}
    assert set(arrays["label"].tolist()) == set(range(10))
    np.savez(tmp_path / "cases.npz", **arrays)
    return tmp_path / "cases.npz"


def quick(shift: int = QUICK) -> Host:
    """A host whose loop takes a minute by its clock, and a board that is not slowed down."""
    return Host(
        emulation=QemuOptions(icount_shift=shift),
        clock=itertools.count(0, 60).__next__,
        sleep=lambda _seconds: None,
    )


def bench(project: Path, own: MlperfOptions, host: Host, **options: Any) -> MlperfReport:
    return bench_mlperf(Request(source=(str(project),), **options), own, Pipeline(), host)


def test_performance(project: Path, tmp_path: Path) -> None:
    """Time is a count of instructions: the same whatever an instruction takes."""
    found = bench(project, MlperfOptions(), quick())
    assert found.ok
    assert (found.id, found.official, found.emulated, found.made_up) == ("digits", False, True, True)
    assert len(found.windows) == 5
    assert all(10 < window.seconds < 30 for window in found.windows)
    assert found.throughput == pytest.approx(found.windows[0].throughput, rel=0.01)
    assert any("is no MLPerf result" in note for note in found.notes)
    assert any("not by the official runner" in note for note in found.notes)
    other = bench(project, MlperfOptions(inferences=20), quick(QUICK - 2))
    assert found.instructions == pytest.approx(other.instructions, rel=0.01)
    assert other.errors == ("5 of 5 windows took no more than 10 s",)  # as many as we asked for
    assert not other.ok
    page = mlperf_page(Request(source=(str(project),)), found, Pipeline()).decode()
    assert '<section id="mlperf"' in page
    assert f"{found.throughput:,.3f} inferences/s" in page
    assert "is no MLPerf result" in page


def test_accuracy_of_an_own_id(project: Path, cases: Path, call: Caller) -> None:
    """Each line is the softmax of the logits that the same images gave on the host."""
    arguments = ["bench", "mlperf", project, "--mode", "accuracy", "--cases", cases]
    done = call(*arguments, "--json")
    assert done.code == 0, done.err
    with np.load(cases) as file:
        labels, arrays = file["label"], {n: file[n] for n in file.files if n != "label"}
    logits = next(a for a in arrays.values() if a.size == INPUTS * 10).reshape(INPUTS, 10)
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    wanted = powers / powers.sum(axis=1, keepdims=True)
    value = done.value
    results = np.array([window["results"] for window in value["windows"]])
    assert np.abs(results - wanted).max() < 1e-5
    assert value["top1_percent"] == pytest.approx(100 * np.mean(wanted.argmax(axis=1) == labels))
    assert 0.9 < value["auc"] <= 1
    assert value["board"] == "mps2-an386"


def test_a_board_on_a_port(project: Path) -> None:
    """The port is whatever a user names; the device must hold the benchmark that was asked for."""
    board = find_board("mps2-an386", None)
    elf = project / "build/app.elf"
    with start_pty_board(board, elf, QemuOptions(icount_shift=QUICK)) as port:
        found = bench(project, MlperfOptions(inferences=3), quick(), port=port)
        assert (found.emulated, found.instructions) == (False, None)
        assert len(found.windows) == 5
        with pytest.raises(TargetError, match="runs the benchmark digits, not other"):
            bench_mlperf(
                Request(source=(str(DIGITS),), board="mps2-an386", port=port, mlperf_id="other"),
                MlperfOptions(),
                Pipeline(),
                quick(),
            )


def test_the_emulators_clock() -> None:
    """An instruction takes about a cycle, and the machine waits for the host's clock."""
    assert clock_like(find_board("mps2-an386", None)) == QemuOptions(icount_shift=5, real_time=True)
    assert clock_like(find_board("microbit", None)).icount_shift == 6


@pytest.mark.parametrize(
    ("own", "what"),
    [
        (MlperfOptions(mode="accuracy"), "accuracy mode needs inputs"),
        (MlperfOptions(data=str(ROOT), cases=str(CASES)), "two sources of inputs"),
        (MlperfOptions(data=str(ROOT)), "list of inputs"),
        (MlperfOptions(runner=str(ROOT)), "runner of MLPerf Tiny is not here"),
    ],
)
def test_refused(own: MlperfOptions, what: str, project: Path) -> None:
    with pytest.raises(InputError, match=what):
        bench(project, own, quick())


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Path]:
    mlf_sdk.generate(DIGITS, tmp_path / "app", board="mps2-an386", app="standalone")
    yield tmp_path / "app"


def test_refused_targets(standalone: Path) -> None:
    with pytest.raises(InputError, match="the project's application is standalone"):
        bench(standalone, MlperfOptions(), quick())
    request = Request(source=(str(DIGITS),), board="host", mlperf_id="digits")
    with pytest.raises(InputError, match="has no serial port"):
        bench_mlperf(request, MlperfOptions(), Pipeline(), quick())


def test_cases_without_classes(project: Path, tmp_path: Path) -> None:
    with np.load(CASES) as file:
        np.savez(tmp_path / "x.npz", **{name: file[name][:3] for name in file.files if name != "label"})
    with pytest.raises(InputError, match="no array 'label'"):
        bench(project, MlperfOptions(mode="accuracy", cases=str(tmp_path / "x.npz")), quick())


def test_the_estimate_of_cycles(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model's cycles are those of its profile; a project holds no application that could be profiled."""
    seen: list[Request] = []
    estimate = CycleEstimate(
        cycles=1234567, waits=0, core="cortex-m4", kind="documented", source="", assumes="", wait_states=0,
        instructions={}, taken=0, undecided=0, unknown=0,
    )  # fmt: skip

    def profile(request: Request, *_rest: object) -> Any:
        seen.append(request)
        return SimpleNamespace(cycles=estimate, unit="instructions", total=987_654)

    monkeypatch.setattr(bench_module, "profile_request", profile)
    built = SimpleNamespace(elf=project / "build/app.elf")  # the same as of the archive
    monkeypatch.setattr(Pipeline, "build", lambda *_: built)
    found = bench(DIGITS, MlperfOptions(inferences=3), quick(), mlperf_id="digits", softmax=True)
    assert (found.cycles, seen[0].app, seen[0].mlperf_id) == (estimate, "rpc", "")
    assert ("estimate", "1,234,567 cycles: cortex-m4, documented, wait states 0") in mlperf_facts(found)
    assert found.instructions not in (None, 987_654)  # by the windows, where the machine's rate is known
    assert bench(project, MlperfOptions(inferences=3), quick()).cycles is None
    monkeypatch.setattr(bench_module, "counter_hz", lambda _board: None)
    unknown = bench(DIGITS, MlperfOptions(inferences=3), quick(), mlperf_id="digits", softmax=True)
    assert unknown.instructions == 987_654
    assert bench(project, MlperfOptions(inferences=3), quick()).instructions is None


def test_the_image_keeps_its_promises(project: Path) -> None:
    """The stack has a bound: every call of the server through a pointer is known."""
    checked = mlf_sdk.check(project)
    assert checked.ok
    assert checked.stack is not None
    assert checked.stack.is_complete, checked.stack.image.unknown
    assert any(name == "mlf_mlperf_feed" for name, _ in checked.stack.image.path)
