# SPDX-License-Identifier: Apache-2.0
"""A place of a real labgrid coordinator as the board: QEMU's UART behind its serial port, QEMU's reset its power."""

from __future__ import annotations

import http.server
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from archives import Spec, build, reference, write
from mlf_sdk.cli.main import main
from mlf_sdk.errors import InputError, TargetError, ToolError
from mlf_sdk.pipeline.firmware import load_firmware
from mlf_sdk.targets.labgrid import open_place
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.targets.target import Ability, TargetChoice
from mlf_sdk.wire.codes import PortBusyError
from rpc_models import SUM, X, Y
from serial_helpers import PtyDevice

WAIT_S = 20.0
SCRIPTS = Path(sys.executable).parent

needs_labgrid = pytest.mark.skipif(
    not (SCRIPTS / "labgrid-coordinator").exists(),
    reason="labgrid is not installed (pip install 'mlf-sdk[labgrid]')",
)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(found) -> None:
    deadline = time.monotonic() + WAIT_S
    while not found():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


@dataclass
class Lab:
    archive: Path
    switched: list[str]

    def client(self, *argv: str) -> None:
        subprocess.run([SCRIPTS / "labgrid-client", *argv], check=True, capture_output=True, timeout=WAIT_S)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A coordinator, an exporter of one board, and the board: QEMU; a place 'desk' that is acquired."""
    folder = tmp_path_factory.mktemp("lab")
    serial, monitor, power, coordinator = (free_port() for _ in range(4))
    started: list[subprocess.Popen[bytes]] = []
    switched: list[str] = []

    def start(*argv: str | Path) -> None:
        with (folder / f"{len(started)}.log").open("wb") as log:
            started.append(
                subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
            )

    class Switch(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            switched.append(self.path)
            if self.path.endswith("/1"):
                with socket.create_connection(("127.0.0.1", monitor)) as line:
                    line.sendall(b"system_reset\n")
                    time.sleep(0.2)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", power), Switch)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    patch = pytest.MonkeyPatch()
    patch.setenv("LG_COORDINATOR", f"127.0.0.1:{coordinator}")
    try:
        archive = write(build(Spec()), folder / "tiny.tar")
        mlf_sdk.generate(archive, folder / "app", board="mps2-an386")
        elf = mlf_sdk.build(folder / "app").elf
        start(
            *("qemu-system-arm", "-machine", "mps2-an386", "-nodefaults", "-display", "none", "-nic", "none"),
            *("-serial", f"tcp:127.0.0.1:{serial},server=on,wait=off"),
            *("-monitor", f"tcp:127.0.0.1:{monitor},server=on,wait=off", "-kernel", str(elf)),
        )
        start(SCRIPTS / "labgrid-coordinator", "-l", f"127.0.0.1:{coordinator}")
        until(lambda: listening(coordinator))
        (folder / "exporter.yaml").write_text(
            f"desk:\n  NetworkSerialPort:\n    host: 127.0.0.1\n    port: {serial}\n    protocol: raw\n"
            f"  NetworkPowerPort:\n    model: simplerest\n    host: 'http://127.0.0.1:{power}/{{index}}/{{value}}'\n"
            "    index: '0'\n"
        )
        start(SCRIPTS / "labgrid-exporter", "--hostname", "localhost", "-n", "lab", folder / "exporter.yaml")
        found = Lab(archive, switched)
        until(lambda: "desk" in listed("resources"))
        for argv in (
            ["create"],
            ["add-match", "lab/desk/*"],
            ["set-tags", "mlf-board=mps2-an386"],
            ["acquire"],
        ):
            found.client("-p", "desk", *argv)
        found.client("-p", "shelf", "create")
        yield found
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(WAIT_S)
        server.shutdown()
        server.server_close()
        patch.undo()


def listed(what: str) -> str:
    return subprocess.run(
        [SCRIPTS / "labgrid-client", what], capture_output=True, text=True, timeout=WAIT_S
    ).stdout


def cases(path: Path) -> Path:
    x = np.random.default_rng(3).standard_normal((4, 1, 8)).astype(np.float32)
    np.savez(path, **{"x": x, "0": np.stack([reference(Spec(), one) for one in x])})
    return path


@needs_labgrid
@pytest.mark.qemu
def test_a_place_is_a_board(lab: Lab, tmp_path: Path, capsys) -> None:
    """Its power is cycled, its port is used, its outputs are right."""
    lab.switched.clear()
    argv = [
        "test",
        str(lab.archive),
        "--cases",
        str(cases(tmp_path / "c.npz")),
        "--board",
        "labgrid:desk",
        "--json",
    ]
    assert main(argv) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["ok"], value["board"], value["counts"]["passed"]) == (True, "mps2-an386", 4)
    assert value["port"] == "labgrid:desk"
    assert lab.switched == ["/0/0", "/0/1"]
    assert main(["run", str(lab.archive), "--board", "labgrid:desk", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["ok"], value["board"]) == (True, "mps2-an386")


@needs_labgrid
@pytest.mark.qemu
def test_a_place_in_pytest(lab: Lab, tmp_path: Path) -> None:
    shutil.copy(lab.archive, tmp_path / "tiny.tar")
    (tmp_path / "test_it.py").write_text(
        "import numpy as np\n\n\ndef test_one(mlf_model):\n"
        "    assert mlf_model('tiny.tar').infer(np.ones((1, 8), np.float32))[0].shape == (1, 8)\n"
    )
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--rootdir",
        tmp_path,
        "--mlf-board",
        "labgrid:desk",
        tmp_path,
    ]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=240, cwd=tmp_path, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


@needs_labgrid
def test_places_that_can_not_be_used(lab: Lab) -> None:
    with pytest.raises(TargetError, match="matches nothing"), open_place("labgrid:nowhere"):
        pass
    with pytest.raises(TargetError, match="not acquired") as caught, open_place("labgrid:shelf"):
        pass
    assert "labgrid-client -p shelf acquire" in caught.value.hint
    lab.client("-p", "shelf", "acquire")
    with pytest.raises(InputError, match="tag mlf-board"), open_place("labgrid:shelf"):
        pass
    lab.client("-p", "shelf", "set-tags", "mlf-board=mps2-an386")
    with (
        pytest.raises(TargetError, match="the place has no resources") as caught,
        open_place("labgrid:shelf"),
    ):
        pass
    assert "Is the exporter running" in caught.value.hint


@needs_labgrid
def test_no_coordinator() -> None:
    environ = {"LG_COORDINATOR": f"127.0.0.1:{free_port()}"}
    with (
        pytest.raises(TargetError, match="no labgrid coordinator answers"),
        open_place("labgrid:desk", environ),
    ):
        pass


def test_names_and_ports() -> None:
    with pytest.raises(InputError, match="no place was named"):
        resolve_target(TargetChoice(board="labgrid:"))
    with pytest.raises(InputError, match="has its port"):
        resolve_target(TargetChoice(board="labgrid:desk", port="/dev/x"))


@needs_labgrid
@pytest.mark.qemu
def test_a_place_is_an_attached_target(lab: Lab) -> None:
    target = resolve_target(TargetChoice(board="labgrid:desk"))
    assert (target.name, target.board.name) == ("labgrid:desk", "mps2-an386")
    assert target.attached and target.abilities == Ability.BUILD | Ability.RESET | Ability.KEEP
    lab.switched.clear()
    target.reset()
    assert lab.switched == ["/0/0", "/0/1"]
    with target.open(None, timeout_s=30) as session:
        assert [model.name for model in session.hello().models] == ["tiny"]


@pytest.mark.skipif((SCRIPTS / "labgrid-coordinator").exists(), reason="labgrid is installed")
def test_labgrid_is_missing() -> None:
    with pytest.raises(ToolError, match="labgrid is not installed") as caught:
        resolve_target(TargetChoice(board="labgrid:desk"))
    assert "mlf-sdk[labgrid]" in caught.value.hint


# ---- local environments, without a coordinator ----

needs_environments = pytest.mark.skipif(
    importlib.util.find_spec("labgrid") is None,
    reason="labgrid is not installed (pip install 'mlf-sdk[labgrid]')",
)
EMULATED = """
targets:
  main:
    options: {mlf-board: mps2-an386}
    drivers:
      QEMUDriver:
        {qemu_bin: qemu, machine: mps2-an386, cpu: cortex-m4, memory: 16M, extra_args: "", kernel: app, nic: none}
images: {app: none.elf}
tools: {qemu: /usr/bin/qemu-system-arm}
"""
WIRED = """
targets:
  desk:
    options: {{mlf-board: mps2-an386}}
    resources:
      RawSerialPort: {{port: {port}, speed: 115200}}
    drivers:
      SerialDriver: {{}}
  nameless:
    drivers: {{}}
"""


@needs_environments
@pytest.mark.qemu
def test_the_emulator_of_an_environment_boots_the_image(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text(EMULATED)
    archive = write(build(Spec()), tmp_path / "tiny.tar")
    mlf_sdk.generate(archive, tmp_path / "app", board="mps2-an386")
    elf = mlf_sdk.build(tmp_path / "app").elf
    target = resolve_target(TargetChoice(board=f"labgrid:{tmp_path / 'env.yaml'}"))
    assert target.board.name == "mps2-an386" and Ability.RESET in target.abilities
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)
    with target.open(elf, timeout_s=60) as session:
        assert session.hello().build_id == load_firmware(elf).build_id
        np.testing.assert_allclose(session.infer(0, {"x": x})[0], reference(Spec(), x), rtol=1e-5)


@needs_environments
def test_the_serial_port_of_an_environment(tmp_path: Path) -> None:
    path = tmp_path / "env.yaml"
    with PtyDevice() as device:
        path.write_text(WIRED.format(port=device.path))
        target = resolve_target(TargetChoice(board=f"labgrid:{path}:desk"))
        assert Ability.RESET not in target.abilities
        with target.open(None, timeout_s=60) as session:
            assert len(session.hello().models) == 3
            np.testing.assert_array_equal(session.infer(0, [X, Y])[0], SUM)
            with pytest.raises(PortBusyError), target.open(None, timeout_s=60):
                pass
        with pytest.raises(InputError, match="no power driver"):
            target.reset()
        with pytest.raises(InputError, match="mlf-board"):
            resolve_target(TargetChoice(board=f"labgrid:{path}:nameless"))
        with pytest.raises(InputError, match="no target 'main'"):
            resolve_target(TargetChoice(board=f"labgrid:{path}"))
    with pytest.raises(InputError, match="no such environment"):
        resolve_target(TargetChoice(board="labgrid:nowhere.yaml"))
