# SPDX-License-Identifier: Apache-2.0
"""The dynamic executor end to end: same outputs as the static one, and parameters pushed, cut, killed."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from analysed import load_model
from dynamic_helpers import DIGITS, build_project
from mlf_sdk.cli.main import main
from mlf_sdk.codegen.dynamic import dynamic_model
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.codegen.paramsblob import ParamsBlob
from mlf_sdk.errors import FaultCollector, InputError, TargetError
from mlf_sdk.frontends.mlf.params import parse_params, write_params
from mlf_sdk.pipeline.params import (
    lay_out_params,
    push_params,
    read_source,
    show_params,
)
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.pipeline.request import Request
from mlf_sdk.planner.layout import lay_out
from mlf_sdk.targets.launch import host_slots, open_program, with_slots
from mlf_sdk.targets.qemu import start_qemu
from mlf_sdk.targets.registry import project_target
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.testing.badline import Faults, FaultTransport
from mlf_sdk.tools.process import run_process, start_process
from mlf_sdk.wire.codes import NoAnswerError
from mlf_sdk.wire.params import DeviceParams, ParamsError, ParamsOpcode
from mlf_sdk.wire.session import Session, Timeouts
from mlf_sdk.wire.transport import Deadline, PipeTransport
from planning import plan_project
from serial_helpers import SocketBridge

X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)

pytestmark = pytest.mark.toolchain


class Counted(Progress):
    """Progress that is recorded."""

    def __init__(self, seen: list[tuple[int, int]]) -> None:
        self.seen = seen

    def count(self, done: int, total: int) -> None:
        self.seen.append((done, total))


class Board:
    """A project whose slots are kept while its target comes and goes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = read_lock(folder)
        self.target = project_target(folder, self.lock, TargetChoice())
        self.board = self.target.board
        self.elf = folder / "build/app.elf"

    def forget(self) -> None:
        """Blank slots."""
        for path in self.elf.parent.glob("*_PARAMS_STORE.bin"):
            path.unlink()
        self.target.keep_slots(self.lock, self.elf)

    @contextmanager
    def booted(self) -> Iterator[Session]:
        """The target, ended by a kill."""
        with self.target.open(self.elf, timeout_s=60) as session:
            session.hello()
            yield session

    def output(self) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        """What it answers after a boot."""
        with self.booted() as session:
            shape = session.info.models[0].inputs[0].shape
            return session.infer(0, [X.reshape(shape)])[0]


def own_copy(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project for one process of the tests: its slots are files beside the image."""
    return Path(shutil.copytree(built / "app", tmp_path_factory.mktemp("dynamic") / "app"))


@pytest.fixture(scope="module")
def host(
    once: Callable[[str, Callable[[Path], None]], Path], tmp_path_factory: pytest.TempPathFactory
) -> Board:
    def make(folder: Path) -> None:
        build_project(DIGITS, folder / "app", "host")

    return Board(own_copy(once("dynamic-host", make), tmp_path_factory))


@pytest.fixture(scope="module")
def emulated(
    once: Callable[[str, Callable[[Path], None]], Path],
    needs_qemu: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Board:
    def make(folder: Path) -> None:
        build_project(DIGITS, folder / "app", "mps2-an386")

    return Board(own_copy(once("dynamic-mps2", make), tmp_path_factory))


def new_blob(board: Board, params: Path) -> ParamsBlob:
    with board.booted() as session:
        device = DeviceParams(session, 0)
        return lay_out_params(read_source(params), device.graph(device.info()))


def send(session: Session, opcode: ParamsOpcode, body: bytes) -> bytes:
    return session.extension(opcode, b"\0" + body)


def push_until(session: Session, data: bytes, piece: int, blocks: int, commit: bool) -> None:
    """Begin, write so many blocks, and perhaps commit."""
    send(session, ParamsOpcode.PARAMS_BEGIN, struct.pack("<I", len(data)))
    for block in range(blocks):
        at = block * piece
        send(session, ParamsOpcode.PARAMS_WRITE, struct.pack("<I", at) + data[at : at + piece])
    if commit:
        send(session, ParamsOpcode.PARAMS_COMMIT, b"")


def cut_at_every_block(board: Board, params: Path, piece: int) -> None:
    """Kill the target after each block: the next boot answers with old or new parameters, whole."""
    board.forget()
    old = board.output()
    blob = new_blob(board, params)
    data = blob.pack()
    blocks = -(-len(data) // piece)
    for done in range(blocks + 1):
        with board.booted() as session:
            push_until(session, data, piece, done, commit=False)
        np.testing.assert_array_equal(board.output(), old)
    with board.booted() as session:
        push_until(session, data, piece, blocks, commit=True)
    new = board.output()
    assert np.abs(new - old).max() > 0.1
    for done in (0, 1, blocks):  # and from there on the new ones are the old ones
        with board.booted() as session:
            push_until(session, new_blob(board, DIGITS).pack(), piece, done, commit=False)
        np.testing.assert_array_equal(board.output(), new)
    with board.booted() as session:
        push_until(session, new_blob(board, DIGITS).pack(), piece, blocks, commit=True)
    np.testing.assert_array_equal(board.output(), old)


def test_cut_at_every_block_on_the_host(host: Board, scaled_params: Path) -> None:
    cut_at_every_block(host, scaled_params, 1024)


@pytest.mark.qemu
@pytest.mark.slow
def test_cut_at_every_block_on_qemu(emulated: Board, scaled_params: Path) -> None:
    cut_at_every_block(emulated, scaled_params, 2048)


@pytest.mark.qemu
def test_parameters_outlast_a_boot_of_another_architecture(
    scaled_params: Path, tmp_path: Path, needs_riscv_qemu: None
) -> None:
    """The slots are a part of the only memory of the machine, which the image is loaded to as well."""
    board = Board(build_project(DIGITS, tmp_path / "app", "qemu-virt-rv32"))
    board.forget()
    old, blob = board.output(), new_blob(board, scaled_params)
    data, piece = blob.pack(), 2048
    for commit in (False, True):
        with board.booted() as session:
            push_until(session, data, piece, -(-len(data) // piece), commit=commit)
        assert (np.abs(board.output() - old).max() > 0.1) == commit


@pytest.mark.qemu
def test_parameters_in_flash_are_whole_after_any_write_of_their_record(
    scaled_params: Path, tmp_path: Path, needs_qemu: None
) -> None:
    """The board's own controller writes them. Of the record any word may be the last, whole or in part."""
    board = Board(build_project(DIGITS, tmp_path / "app", "microbit"))
    board.forget()
    old, blob = board.output(), new_blob(board, scaled_params)
    data, piece = blob.pack(), 240
    kept = next(board.elf.parent.glob("*_PARAMS_STORE.bin"))
    assert not any(kept.read_bytes())  # nothing is written at a boot
    for commit in (False, True):
        with board.booted() as session:
            push_until(session, data, piece, -(-len(data) // piece), commit=commit)
        assert (np.abs(board.output() - old).max() > 0.1) == commit
        assert kept.read_bytes()[64 : 64 + len(data)] == data
        assert kept.read_bytes()[:32] != b"\xff" * 32 or not commit
    whole = kept.read_bytes()
    for word in range(8):
        for last in (b"\xff" * 4, bytes(byte | 0x55 for byte in whole[4 * word : 4 * word + 4])):
            torn = whole[: 4 * word] + last + b"\xff" * (28 - 4 * word) + whole[32:]
            if torn != whole:
                kept.write_bytes(torn)
                np.testing.assert_array_equal(board.output(), old)
    kept.write_bytes(whole)
    assert np.abs(board.output() - old).max() > 0.1


@pytest.mark.qemu
def test_same_outputs_as_the_static_executor(emulated: Board, host: Board) -> None:
    emulated.forget()
    host.forget()
    with np.load(DIGITS.parent / "test.npz") as file:
        inputs = {name: file[name][:8] for name in file.files}
    static = mlf_sdk.run(DIGITS, board="mps2-an386", inputs=inputs, expect=inputs)
    assert static.ok and static.compare is not None
    for board in (emulated, host):
        dynamic = mlf_sdk.run(board.folder, inputs=inputs, expect=inputs)
        assert dynamic.ok
        for name, array in static.outputs.items():
            np.testing.assert_array_equal(dynamic.outputs[name], array)


@pytest.mark.qemu
@pytest.mark.shared
@pytest.mark.slow
def test_same_outputs_as_the_static_executor_resnet(
    shared_mlf: Path, needs_qemu: None, tmp_path: Path
) -> None:
    archive = shared_mlf / "resnet8_int8-graph-tvm0.11.1.tar"
    folder = build_project(archive, tmp_path / "app", "mps2-an386")
    static = mlf_sdk.run(archive, board="mps2-an386", twin=False)
    dynamic = mlf_sdk.run(folder)
    for name, array in static.outputs.items():
        np.testing.assert_array_equal(dynamic.outputs[name], array)
    assert dynamic.ok


def test_standalone_application_loads_and_runs(tmp_path: Path) -> None:
    folder = build_project(DIGITS, tmp_path / "app", "host", app="standalone", keep_inputs=True)
    done = run_process([str(folder / "build/app.elf")], timeout_s=60, check=False)
    assert done.returncode == 0
    assert "mlf: model digits ok" in done.stdout
    assert "mlf: done 0" in done.stdout


def test_push_and_show(host: Board, scaled_params: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host.forget()
    target = Request(source=(str(host.folder),))
    before = show_params(target)
    assert (before.info.place, before.info.generation) == ("image", 0)
    assert before.header is not None and before.header.archive_sha256.hex() == before.archive_sha256
    counted: list[tuple[int, int]] = []
    pushed = push_params(scaled_params, target, Counted(counted))
    assert counted[-1][0] == counted[-1][1] == 96 + before.graph.params_bytes
    assert (pushed.info.place, pushed.info.generation) == ("slot 0", 1)
    assert main(["params", "push", str(DIGITS), "--project", str(host.folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["place"], said["generation"], said["params"]["tensors"][0]) == ("slot 1", 2, "p0")
    assert said["params"]["source_sha256"] == said["archive_sha256"]
    assert main(["params", "show", "--project", str(host.folder)]) == 0
    assert "slot 1, generation 2" in capsys.readouterr().out


def test_new_parameters_count_at_once_and_in_the_next_session(host: Board, scaled_params: Path) -> None:
    host.forget()
    with host.booted() as session:
        device = DeviceParams(session, 0)
        shape = session.info.models[0].inputs[0].shape
        old = session.infer(0, [X.reshape(shape)])[0]
        device.push(lay_out_params(read_source(scaled_params), device.graph(device.info())))
        new = session.infer(0, [X.reshape(shape)])[0]
        assert np.abs(new - old).max() > 0.1
        session.hello()
        np.testing.assert_array_equal(session.infer(0, [X.reshape(shape)])[0], new)
    np.testing.assert_array_equal(host.output(), new)


def test_a_bad_line_is_slow_but_never_wrong(host: Board, scaled_params: Path) -> None:
    """Bytes flip, get lost and double: the parameters arrive whole."""
    host.forget()
    blob = new_blob(host, scaled_params)
    slots, environment = host_slots(host.elf), dict(os.environ)
    with start_process([str(host.elf)], env={**environment, **slots}, pipes=True) as process:
        line = FaultTransport(
            PipeTransport(process.stdout_fd, process.stdin_fd, name="host"),
            Faults(flip=5e-4, drop=3e-4, double=2e-4, seed=5),
        )
        timeouts = Timeouts(first_try_s=0.02, back_off=1.3, tries=30)
        with Session(line, timeouts=timeouts) as session:
            session.hello()
            pushed = DeviceParams(session, 0).push(blob)
            assert pushed.info.header_crc == blob.header_crc
    with host.booted() as session:
        info = DeviceParams(session, 0).info()
        assert (info.slot, info.generation, info.header_crc) == (0, 1, blob.header_crc)
        assert session.infer(0, [X.reshape(session.info.models[0].inputs[0].shape)])[0].size == 10


def test_a_silent_line_is_an_error_in_time_and_harmless(host: Board, scaled_params: Path) -> None:
    host.forget()
    old = host.output()
    blob = new_blob(host, scaled_params)
    slots, environment = host_slots(host.elf), dict(os.environ)
    with start_process([str(host.elf)], env={**environment, **slots}, pipes=True) as process:
        line = FaultTransport(PipeTransport(process.stdout_fd, process.stdin_fd, name="host"), Faults())
        with Session(line, timeouts=Timeouts(first_try_s=0.01, tries=3)) as session:
            session.hello()

            def unplug(done: int, _total: int) -> None:
                if done > 8000:
                    line.set_faults(Faults(drop=1.0))

            with pytest.raises(NoAnswerError):
                DeviceParams(session, 0).push(blob, unplug)
    np.testing.assert_array_equal(host.output(), old)


class DeafAfter(PipeTransport):
    """A line that carries no answer any more once ``deaf`` is set."""

    deaf = False

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        if self.deaf:
            deadline = deadline.within(0.01)
        data = super().read(max_bytes, deadline)
        return b"" if self.deaf else data


def test_a_lost_answer_to_the_last_request_leaves_it_open(host: Board, scaled_params: Path) -> None:
    """The new parameters are in force, and the error does not say otherwise."""
    host.forget()
    old = host.output()
    blob = new_blob(host, scaled_params)
    slots, environment = host_slots(host.elf), dict(os.environ)
    with start_process([str(host.elf)], env={**environment, **slots}, pipes=True) as process:
        line = DeafAfter(process.stdout_fd, process.stdin_fd, name="host")
        with Session(line, timeouts=Timeouts(first_try_s=0.5, tries=3)) as session:
            session.hello()

            def deafen(done: int, total: int) -> None:
                line.deaf = done == total

            with pytest.raises(NoAnswerError, match="which may be in force") as error:
                DeviceParams(session, 0).push(blob, deafen)
            assert "mlf-sdk params show" in error.value.hint
            line.deaf = False
            session.hello()
            assert DeviceParams(session, 0).info().header_crc == blob.header_crc
    assert np.abs(host.output() - old).max() > 0.1


@pytest.mark.qemu
def test_push_over_a_port(emulated: Board, scaled_params: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """QEMU's UART behind a pty is a serial port."""
    emulated.forget()
    old = emulated.output()
    machine_board = with_slots(emulated.board, emulated.elf)
    with start_qemu(machine_board, emulated.elf) as machine:
        bridge = SocketBridge(machine.socket)
        try:
            command = ["params", "push", str(scaled_params), "--port", bridge.path, "--json"]
            assert main(command) == 0
            assert json.loads(capsys.readouterr().out)["place"] == "slot 0"
        finally:
            bridge.close()
    assert np.abs(emulated.output() - old).max() > 0.1


def test_what_arrives_damaged_or_in_disorder_is_refused(host: Board, scaled_params: Path) -> None:
    host.forget()
    old = host.output()
    data = bytearray(new_blob(host, scaled_params).pack())
    data[5000] ^= 1
    with host.booted() as session:
        with pytest.raises(TargetError, match="does not know"):
            push_until(session, bytes(data), 1024, -(-len(data) // 1024), commit=True)
        device = DeviceParams(session, 0)
        with pytest.raises(ParamsError, match="under way"):
            device._call(ParamsOpcode.PARAMS_COMMIT)
        with pytest.raises(ParamsError, match="another graph"):
            device._call(ParamsOpcode.PARAMS_BEGIN, struct.pack("<I", len(data) + 16))
        with pytest.raises(TargetError, match="RANGE"):
            send(session, ParamsOpcode.PARAMS_READ, struct.pack("<IH", len(data), 1))
        with pytest.raises(TargetError, match="LENGTH"):
            send(session, ParamsOpcode.PARAMS_INFO, b"\0")
        with pytest.raises(TargetError, match="MODEL"):
            session.extension(ParamsOpcode.PARAMS_INFO, b"\x07")
        with pytest.raises(TargetError, match="CAPACITY"):
            send(session, ParamsOpcode.PARAMS_READ, struct.pack("<IH", 0, 16000))
    np.testing.assert_array_equal(host.output(), old)


def test_other_parameters_are_refused_before_anything_is_sent(
    host: Board, scaled_params: Path, tmp_path: Path
) -> None:
    target = Request(source=(str(host.folder),))
    with pytest.raises(InputError, match="code is not the firmware's"):
        push_params(DIGITS.with_name("digits-graph-tvm0.8.0.tar"), target)
    tensors = parse_params(scaled_params.read_bytes(), "p", FaultCollector("p"))
    path = tmp_path / "wrong.params"
    path.write_bytes(write_params(tensors[1:]))
    with pytest.raises(InputError, match=f"{tensors[0].name}: it is missing"):
        push_params(path, target)
    path.write_bytes(scaled_params.read_bytes()[:-1])
    with pytest.raises(InputError, match="fault"):
        push_params(path, target)
    with pytest.raises(InputError, match="graph executor only"):
        push_params(DIGITS.with_name("digits-aotc-tvm0.11.1.tar"), target)
    with pytest.raises(InputError, match="a project or a port"):
        push_params(scaled_params, Request())


def test_a_static_project_says_what_to_do(tmp_path: Path, needs_host: None) -> None:
    folder = tmp_path / "app"
    mlf_sdk.generate(DIGITS, folder, board="host")
    with pytest.raises(InputError, match="can't be replaced") as caught:
        show_params(Request(source=(str(folder),)))
    assert "--executor graph" in caught.value.hint
    elf = mlf_sdk.build(folder).elf
    with open_program(elf, timeout_s=60) as session:
        session.hello()
        with pytest.raises(InputError, match="can't be replaced"):
            DeviceParams(session, 0).info()


@pytest.mark.parametrize(
    ("archive", "board", "what"),
    [
        ("digits-aotc-tvm0.11.1.tar", "host", "graph executor only"),
        ("digits-graph-tvm0.11.1.tar", "hifive1", "two slots for parameters take"),
    ],
)
def test_what_the_dynamic_executor_cannot_do(archive: str, board: str, what: str) -> None:
    models = [mlf_sdk.load(DIGITS.with_name(archive))]
    options: dict[str, Any] = {"executor": "graph"}
    with pytest.raises(InputError, match=what):
        plan_project(models, board=board, **options).files()


def test_a_static_project_has_no_trace_of_it() -> None:
    plan = plan_project([mlf_sdk.load(DIGITS)], board="mps2-an386")
    files = plan.files()
    assert not [path for path in files if path.startswith(("crt/graph", "crt/params"))]
    assert not any(b"mlf_graph" in data or b"mlf_dynamic" in data for p, data in files.items() if p != "crt")


def test_the_graph_blob_is_the_same_for_the_same_archive() -> None:
    first, second = (dynamic_model(lay_out(load_model(DIGITS))) for _ in range(2))
    assert first.graph.pack() == second.graph.pack()
    assert len(first.graph.pack()) < 2000
    assert first.params.graph_id == first.graph.graph_id
