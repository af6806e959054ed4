# SPDX-License-Identifier: Apache-2.0
"""Locked firmware end to end: the host with OpenSSL and an emulated board with Monocypher; and who stays outside."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from mlf_sdk.cli.main import main
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import InputError, NotPossibleError, TargetError
from mlf_sdk.pipeline.package import make_keys
from mlf_sdk.targets.registry import project_target
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.tools.signing import Signer
from mlf_sdk.wire import frames
from mlf_sdk.wire.codes import DeviceError, Opcode, Status
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import Deadline, Transport

DIGITS = Path(__file__).parents[2] / "examples/digits/digits-graph-tvm0.11.1.tar"
X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)

pytestmark = pytest.mark.toolchain


def build_project(folder: Path, board: str, **options: object) -> Path:
    for tool in ("cmake", "ninja", "gcc" if board == "host" else "arm-none-eabi-gcc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    mlf_sdk.generate(DIGITS, folder, board=board, **options)  # type: ignore[arg-type]
    mlf_sdk.build(folder)
    return folder


class Field:
    """A locked project; its session is opened by ``good.key``."""

    def __init__(self, folder: Path, board: str, **options: object) -> None:
        self.keys = folder
        make_keys(str(folder / "good"), str(folder / "sessions.pem"), [])
        make_keys(str(folder / "foreign"), None, [])
        self.folder = build_project(folder / "app", board, lock=str(folder / "sessions.pem"), **options)
        self.target = project_target(self.folder, read_lock(self.folder), TargetChoice())
        self.elf = self.target.image(self.folder)

    @contextmanager
    def booted(self, key: str | None = "good") -> Iterator[Session]:
        """A session before its hello."""
        with self.target.open(self.elf, timeout_s=60) as session:
            session.signer = None if key is None else Signer(self.keys / f"{key}.key")
            yield session


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Field:
    if not Path("/usr/include/openssl/evp.h").exists():
        pytest.skip("OpenSSL's headers are not installed")
    return Field(tmp_path_factory.mktemp("locked"), "host")


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory, needs_qemu: None) -> Field:
    """A micro:bit with as much stack as a signature takes."""
    if "MONOCYPHER" not in os.environ:
        pytest.skip("MONOCYPHER is not set")
    folder = tmp_path_factory.mktemp("microbit")
    return Field(folder, "microbit", stack="3K", monocypher=os.environ["MONOCYPHER"])


class Recorder:
    """A transport that keeps what was sent through it.

    Args:
        under: what carries it.
    """

    def __init__(self, under: Transport) -> None:
        self.under = under
        self.sent: list[bytes] = []

    def read(self, size: int, deadline: Deadline) -> bytes:
        return self.under.read(size, deadline)

    def write(self, data: bytes, deadline: Deadline) -> None:
        self.sent.append(bytes(data))
        self.under.write(data, deadline)

    def close(self) -> None:
        self.under.close()


def answers_of(session: Session, frame: bytes) -> list[bytes]:
    """Payloads that the device answers a frame with."""
    transport = session.line[0]._transport
    until = Deadline.after(20)
    transport.write(frame, until)
    deframer = frames.Deframer(16384, lambda _: None)
    result: list[bytes] = []
    while not until.expired:
        result += deframer.feed(transport.read(4096, Deadline.after(0.3)))
        if result:
            return result
    return result


def check_opens(field: Field) -> None:
    with field.booted() as session:
        info = session.hello()
        shape = info.models[0].inputs[0].shape
        assert info.build_id
        session.write_inputs(0, [X.reshape(shape)])
        np.testing.assert_array_equal(session.read_input(0, 0), X.reshape(shape))
        session.run(0)
        assert np.ptp(session.read_output(0, 0)) > 0
        assert session.hello().models  # a second session is opened like the first
        with pytest.raises(TargetError, match="STATE"):
            session.read_output(0, 0)


def test_a_key_opens_a_session(host: Field) -> None:
    check_opens(host)


@pytest.mark.qemu
def test_a_key_opens_a_session_with_a_board(emulated: Field) -> None:
    check_opens(emulated)
    check_stays_closed(emulated)


def check_stays_closed(field: Field) -> None:
    with field.booted(None) as session:
        with pytest.raises(TargetError, match=r"locked.*build id: [0-9a-f]{40}"):
            session.hello()
        link, until = session.line[0], Deadline.after(60)
        for opcode in set(Opcode) - {Opcode.HELLO, Opcode.BUILD, Opcode.CHALLENGE, Opcode.OPEN}:
            with pytest.raises(DeviceError) as error:
                link.call(opcode, bytes(5), until)
            assert error.value.status == Status.LOCKED
            assert error.value.body == b""
    with field.booted("foreign") as session, pytest.raises(DeviceError, match="SIGNATURE"):
        session.hello()


def test_nobody_else_gets_anything(host: Field) -> None:
    check_stays_closed(host)


def test_attempts_are_limited(host: Field) -> None:
    with host.booted("foreign") as session:
        for _ in range(4):
            with pytest.raises(DeviceError, match="SIGNATURE"):
                session.hello()
        session.signer = Signer(host.keys / "good.key")
        with pytest.raises(DeviceError, match="too many attempts") as error:
            session.hello()
        assert error.value.hint.startswith("Try again in ")


def test_a_recorded_session_is_worth_nothing(host: Field) -> None:
    """Every frame again, in the session and in the next process; only the last one's reply is repeated."""
    with host.booted() as session:
        link = session.line[0]
        recorder = Recorder(link._transport)
        link._transport = recorder
        shape = session.hello().models[0].inputs[0].shape
        session.infer(0, [X.reshape(shape)])
        link._transport = recorder.under
        output = session.read_output(0, 0)
        for frame in recorder.sent[:-1]:
            for payload in answers_of(session, frame):
                status = int.from_bytes(payload[8:9], "little", signed=True)
                assert status in (Status.SEQUENCE, Status.LOCKED)
                assert len(payload) == 9
        np.testing.assert_array_equal(session.read_output(0, 0), output)
    with host.booted() as session:
        statuses = []
        for frame in recorder.sent:
            for payload in answers_of(session, frame):
                statuses.append(int.from_bytes(payload[8:9], "little", signed=True))
        opened = statuses.index(Status.SIGNATURE)
        assert set(statuses[:opened]) == {Status.OK}
        assert opened <= 3
        assert set(statuses[opened + 1 :]) == {Status.LOCKED, Status.LENGTH}  # HELLO has no body


def test_replies_are_checked_by_the_host(host: Field) -> None:
    """A reply whose bytes are changed, with a good checksum, is not taken."""
    with host.booted() as session:
        shape = session.hello().models[0].inputs[0].shape
        session.infer(0, [X.reshape(shape)])
        link = session.line[0]
        seal = link.seal
        assert seal is not None
        output = session.read_output(0, 0)
        unpack, forged = seal.unpack, []

        def forge(payload: bytes) -> bytes | None:
            changed = bytearray(payload)
            changed[9] ^= 1
            forged.append(unpack(bytes(changed)))
            return unpack(payload)

        seal.unpack = forge  # type: ignore[method-assign]
        np.testing.assert_array_equal(session.read_output(0, 0), output)
        assert forged
        assert set(forged) == {None}


def test_debug_requests_are_not_in_the_image(host: Field, tmp_path: Path) -> None:
    def symbols(elf: Path) -> set[str]:
        said = subprocess.run(["nm", str(elf)], capture_output=True, text=True, check=True).stdout
        return {line.split()[-1] for line in said.splitlines() if line}

    wanted = {"mlf_rpc_do_step", "mlf_rpc_do_advance", "mlf_rpc_do_peek"}
    open_folder = build_project(tmp_path / "open", "host")
    target = project_target(open_folder, read_lock(open_folder), TargetChoice())
    assert wanted <= symbols(target.image(open_folder))
    own = symbols(host.elf)
    assert not wanted & own
    assert "mlf_secure_open" in own


def test_the_commands(host: Field, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(host.folder), "--key", str(host.keys / "good.key")]) == 0
    capsys.readouterr()
    assert main(["run", str(host.folder)]) == 4
    assert "the device is locked" in capsys.readouterr().err
    assert main(["run", str(host.folder), "--key", str(host.keys / "foreign.key")]) == 4
    assert "SIGNATURE" in capsys.readouterr().err
    assert main(["run", str(DIGITS), "--board", "host", "--key", str(host.keys / "good.key")]) == 4
    assert "does not ask for one" in capsys.readouterr().err


@contextmanager
def on_a_port(elf: Path) -> Iterator[str]:
    """The firmware behind a socket, for one connection; yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line, _ = server.accept()
            with line:
                subprocess.run([elf], stdin=line, stdout=line, stderr=subprocess.DEVNULL, timeout=60)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"socket://127.0.0.1:{server.getsockname()[1]}"
        thread.join(60)


def test_a_locked_device_on_a_port_is_verified(host: Field, capsys: pytest.CaptureFixture[str]) -> None:
    for key, code in ((None, 4), ("foreign", 4), ("good", 0)):
        given = [] if key is None else ["--key", str(host.keys / f"{key}.key")]
        with on_a_port(host.elf) as port:
            assert main(["verify", str(host.folder), "--port", port, *given]) == code
        if code:
            assert ("locked" if key is None else "SIGNATURE") in capsys.readouterr().err


def test_an_archive_is_run_locked_and_compared_with_its_twin(host: Field) -> None:
    options = {"lock": str(host.keys / "sessions.pem"), "key": str(host.keys / "good.key")}
    assert mlf_sdk.run(DIGITS, board="host", **options).ok


@pytest.mark.parametrize(
    ("options", "error", "what"),
    [
        ({"board": "mps2-an386", "monocypher": "{}"}, NotPossibleError, "no source of them"),
        ({"board": "microbit"}, InputError, "a library that verifies"),
        ({"board": "microbit", "monocypher": "{}"}, NotPossibleError, "bytes of stack, of which 2,048"),
        ({"board": "host", "app": "standalone"}, InputError, "no sessions to lock"),
    ],
)
def test_what_can_not_be_locked(
    host: Field, tmp_path: Path, options: dict[str, str], error: type[Exception], what: str
) -> None:
    release = tmp_path / "monocypher"
    for name in ("src/monocypher.c", "src/optional/monocypher-ed25519.c"):
        (release / name).parent.mkdir(parents=True, exist_ok=True)
        (release / name).touch()
    given = {name: value.format(release) for name, value in options.items()}
    with pytest.raises(error, match=what):
        mlf_sdk.generate(DIGITS, tmp_path / "x", lock=str(host.keys / "sessions.pem"), **given)
    assert not (tmp_path / "x").exists()
