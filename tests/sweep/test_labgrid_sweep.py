# SPDX-License-Identifier: Apache-2.0
"""Cells on places of a real labgrid coordinator, each a QEMU: they queue, and a dead one is set aside."""

from __future__ import annotations

import http.server
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
from archives import Spec, build, write
from mlf_sdk.errors import TargetError
from mlf_sdk.sweep.engine import Engine, Watcher
from mlf_sdk.sweep.expand import expand
from mlf_sdk.sweep.job import JobResult, Setup
from mlf_sdk.sweep.journal import Journal
from mlf_sdk.sweep.places import held, release_abandoned
from mlf_sdk.sweep.plan import Plan, PlannedModel, checked_plan
from mlf_sdk.sweep.pool import PoolExecutor
from mlf_sdk.sweep.results import read_results
from mlf_sdk.targets.labgridplaces import marked_places

WAIT_S = 30.0
SCRIPTS = Path(sys.executable).parent
pytestmark = [
    pytest.mark.qemu,
    pytest.mark.skipif(
        not (SCRIPTS / "labgrid-coordinator").exists(),
        reason="labgrid is not installed (pip install 'mlf-sdk[labgrid]')",
    ),
]


@dataclass
class Lab:
    archive: Path
    machines: dict[str, subprocess.Popen[bytes]]

    def holder(self, place: str) -> str:
        shown = client("-p", place, "show")
        return next(line for line in shown.splitlines() if "acquired:" in line).partition(":")[2].strip()


def client(*argv: str) -> str:
    done = subprocess.run(
        [SCRIPTS / "labgrid-client", *argv], check=True, capture_output=True, timeout=WAIT_S, text=True
    )
    return done.stdout


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def until(found) -> None:
    deadline = time.monotonic() + WAIT_S
    while not found():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Switch(http.server.BaseHTTPRequestHandler):
    """Power switch of all machines: /MONITOR/VALUE resets the machine with that monitor."""

    def do_GET(self) -> None:
        _, monitor, value = self.path.split("/")
        try:
            with socket.create_connection(("127.0.0.1", int(monitor))) as line:
                if value == "1":
                    line.sendall(b"system_reset\n")
                    time.sleep(0.2)
            self.send_response(200)
        except OSError:
            self.send_response(500)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A coordinator, and two places 'one' and 'two' that hold the same image."""
    archive = write(build(Spec()), tmp_path / "tiny.tar")
    elf = mlf_sdk.build(mlf_sdk.generate(archive, tmp_path / "app", board="mps2-an386").folder).elf
    coordinator, power = free_port(), free_port()
    monkeypatch.setenv("LG_COORDINATOR", f"127.0.0.1:{coordinator}")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", power), Switch)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    started: list[subprocess.Popen[bytes]] = []

    def start(*argv: str | Path) -> subprocess.Popen[bytes]:
        with (tmp_path / f"{len(started)}.log").open("wb") as log:
            started.append(
                subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=tmp_path)
            )
        return started[-1]

    try:
        start(SCRIPTS / "labgrid-coordinator", "-l", f"127.0.0.1:{coordinator}")
        exported, machines = "", {}
        for place in ("one", "two"):
            serial, monitor = free_port(), free_port()
            machines[place] = start(
                *("qemu-system-arm", "-machine", "mps2-an386", "-nodefaults", "-display", "none"),
                *("-nic", "none", "-serial", f"tcp:127.0.0.1:{serial},server=on,wait=off"),
                *("-monitor", f"tcp:127.0.0.1:{monitor},server=on,wait=off", "-kernel", str(elf)),
            )
            until(lambda port=monitor: listening(port))
            exported += (
                f"{place}:\n  NetworkSerialPort:\n    host: 127.0.0.1\n    port: {serial}\n    protocol: raw\n"
                f"  NetworkPowerPort:\n    model: simplerest\n"
                f"    host: 'http://127.0.0.1:{power}/{{index}}/{{value}}'\n    index: '{monitor}'\n"
            )
        (tmp_path / "exporter.yaml").write_text(exported)
        until(lambda: listening(coordinator))
        start(
            SCRIPTS / "labgrid-exporter", "--hostname", "localhost", "-n", "lab", tmp_path / "exporter.yaml"
        )
        until(lambda: "two" in client("resources"))
        for place in machines:
            for argv in (["create"], ["add-match", f"lab/{place}/*"], ["set-tags", "mlf-board=mps2-an386"]):
                client("-p", place, *argv)
        yield Lab(archive, machines)
    finally:
        for process in reversed(started):
            process.kill()
            process.wait(WAIT_S)
        server.shutdown()
        server.server_close()


def planned(lab: Lab, folder: Path, cells: int) -> Plan:
    """Cells that differ in their inputs alone: one build."""
    models = []
    for number in range(cells):
        np.savez(folder / f"x{number}.npz", x=np.full((1, 8), number / 8, np.float32))
        inputs = str(folder / f"x{number}.npz")
        models.append(PlannedModel(name=f"input {number}", source=str(lab.archive), inputs=inputs))
    plan = Plan(models=tuple(models), axes={"board": ["labgrid:one|two"]}, options={"timeout": 20.0})
    return checked_plan(plan, "test")


def test_a_place_that_is_killed_is_set_aside_and_its_cells_finish_on_the_other(
    lab: Lab, tmp_path: Path
) -> None:
    used: list[str] = []

    class Killer(Watcher):
        def ended(self, name: str, result: JobResult | None, why: str = "") -> None:
            if not used:
                lab.machines["one"].kill()
                lab.machines["one"].wait()
            used.append(name)

    found = expand(planned(lab, tmp_path, 6))
    with Journal(tmp_path / "s", create=True) as journal:
        number = journal.add_plan(Plan(), found)
        with PoolExecutor(2, Setup()) as pool:
            left = Engine(journal, pool, found.references, Killer()).run(journal.pending(number))
        rows = read_results(journal, number, left).rows
        assert [(row.verdict, row.why) for row in rows] == [("proven", "")] * 6
        assert set(journal.boards_aside()) == {"labgrid:one"}
        boards = [attempt.board for row in rows for attempt in journal.attempts(row.name)]
        outcomes = [a.outcome for row in rows for a in journal.attempts(row.name)]
    assert "labgrid:one" in boards and boards.count("labgrid:two") >= 4
    assert outcomes.count("proven") == 6 and "board" in outcomes
    assert (lab.holder("one"), lab.holder("two"), marked_places()) == ("None", "None", ())


def test_places_are_acquired_and_released(lab: Lab) -> None:
    with held("labgrid:one"):
        assert lab.holder("one") != "None" and lab.holder("two") == "None"
        assert marked_places() == ("one",)
        assert release_abandoned() == 0, "its holder lives"
    assert lab.holder("one") == "None"
    with pytest.raises(RuntimeError), held("labgrid:one"):
        raise RuntimeError
    assert lab.holder("one") == "None"
    with pytest.raises(TargetError, match="matches nothing"), held("labgrid:three"):
        pass


def test_a_place_of_a_killed_holder_is_released(lab: Lab) -> None:
    code = (
        "import os, signal\nfrom mlf_sdk.sweep.places import held\n"
        "with held('labgrid:one'):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False, timeout=WAIT_S)
    assert lab.holder("one") != "None"
    assert release_abandoned() == 1
    assert (lab.holder("one"), marked_places()) == ("None", ())


def test_a_place_acquired_by_hand_stays_acquired(lab: Lab) -> None:
    client("-p", "two", "acquire")
    with held("labgrid:two"):
        pass
    assert lab.holder("two") != "None"
