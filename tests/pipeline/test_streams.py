# SPDX-License-Identifier: Apache-2.0
"""Models whose input is streamed, over the protocol: rows as they come, whole arrays, lines that lose bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from agreement import random_inputs
from bench_line import bad_line
from cli_helpers import Caller
from emulated import need_board
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import InputError, NotPossibleError
from mlf_sdk.pipeline.opentarget import OpenTarget
from mlf_sdk.testing.badline import Faults
from mlf_sdk.testing.fake import FakeDevice, FakeModel, FakeStream, FakeTensor
from mlf_sdk.tools.process import run_process
from mlf_sdk.wire import protocol
from mlf_sdk.wire.codes import DeviceError, Opcode, Status
from mlf_sdk.wire.rows import RowFeed
from row_networks import whole_network
from rpc_models import session_over
from tflite_models import Maker

ROWS = 16


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "rows.tflite"
    m = Maker(4)
    path.write_bytes(m.finish(whole_network(m)))
    return path


@pytest.fixture(scope="module")
def project(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project for this machine, built."""
    folder = tmp_path_factory.mktemp("streams") / "project"
    mlf_sdk.generate(model, folder, board="host", stream=True, goal="ram")
    mlf_sdk.build(folder)
    return folder


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(capsys)


@pytest.fixture
def session(project: Path) -> Iterator[OpenTarget]:
    with mlf_sdk.open_session(project) as found:
        yield found


def expected(model: Path, seed: int) -> tuple[np.ndarray, bytes]:
    """An image, and what the reference makes of it."""
    graph = load_tflite(model)
    inputs = random_inputs(graph, np.random.default_rng(seed))
    return inputs[0], Interpreter(graph).run(inputs)[0].tobytes()


def test_rows_as_they_come(model: Path, session: OpenTarget) -> None:
    for seed in range(3):
        image, wanted = expected(model, seed)
        for row in image[0]:
            session.feed(row)
        assert session.finish()[0].tobytes() == wanted


def test_several_rows_at_once(model: Path, session: OpenTarget) -> None:
    image, wanted = expected(model, 5)
    session.feed(image[0][:1])
    session.feed(image[0][1:9])
    session.feed(image[0][9:])
    assert session.finish()[0].tobytes() == wanted


def test_whole_arrays(model: Path, session: OpenTarget) -> None:
    """An inference on a whole array drops the rows that were fed before."""
    image, wanted = expected(model, 6)
    session.feed(image[0][:5])
    assert session.infer(image)[0].tobytes() == wanted
    batch = np.stack([expected(model, seed)[0] for seed in range(3)])
    found = session.infer(batch)[0]
    assert [one.tobytes() for one in found] == [expected(model, seed)[1] for seed in range(3)]


def test_an_inference_that_was_not_finished_is_dropped(model: Path, project: Path) -> None:
    image, wanted = expected(model, 7)
    with mlf_sdk.open_session(project) as session:
        info = session.info
        session.session.write_input(info, 0, image)
        session.session.write_input(info, 0, image)
        session.session.run(info)
        assert session.session.read_outputs(info)[0].tobytes() == wanted


def test_rows_in_the_wrong_order(model: Path, session: OpenTarget) -> None:
    """Each is one error, after which rows go on where they were."""
    image, wanted = expected(model, 8)
    with pytest.raises(InputError, match="no row was fed"):
        session.finish()
    session.feed(image[0][:4])
    with pytest.raises(InputError, match="12 of 16 rows are still due"):
        session.finish()
    with pytest.raises(InputError, match="13 rows were given, and 12 of 16 are due"):
        session.feed(image[0][:13])
    with pytest.raises(InputError, match=r"for rows of int8 and shape \[16, 4\]"):
        session.feed(image[0][4].astype(np.int16))
    with pytest.raises(InputError, match="for rows of int8"):
        session.feed(image[0][4][:5])
    session.feed(image[0][4:])
    with pytest.raises(InputError, match="1 rows were given, and 0 of 16 are due"):
        session.feed(image[0][0])
    assert session.finish()[0].tobytes() == wanted


def test_requests_of_another_host(model: Path, session: OpenTarget) -> None:
    """The device itself refuses a run without all rows, reading what is not there, and gaps."""
    image, wanted = expected(model, 9)
    wire, info = session.session, session.info
    assert info.inputs[0].streamed and not info.outputs[0].streamed
    data = image.tobytes()

    def write(offset: int, piece: bytes) -> int:
        request = protocol.WriteRequest(info.index, 0, offset).pack() + piece
        return protocol.WriteReply.unpack(wire.extension(Opcode.WRITE, request)).written

    def refused(status: Status, opcode: Opcode, request: bytes) -> None:
        with pytest.raises(DeviceError) as caught:
            wire.extension(opcode, request)
        assert caught.value.status == status

    assert write(0, data[:100]) == 100  # one row and a half
    refused(Status.STATE, Opcode.RUN, protocol.RunRequest(info.index, 1).pack())
    refused(Status.GAP, Opcode.WRITE, protocol.WriteRequest(info.index, 0, 101).pack() + data[101:110])
    refused(Status.RANGE, Opcode.WRITE, protocol.WriteRequest(info.index, 0, 1000).pack() + data[:100])
    assert write(30, b"\x55" * 70) == 100  # what came already is passed over
    assert write(90, data[90:300]) == 300
    assert write(0, b"") == 0  # begin anew
    for start in range(0, len(data), 77):
        assert write(start, data[start : start + 77]) == min(start + 77, len(data))
    refused(Status.STATE, Opcode.READ, protocol.ReadRequest(info.index, 0, 0, 0, 16).pack())
    refused(Status.ARGUMENT, Opcode.RUN, protocol.RunRequest(info.index, 2).pack())
    assert wire.run(info).runs == 1
    assert wire.read_outputs(info)[0].tobytes() == wanted
    refused(Status.STATE, Opcode.RUN, protocol.RunRequest(info.index, 1).pack())


def test_a_line_that_loses_bytes(model: Path, project: Path) -> None:
    """Pieces that come twice are computed once."""
    faults = Faults(flip=0.0005, drop=0.0005, double=0.0005, seed=3)
    with bad_line(project / "build" / "app.elf", faults) as (session, line):
        info = session.info.models[0]
        for seed in range(4):
            image, wanted = expected(model, seed)
            assert session.infer(info, [image])[0].tobytes() == wanted
        assert line.to_device.counts.flipped + line.to_host.counts.flipped > 0


def fake_of(model: Path) -> FakeDevice:
    """A fake device whose model keeps the rows as they come, and runs the reference on them."""
    graph = load_tflite(model)
    image, output = graph.values[graph.inputs[0]], graph.values[graph.outputs[0]]
    size, made = image.elements, output.elements

    def take(arena: bytearray, row: int, data: bytes) -> None:
        arena[row * len(data) : (row + 1) * len(data)] = data

    def run(arena: bytearray) -> None:
        values = np.frombuffer(bytes(arena[:size]), np.int8).reshape(image.shape)
        arena[size:] = Interpreter(graph).run([values])[0].tobytes()

    tensors = [
        FakeTensor(name=one.name, offset=offset, shape=one.shape, size_bytes=one.elements, type_code=0)
        for one, offset in ((image, 0), (output, size))
    ]
    stream = FakeStream(input=0, row_bytes=size // ROWS, compute=take)
    parts = {"inputs": (tensors[0],), "outputs": (tensors[1],), "run": run, "stream": stream}
    return FakeDevice([FakeModel(name="rows", arena=bytearray(size + made), **parts)])


def test_the_fake_device_answers_as_the_server(model: Path, session: OpenTarget) -> None:
    """The same requests, right and wrong ones, at both: the same status, and the same contents."""
    fake = session_over(fake_of(model).feed)
    fake.hello()
    devices = (fake, session.session)
    assert fake.info.models[0].inputs[0].streamed
    data, random = expected(model, 10)[0].tobytes(), np.random.default_rng(11)
    at, counts = 0, dict.fromkeys(("ok", "refused", "runs"), 0)
    for _ in range(400):
        kind, offset = int(random.integers(10)), max(0, at - int(random.integers(-1, 3)) * 20)
        piece = data[offset : offset + int(random.integers(200))]
        if kind == 8:
            piece, offset = data[at : at + 400], at
        request, opcode = protocol.WriteRequest(0, 0, offset).pack() + piece, Opcode.WRITE
        if kind == 9 or (kind < 3 and at == len(data)):
            request, opcode = protocol.RunRequest(0, 1 + (kind == 1)).pack(), Opcode.RUN
        elif kind == 7:
            direction, index = (int(n) for n in random.integers(0, 2, 2))
            request, opcode = protocol.ReadRequest(0, direction, index, 0, 5).pack(), Opcode.READ
        answers: list[object] = []
        for device in devices:
            try:
                body = device.extension(opcode, request)
            except DeviceError as error:
                answers.append(error.status)
            else:
                answers.append(body[:8] if opcode is Opcode.RUN else body)  # ticks are the device's own
        assert answers[0] == answers[1], (opcode, request, at)
        fine = isinstance(answers[0], bytes)
        counts["ok" if fine else "refused"] += 1
        counts["runs"] += fine and opcode is Opcode.RUN
        if fine and opcode is Opcode.WRITE:
            at = protocol.WriteReply.unpack(answers[0]).written
        elif fine and opcode is Opcode.RUN:
            at = 0
    assert min(counts.values()) > 10, counts


def test_a_session_with_the_fake_device(model: Path) -> None:
    """The host's side without a device: whole arrays, rows, and what the host itself refuses."""
    device = fake_of(model)
    session = session_over(device.feed)
    session.hello()
    info = session.info.models[0]
    image, wanted = expected(model, 12)
    assert session.infer(info, [image])[0].tobytes() == wanted
    feed = RowFeed(session, info)
    feed.feed(image[0][:3])
    assert session.infer(info, [image])[0].tobytes() == wanted
    feed = RowFeed(session, info)
    for row in image[0]:
        feed.feed(row)
    assert feed.finish()[0].tobytes() == wanted and device.runs == 3
    with pytest.raises(InputError, match="0 of 16 are due"):
        feed.feed(image[0][0])


def test_the_standalone_application(model: Path, tmp_path: Path) -> None:
    """Its sample goes through the ring, and its outputs are those of the host twin with the whole input."""
    out = tmp_path / "project"
    mlf_sdk.generate(model, out, board="host", stream=True, app="standalone", sample_outputs=True)
    printed = run_process([str(mlf_sdk.build(out).elf)], timeout_s=30).stdout.replace("\r", "").splitlines()
    assert printed[-2:] == ["mlf: output 0 as expected", "mlf: done 0"]


@pytest.mark.parametrize(
    ("options", "said"),
    [({"keep_inputs": True}, "can't be kept"), ({"app": "mlperf", "mlperf_id": "my"}, "comes row by row")],
)
def test_what_needs_a_whole_input_is_refused(
    options: dict[str, object], said: str, model: Path, tmp_path: Path
) -> None:
    with pytest.raises((InputError, NotPossibleError), match=said):
        mlf_sdk.generate(model, tmp_path / "project", board="mps2-an386", stream=True, **options)
    assert not (tmp_path / "project").exists()


def test_an_archive_is_streamed_or_not(model: Path, tmp_path: Path) -> None:
    archive = tmp_path / "rows.tar"
    mlf_sdk.compile(model, archive, stream=True)
    assert mlf_sdk.load(archive).streamed is not None
    with pytest.raises(InputError, match="--stream can't be given"):
        mlf_sdk.load(archive, stream=True)


def test_cases(model: Path, tmp_path: Path, call: Caller) -> None:
    """Whole inputs with their outputs, row by row; a wrong one is noticed."""
    pairs = [expected(model, seed) for seed in range(3)]
    outputs = np.stack([np.frombuffer(wanted, np.int8).reshape(1, -1) for _, wanted in pairs])
    cases = tmp_path / "cases.npz"
    for wrong in (False, True):
        outputs[1] ^= wrong
        np.savez(cases, input=np.stack([image for image, _ in pairs]), **{"0": outputs})
        result = call("test", model, "--board", "host", "--stream", "--cases", cases)
        assert result.code == int(wrong), result.out + result.err
        assert ("case 1" in result.out) == wrong


@pytest.mark.qemu
def test_a_proof(model: Path, call: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proven with its rows in a ring, against a twin that has the whole input."""
    monkeypatch.chdir(tmp_path)
    result = call("proof", model, "--board", "mps2-an386", "--stream", "--for", "ram")
    assert result.code == 0 and "1 proven" in result.out, result.out + result.err
    assert "host twin" in result.out


@pytest.mark.qemu
@pytest.mark.parametrize("board", ["microbit", "mps3-an547"])
def test_a_run_on_a_board(board: str, model: Path, call: Caller) -> None:
    """Equal to the reference and to the host twin, which has the whole input."""
    need_board(board)
    result = call("run", model, "--board", board, "--stream", "--for", "ram")
    assert result.code == 0 and "PASS" in result.out, result.out + result.err
    assert "host twin" in result.out
