# SPDX-License-Identifier: Apache-2.0
"""The client of MLPerf Tiny's protocol, its procedure and its rules, against a device in this process."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.pipeline.mlperf import inputs, procedure
from mlf_sdk.pipeline.mlperf.inputs import InputFile
from mlf_sdk.pipeline.mlperf.procedure import Line
from mlf_sdk.pipeline.mlperf.results import median_throughput, objections, score
from mlf_sdk.wire.codes import NoAnswerError
from mlf_sdk.wire.mlperf import MlperfClient, RefusedError, Window
from mlf_sdk.wire.transport import LoopbackTransport


class Device:
    """Answers commands; ``changes`` replace the answer to a command's first word."""

    def __init__(self, each_us: int = 1000, **changes: str) -> None:
        self.each_us = each_us
        self.changes = changes
        self.commands: list[str] = []
        self.opened = 0
        self.loaded = b""
        self._text = ""
        self._now = 1 << 33

    def open(self) -> LoopbackTransport:
        self.opened += 1
        return LoopbackTransport(self.feed, idle=lambda _seconds: None)

    def feed(self, data: bytes) -> bytes:
        *commands, self._text = (self._text + data.decode()).split("%")
        return "".join(map(self._answer, commands)).encode()

    def _answer(self, text: str) -> str:
        self.commands.append(text)
        word, *rest = text.split(" ")
        if word in self.changes:
            return self.changes[word]
        said = getattr(self, f"_{word}")(rest)
        return "".join(f"{line}\r\n" for line in [*said, "m-ready"])

    def _name(self, _rest: list[str]) -> list[str]:
        return ["m-name-dut-[toy]"]

    def _profile(self, _rest: list[str]) -> list[str]:
        return ["m-profile-[p]", "m-model-[toy01]"]

    def _db(self, rest: list[str]) -> list[str]:
        if rest[0] == "load":
            self.loaded = b""
        else:
            self.loaded += bytes.fromhex(rest[0])
        return []

    def _infer(self, rest: list[str]) -> list[str]:
        count, warmups = map(int, rest)
        start = self._now + warmups * self.each_us
        self._now = start + count * self.each_us
        first = self.loaded[0] / 255
        return [
            f"m-warmup-start-{warmups}",
            f"m-lap-us-{start}",
            f"m-lap-us-{self._now}",
            f"m-results-[{first:.3f}, {1 - first:.3f},]",
        ]


def client_of(**changes: str) -> MlperfClient:
    return MlperfClient(Device(**changes).open(), clock=itertools.count().__next__)


def test_a_device_that_answers() -> None:
    device = Device()
    seen: list[str] = []
    client = MlperfClient(device.open(), log=seen.append)
    assert client.name() == "toy"
    assert client.profile() == ("p", "toy01")
    client.load(bytes(range(100)))
    assert device.loaded == bytes(range(100))
    assert device.commands[2] == "db load 100"
    assert [len(text) for text in device.commands[3:]] == [65, 65, 65, 17]  # 31 bytes a command
    window = client.infer(7, 2)
    assert device.commands[-1] == "infer 7 2"
    assert (window.inferences, window.warmups, window.seconds) == (7, 2, 0.007)
    assert window.throughput == pytest.approx(1000)
    assert window.results == (0.0, 1.0)
    assert seen[:2] == ["> name%", "m-name-dut-[toy]"]


@pytest.mark.parametrize(
    ("changes", "call", "error", "what"),
    [
        ({"name": "m-name-dut-[]\nm-ready\n"}, MlperfClient.name, TargetError, "as the protocol says"),
        ({"name": "m-name-dut-[x\n"}, MlperfClient.name, NoAnswerError, "within 5 s"),
        ({"name": "m-name-dut-[x]\r"}, MlperfClient.name, NoAnswerError, "within 5 s"),
        ({"profile": "m-profile-[x]\nm-ready\n"}, MlperfClient.profile, TargetError, "as the protocol says"),
        ({"db": "e-[Full \x1b[2J]\nm-ready\n"}, lambda c: c.load(b"1"), RefusedError, r"Full \\x1b\[2J"),
        ({"infer": "e-[No]\nm-ready\n"}, lambda c: c.infer(1), RefusedError, "answers: No"),
        ({"infer": "m-warmup-start-0\n"}, lambda c: c.infer(1), NoAnswerError, "within 30 s"),
        (
            {"infer": "m-lap-us-1\nm-results-[1]\nm-ready\n"},
            lambda c: c.infer(1),
            TargetError,
            "lacks stamps",
        ),
        ({"infer": "m-lap-us-1\nm-lap-us-2\nm-ready\n"}, lambda c: c.infer(1), TargetError, "or results"),
        (
            {"infer": "m-lap-us-1\nm-lap-us-2\nm-results-[1,x]\nm-ready\n"},
            lambda c: c.infer(1),
            TargetError,
            "or results",
        ),
        (
            {"infer": "m-lap-us-1.5\nm-lap-us-2.5\nm-results-[1]\nm-ready\n"},
            lambda c: c.infer(1),
            TargetError,
            "lacks stamps",
        ),
    ],
)
def test_a_device_that_does_not(
    changes: dict[str, str],
    call: Callable[[MlperfClient], object],
    error: type[TargetError],
    what: str,
) -> None:
    with pytest.raises(error, match=what):
        call(client_of(**changes))


def test_an_endless_line_is_no_line() -> None:
    endless = LoopbackTransport(lambda _data: b"x" * (3 << 20))
    with pytest.raises(NoAnswerError, match="no line"):
        MlperfClient(endless).name()


# ---- the procedure ----


def line_of(device: Device) -> tuple[Line, list[float]]:
    slept: list[float] = []
    return Line(open=device.open, clock=itertools.count(0, 30).__next__, sleep=slept.append), slept


def files(count: int = 5) -> list[InputFile]:
    return [InputFile(name=f"{i}", classes=2, label=i % 2, data=bytes([i, 7])) for i in range(count)]


def test_the_port_is_opened_and_closed_and_opened() -> None:
    device = Device()
    line, slept = line_of(device)
    assert procedure.identify(line).benchmark == "toy01"
    assert slept == [2.0]
    assert device.opened == 1
    windows, host_s = procedure.measure(line, files(), "toy01", 12_000, 10)
    assert device.opened == 2
    assert device.commands[2:5] == ["db load 2", "db 0007", "infer 12000 10"]
    assert len(windows) == 5
    assert host_s == 30
    assert objections(windows, host_s) == []


@pytest.mark.parametrize(
    ("each_us", "inferences", "warmups"),
    [(1000, 12_000, 10), (7, 1_714_286, 10), (800_000, 15, 7), (4_000_000, 3, 1), (20_000_000, 1, 0)],
)
def test_a_window_is_long_enough(each_us: int, inferences: int, warmups: int) -> None:
    """10 to 30 s, warm-ups included, whatever an inference takes up to that."""
    line, _ = line_of(Device(each_us))
    assert procedure.propose(line, b"12") == (inferences, warmups)
    assert 10e6 < inferences * each_us < 30e6
    assert warmups * each_us < 30e6


@pytest.mark.parametrize(
    ("seconds", "host_s", "said"),
    [
        ([12, 12, 12, 12, 12], 61, []),
        ([12, 12, 12, 12], 61, ["4 windows were measured, 5 are required"]),
        ([12, 12, 12, 12, 10], 61, ["1 of 5 windows took no more than 10 s"]),
        ([12, 12, 12, 12, 12], 9.9, ["all windows together took less than 10 s of the host's time"]),
    ],
)
def test_objections(seconds: list[float], host_s: float, said: list[str]) -> None:
    assert objections([window(s) for s in seconds], host_s) == said


def window(seconds: float, results: tuple[float, ...] = (1.0,)) -> Window:
    return Window(inferences=60, warmups=0, start_us=5, end_us=5 + round(seconds * 1e6), results=results)


def test_the_median() -> None:
    assert median_throughput([window(s) for s in (12, 10, 15, 20, 30)]) == 4.0
    assert window(0).throughput == 0


def test_accuracy_runs_each_input_once() -> None:
    device = Device()
    line, _ = line_of(device)
    cut = InputFile(name="a", classes=2, label=1, window_bytes=4, stride_bytes=2, data=bytes(range(10)))
    told: list[tuple[int, int]] = []
    found = procedure.classify(line, [cut, cut], "ad01", lambda *done: told.append(done))
    assert [len(windows) for windows in found] == [4, 4]  # at 0, 2, 4 and 6
    assert device.commands.count("infer 1 0") == 8
    assert device.commands[1] == "db 00010203"
    assert told == [(1, 2), (2, 2)]
    assert list(cut.segments("kws01")) == [bytes(range(10))]  # only that benchmark's files are cut


# ---- the score ----


def test_score_of_classes() -> None:
    results = [[[0.8, 0.1, 0.1]], [[0.2, 0.7, 0.1]], [[1, 5, 4]], [[0.1, 0.1, 0.8]], [[0, 0.5, 0.5]]]
    labels = [0, 1, 2, 2, 1]
    top1, auc = score(results, labels)
    assert top1 == pytest.approx(80.0)
    # pairs of one class against the rest: 4 of 4; 5.5 of 6 with 0.5 = 0.5; 5 of 6 with 0.4 < 0.5
    assert auc == pytest.approx((1 + 5.5 / 6 + 5 / 6) / 3)


def test_score_of_two_classes_and_of_windows() -> None:
    results = [[[0.9, 0.1], [0.3, 0.7]], [[0.4, 0.6], [0.2, 0.8]]]
    assert score(results, [0, 1]) == (100.0, 1.0)
    assert score([[[0.5, 0.5]], [[1, 1]]], [0, 1]) == (50.0, 0.5)  # equal values count half


def test_score_of_one_number() -> None:
    results = [[[1.0], [3.0]], [[2.5], [2.5]], [[9.0], [1.0]], [[1.0], [1.0]]]
    top1, auc = score(results, [0, 1, 1, 0])
    assert auc == 1.0
    assert top1 == pytest.approx(100.0, abs=1e-5)
    assert score(results, [1, 0, 0, 1])[1] == 0.0


@pytest.mark.parametrize(
    ("results", "labels", "what"),
    [
        ([[[1, 0]], [[1, 0, 0]]], [0, 1], "differ in number"),
        ([[[1, 0]], [[0, 1]]], [0, 0], "no input is of class 1"),
        ([[[0, 0]], [[0, 1]]], [0, 1], "all zero"),
        ([[[1.0]], [[2.0]]], [0, 0], "one class"),
    ],
)
def test_no_score(results: list[list[list[float]]], labels: list[int], what: str) -> None:
    with pytest.raises(InputError, match=what):
        score(results, labels)


# ---- inputs ----


def test_a_folder(tmp_path: Path) -> None:
    made = [
        InputFile(name="a.bin", classes=2, label=1, data=b"12"),
        InputFile(name="b.bin", classes=2, label=0, window_bytes=2560, stride_bytes=512, data=b"34"),
    ]
    folder = tmp_path / "set"
    inputs.write_folder(folder, made)
    assert (folder / "y_labels.csv").read_text() == "a.bin,2,1\nb.bin,2,0,2560,512\n"
    read = inputs.read_folder(folder, None)
    assert [(f.name, f.label, f.window_bytes, f.stride_bytes) for f in read] == [
        ("a.bin", 1, 0, 0),
        ("b.bin", 0, 2560, 512),
    ]
    assert [f.content() for f in inputs.read_folder(folder, 1)] == [b"12"]
    inputs.write_folder(tmp_path / "linked", [*read, read[1]])  # a list may name a file again
    assert (tmp_path / "linked" / "y_labels.csv").read_text().count("b.bin") == 2
    assert (tmp_path / "linked" / "b.bin").read_bytes() == b"34"


@pytest.mark.parametrize("text", ["a.bin", "a.bin,2,x", "a.bin,2,1,x,1"])
def test_a_damaged_list(text: str, tmp_path: Path) -> None:
    (tmp_path / "y_labels.csv").write_text(text + "\n")
    with pytest.raises(InputError, match="list of inputs"):
        inputs.read_folder(tmp_path, None)


def test_files_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="list of inputs"):
        inputs.read_folder(tmp_path, None)
    (tmp_path / "y_labels.csv").write_text("a.bin,2,1\n")
    with pytest.raises(InputError, match="can't read an input"):
        inputs.read_folder(tmp_path, None)[0].content()


@pytest.mark.parametrize(("name", "size"), [("ic01", 3072), ("ad01", 2560), ("own", 33)])
def test_made_up_inputs(name: str, size: int) -> None:
    made = inputs.made_up(name, size, 5)
    segments = [next(file.segments(name)) for file in made]
    assert {len(data) for data in segments} == {size}
    assert len(set(segments)) == 5
    if name == "ad01":
        assert np.isfinite(np.frombuffer(segments[0], np.float32)).all()
