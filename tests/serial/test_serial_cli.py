# SPDX-License-Identifier: Apache-2.0
"""Commands for boards on ports; an emulated board behind a pty is run like the emulated board."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from cli_helpers import Caller
from mlf_sdk.pipeline import serial as serial_api
from mlf_sdk.pipeline.firmware import inspect_firmware
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.qemu import QemuOptions, qemu_argv, start_qemu
from mlf_sdk.targets.serial import ports as ports_module
from mlf_sdk.targets.serial.lock import lock_port
from mlf_sdk.targets.serial.ports import Port
from mlf_sdk.targets.serial.session import port_session
from mlf_sdk.targets.serial.stream import open_port
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.testing.badline import Faults, FaultTransport
from mlf_sdk.wire.session import Session, Timeouts
from rpc_models import fake_models
from serial_helpers import PtyDevice, SocketBridge

EXAMPLES = Path(__file__).parents[2] / "examples" / "digits"
ARCHIVE = EXAMPLES / "digits-graph-tvm0.11.1.tar"
BOARD = "mps2-an386"
NEEDS_QEMU = pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="QEMU is not installed")


# ---- ports ----


@pytest.fixture
def two_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        Port(device="/dev/ttyACM0", usb_id="0d28:0204", serial_number="99A", description="probe"),
        Port(device="/dev/ttyUSB3", usb_id="", serial_number="", description=""),
    ]
    monkeypatch.setattr(serial_api, "list_serial_ports", lambda: found)
    monkeypatch.setattr(ports_module, "list_serial_ports", lambda: found)


@pytest.mark.usefixtures("two_ports")
def test_ports_are_listed_with_the_boards_they_may_be(call: Caller) -> None:
    done = call("ports", "--json")
    assert done.code == 0
    first, second = done.value["ports"]
    assert first["port"] == "/dev/ttyACM0" and "microbit" in first["boards"]
    assert second == {
        "port": "/dev/ttyUSB3", "usb_id": None, "serial_number": None, "description": None, "boards": [],
    }  # fmt: skip
    shown = call("ports").out
    assert re.search(r"/dev/ttyACM0 +0d28:0204 +99A +microbit +probe", shown)
    only = call("ports", "--board", "microbit", "--json").value["ports"]
    assert [p["port"] for p in only] == ["/dev/ttyACM0"]
    assert "no serial port has a USB id of mps2-an386" in call("ports", "--board", "mps2-an386").out


# ---- monitor and errors ----


def test_monitor_ends_with_ctrl_c(pty_device: PtyDevice) -> None:
    argv = [sys.executable, "-m", "mlf_sdk", "monitor", "--port", pty_device.path]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        until = time.monotonic() + 20
        while time.monotonic() < until:
            pty_device.say(b"tick\n")
            if select.select([process.stdout], [], [], 0.2)[0]:
                break
        assert process.stdout.readline() == b"tick\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


def test_errors_of_ports_name_the_port(pty_device: PtyDevice, call: Caller, tmp_path: Path) -> None:
    missing = call("monitor", "--port", "/dev/ttyACM99")
    assert missing.code == 4 and missing.block()["where"] == "/dev/ttyACM99"
    with lock_port(pty_device.path):
        busy = call("verify", ARCHIVE, "--port", pty_device.path)
    assert busy.code == 4
    assert f"in use by process {os.getpid()} (" in busy.block()["what"]
    alone = call("run", ARCHIVE, "--baud", "9600")
    assert alone.code == 2 and "--port" in alone.err
    assert call("verify", ARCHIVE).code == 2


def test_two_processes_on_one_port(pty_device: PtyDevice, call: Caller) -> None:
    argv = [sys.executable, "-m", "mlf_sdk", "monitor", "--port", pty_device.path]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        until = time.monotonic() + 20
        while not select.select([process.stdout], [], [], 0.2)[0] and time.monotonic() < until:
            pty_device.say(b"tick\n")
        second = call("monitor", "--port", pty_device.path, "--timeout", "1")
        process.kill()
    assert second.code == 4
    assert f"in use by process {process.pid} (" in second.block()["what"]
    assert f"monitor --port {pty_device.path}" in second.block()["what"]


# ---- verify ----


def test_verify_a_device_that_holds_something_else(pty_device: PtyDevice, call: Caller) -> None:
    done = call("verify", ARCHIVE, "--port", pty_device.path, "--json")
    assert done.code == 1 and done.value["ok"] is False
    assert [m["found"] for m in done.value["models"]] == [False]
    assert done.value["device"][0]["name"] == "twins"
    shown = call("verify", ARCHIVE, "--port", pty_device.path)
    assert shown.code == 1 and "FAIL" in shown.out and "twins" in shown.out


def test_strings_of_a_device_drive_no_terminal(pty_device: PtyDevice, call: Caller) -> None:
    """Line feeds, escape sequences, C1 controls and marks of direction; in text, in JSON, and in errors."""
    evil = "x\n  PASS\x1b[2J\x9b1m\u202ekcab\u2066"
    pty_device.device.models[0].name = pty_device.device.sdk_version = evil
    harmless = r"x\n  PASS\x1b[2J\x9b1m\u202ekcab\u2066"
    shown = call("verify", ARCHIVE, "--port", pty_device.path)
    assert harmless in shown.out
    as_json = call("verify", ARCHIVE, "--port", pty_device.path, "--json").value
    assert as_json["sdk_version"] == as_json["device"][0]["name"] == harmless
    refused = call("run", ARCHIVE, "--port", pty_device.path)
    assert refused.code == 4 and "does not hold the model" in refused.err
    for text in (shown.out, refused.err):
        assert all(char.isprintable() or char == "\n" for char in text)


def test_verify_compares_the_sdk_of_a_project(call: Caller, tmp_path: Path) -> None:
    assert call("generate", ARCHIVE, "-o", tmp_path / "app", "--board", BOARD).code == 0
    sha = json.loads((tmp_path / "app" / "mlf-project.json").read_text())["models"][0]["archive_sha256"]
    models = fake_models()
    models[0].archive_sha256 = bytes.fromhex(sha)
    with PtyDevice() as device:
        device.device.models[:] = models[:3]
        archive = call("verify", ARCHIVE, "--port", device.path, "--json")
        assert (archive.code, archive.value["ok"]) == (0, True)
        project = call("verify", tmp_path / "app", "--port", device.path, "--json")
        assert (project.code, project.value["sdk_version"]) == (1, "1.2.3")


def test_verify_compares_the_build_id(call: Caller, project: Path) -> None:
    """The same model in another image is not the same firmware; an archive can be in any image."""
    elf = project / "build" / "app.elf"
    found = inspect_firmware(elf)
    models = fake_models()[:1]
    models[0].archive_sha256 = bytes.fromhex(found.provenance.models[0].archive_sha256)
    with PtyDevice() as device:
        device.device.models[:] = models
        device.device.sdk_version = found.provenance.sdk
        for build_id, ok in ((bytes.fromhex(found.build_id), True), (b"\x01" * 20, False), (b"", False)):
            device.device.build_id = build_id
            for target in (project, elf):
                done = call("verify", target, "--port", device.path, "--json")
                assert (done.code, done.value["ok"]) == (0 if ok else 1, ok)
                assert done.value["build_id"] == (build_id.hex() or None)
                assert done.value["expected_build_id"] == found.build_id
            assert call("verify", ARCHIVE, "--port", device.path).code == 0
        shown = " ".join(call("verify", project, "--port", device.path).out.split())
        assert f"build id {found.build_id} FAIL board runs an image without a build id" in shown
        device.device.build_id = bytes.fromhex(found.build_id)
        device.device.models += fake_models()[1:2]
        more = call("verify", elf, "--port", device.path, "--json")
        assert (more.code, len(more.value["device"])) == (1, 2)


def test_verify_of_a_project_that_is_not_built(call: Caller, project: Path, tmp_path: Path) -> None:
    shutil.copytree(project, tmp_path / "app", ignore=shutil.ignore_patterns("build"))
    said = inspect_firmware(project / "build" / "app.elf").provenance
    models = fake_models()[:1]
    models[0].archive_sha256 = bytes.fromhex(said.models[0].archive_sha256)
    with PtyDevice() as device:
        device.device.models[:] = models
        device.device.sdk_version = said.sdk
        done = call("verify", tmp_path / "app", "--port", device.path)
    assert done.code == 0
    assert "not compared: the project is not built" in " ".join(done.out.split())


def test_verify_a_device_that_is_silent(call: Caller) -> None:
    with PtyDevice(lambda data: b"") as silent:
        done = call("verify", ARCHIVE, "--port", silent.path, "--timeout", "1")
        assert done.code == 4 and "did not answer HELLO" in done.err


def test_a_silent_port_says_what_the_image_expects(call: Caller) -> None:
    with PtyDevice(lambda data: b"") as silent:
        port = ("--port", silent.path, "--timeout", "1")
        done = call("run", ARCHIVE, *port, "--board", "nucleo-f411re", "--baud", "9600")
        other = call("run", ARCHIVE, *port, "--board", "mps2-an386")
    assert done.code == other.code == 4
    said = " ".join(done.err.split())
    assert "a clock of 42,000,000 Hz at the UART, and the line at 115,200 baud" in said
    assert "opened with 9,600 baud" in said
    assert "mlf_init_failed" in said and "mlf-sdk debug DIR --no-load" in said
    assert "transmit and receive are crossed" in other.err
    assert "mlf_init_failed" not in other.err and "opened with" not in other.err


# ---- an emulated board behind a pty ----


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits") / "app"
    mlf_sdk.generate(ARCHIVE, folder, board=BOARD)
    mlf_sdk.build(folder)
    return folder


@pytest.fixture
def qemu_port(project: Path) -> Iterator[str]:
    """A pty that QEMU itself opens (``-chardev pty``)."""
    elf = project / "build" / "app.elf"
    argv = qemu_argv(find_board(BOARD), elf, console_fd=0, options=QemuOptions())
    argv = ["pty,id=console" if a.startswith("socket,id=console") else a for a in argv]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"char device redirected to (\S+)", line):
                break
        assert found is not None
        yield found[1]
        process.kill()


@NEEDS_QEMU
@pytest.mark.qemu
def test_run_over_a_pty_of_the_emulator(project: Path, qemu_port: str, call: Caller, tmp_path: Path) -> None:
    few = {name: array[:40] for name, array in np.load(EXAMPLES / "test.npz").items()}
    np.savez(tmp_path / "few.npz", **few)
    tests = ("--inputs", tmp_path / "few.npz", "--expect", tmp_path / "few.npz", "--json")
    over_port = call("run", project, "--port", qemu_port, *tests)
    assert over_port.code == 0, over_port.err
    emulated = call("run", project, *tests)
    for key in ("ok", "inferences", "accuracy", "compare", "memory", "outputs"):
        assert over_port.value[key] == emulated.value[key], key
    verified = call("verify", project, "--port", qemu_port, "--json")
    assert (verified.code, verified.value["ok"]) == (0, True)
    assert verified.value["build_id"] == verified.value["expected_build_id"]
    assert call("verify", project / "build" / "app.elf", "--port", qemu_port).code == 0
    assert call("verify", ARCHIVE, "--port", qemu_port).code == 0
    checked = call("check", project, "--port", qemu_port, "--json")
    assert checked.code == 0, checked.err
    arena = next(row for row in checked.value["rows"] if row["item"] == "arena")
    assert arena["measured"] == arena["planned"]
    with lock_port(qemu_port):
        second = call("run", project, "--port", qemu_port, *tests)
    assert second.code == 4 and f"process {os.getpid()} (" in second.err


@NEEDS_QEMU
@pytest.mark.qemu
def test_the_image_of_another_archive_is_refused(project: Path, qemu_port: str, call: Caller) -> None:
    other = EXAMPLES / "digits-graph-tvm0.8.0.tar"
    done = call("run", other, "--board", BOARD, "--port", qemu_port)
    assert done.code == 4 and "does not hold the model" in done.block()["what"]
    assert call("verify", other, "--port", qemu_port).code == 1


@NEEDS_QEMU
@pytest.mark.qemu
def test_figures_of_another_image_of_the_model_are_refused(
    project: Path, qemu_port: str, call: Caller, tmp_path: Path
) -> None:
    app = tmp_path / "app"
    assert call("generate", ARCHIVE, "-o", app, "--board", BOARD, "--cflags=-Os -ffp-contract=off").code == 0
    samples, junit, port = EXAMPLES / "test.npz", tmp_path / "junit.xml", ("--port", qemu_port)
    few = {name: array[:3] for name, array in np.load(samples).items()}
    np.savez(tmp_path / "few.npz", **few)
    cases = ("--cases", tmp_path / "few.npz")
    for command in (
        ("run", app, "--no-twin", *port),
        ("run", ARCHIVE, "--board", BOARD, "--no-twin", "--image", app, *port),
        ("check", app, *port),
        ("test", app, *cases, *port),
        ("profile", app, *port),
        ("report", app, *port),
        ("compare", app, "--archive", ARCHIVE, "--on", f"host,port:{qemu_port}"),
        ("params", "show", "--project", app, *port),
    ):
        done = call(*command)
        assert done.code == 4, command
        assert "the board runs another image of the same model: build id" in done.block()["what"], command
    held = inspect_firmware(project / "build" / "app.elf").build_id
    ran = call("run", ARCHIVE, "--no-twin", "--image", project / "build" / "app.elf", *port, "--json")
    assert (ran.code, ran.value["build_id"]) == (0, held)
    assert call("test", project, *cases, *port, "--junit", junit).code == 0
    assert f'<property name="build_id" value="{held}" />' in junit.read_text()


@NEEDS_QEMU
@pytest.mark.qemu
@pytest.mark.parametrize("board", [BOARD, "mps2-an385"])
def test_another_image_behind_a_port_is_never_reported_as_the_board(
    board: str, project: Path, qemu_port: str, call: Caller, tmp_path: Path
) -> None:
    """The model of an archive runs in whatever image holds it: nothing of an image built here is shown for it."""
    held = inspect_firmware(project / "build" / "app.elf").build_id
    argv = ("run", ARCHIVE, "--board", board, "--port", qemu_port, "--cflags=-Os -ffp-contract=off")
    ran = call(*argv, "--json")
    assert (ran.code, ran.value["build_id"]) == (0, held)
    assert held in ran.value["other_image"]
    assert ran.value["verdict"] == "RAN ON AN IMAGE NOT KNOWN HERE"
    check = ran.value["check"]
    assert (check["regions"], check["kernels"], check["groups"]) == ([], [], [])
    assert [row["item"] for row in check["rows"] if row["state"] == "proven"] == ["guards"]
    assert ran.value["memory"]["arena_high_water_bytes"] is None
    shown = call(*argv)
    assert board not in shown.out.replace(ran.value["other_image"], "").split("memory")[0].split("image ")[0]
    assert "flash" not in shown.out.split("memory")[0].split("image ")[0] and "PASS\n" in shown.out
    assert shown.out.splitlines()[-1].startswith("verdict    RAN ON AN IMAGE NOT KNOWN HERE")
    assert call(*argv, "--strict").code == 1
    report = call("report", *argv[1:], "-o", tmp_path / "page.html", "--no-profile")
    assert report.code == 4 and "another image" in report.block()["what"]
    assert not (tmp_path / "page.html").exists()


@NEEDS_QEMU
@pytest.mark.qemu
def test_cases_and_profile_of_an_archive_on_a_port_name_no_board(
    project: Path, qemu_port: str, call: Caller, tmp_path: Path
) -> None:
    np.savez(tmp_path / "few.npz", **{name: a[:3] for name, a in np.load(EXAMPLES / "test.npz").items()})
    cases = call("test", ARCHIVE, "--cases", tmp_path / "few.npz", "--port", qemu_port)
    assert cases.code == 0 and BOARD not in cases.out
    assert inspect_firmware(project / "build" / "app.elf").build_id in cases.out
    profiled = call("profile", ARCHIVE, "--runs", "1", "--port", qemu_port, "--json").value
    assert (profiled["board"], profiled["unit"]) == (qemu_port, "ticks")
    same = call("profile", project, "--runs", "1", "--port", qemu_port, "--json").value
    assert (same["board"], same["unit"]) == (BOARD, "cycles")


def test_a_board_that_does_not_tell_its_build_id_is_refused(call: Caller, project: Path) -> None:
    """Nothing shows that it runs the image; an archive can be in any."""
    said = inspect_firmware(project / "build" / "app.elf").provenance
    models = fake_models()[:1]
    models[0].archive_sha256 = bytes.fromhex(said.models[0].archive_sha256)
    with PtyDevice() as device:
        device.device.models[:] = models
        done = call("profile", project, "--port", device.path)
        assert done.code == 4 and "does not report its build id" in done.block()["what"]
    assert "--image is for a port" in call("run", project, "--image", project).err


@NEEDS_QEMU
@pytest.mark.qemu
def test_inferences_on_the_emulator_over_a_bad_line(project: Path) -> None:
    samples = np.load(EXAMPLES / "test.npz")
    board = find_board(BOARD)
    with start_qemu(board, project / "build" / "app.elf") as machine:
        bridge = SocketBridge(machine.socket)
        try:
            clean = TargetChoice(port=bridge.path)
            with port_session(clean, board=board, timeout_s=30) as session:
                tensor = session.hello().models[0].inputs[0]
                inputs = samples[tensor.name][:30].reshape((30, *tensor.shape))
                expected = [session.infer(0, [sample])[0] for sample in inputs]
            line = FaultTransport(open_port(bridge.path), Faults(flip=1e-3, drop=1e-3, double=1e-3, seed=3))
            timeouts = Timeouts(first_try_s=0.1, back_off=1.3, tries=25, hello_retry_s=0.2)
            with Session(line, timeouts=timeouts) as session:
                session.hello()
                for sample, wanted in zip(inputs, expected, strict=True):
                    np.testing.assert_array_equal(session.infer(0, [sample])[0], wanted)
                assert session.stats(0).dropped_frames > 0
        finally:
            bridge.close()
