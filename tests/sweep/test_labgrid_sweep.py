# SPDX-License-Identifier: Apache-2.0
"""Cells on places of a real labgrid coordinator, each a QEMU: they queue, and a dead one is set aside."""

from __future__ import annotations

import http.server
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
import mlf_sdk.sweep.job
from archives import Spec, build, reference, write
from mlf_sdk.errors import TargetError
from mlf_sdk.pipeline.cell import Reference
from mlf_sdk.sweep.engine import Engine
from mlf_sdk.sweep.events import Watcher
from mlf_sdk.sweep.expand import expand
from mlf_sdk.sweep.job import Job, JobResult, Setup, run_job
from mlf_sdk.sweep.journal import Journal
from mlf_sdk.sweep.places import held, release_abandoned
from mlf_sdk.sweep.plan import Plan, PlannedModel, checked_plan
from mlf_sdk.sweep.pool import PoolExecutor
from mlf_sdk.sweep.results import read_results
from mlf_sdk.targets.labgrid import open_coordinator
from mlf_sdk.targets.labgridplaces import marked_places, tagged_places

WAIT_S = 30.0
LOG = "coordinator.log"
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
    elf: Path
    folder: Path
    ports: dict[str, tuple[int, int]]
    machines: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    services: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def holder(self, place: str) -> str | None:
        with open_coordinator() as found:
            return found.session.get_place(place).acquired

    def serve(self) -> None:
        """Start the coordinator and the exporter, and state the places as their owner does."""
        address = os.environ["LG_COORDINATOR"]
        self.services.append(started(self.folder / LOG, SCRIPTS / "labgrid-coordinator", "-l", address))
        until(lambda: listening(int(address.rpartition(":")[2])))
        exporter = ("--hostname", "localhost", "-n", "lab", self.folder / "exporter.yaml")
        self.services.append(started(self.folder / "exporter.log", SCRIPTS / "labgrid-exporter", *exporter))
        until(has_exporter)
        with open_coordinator() as found:
            known = [name for name, place in found.session.places.items() if place.tags]
        for place in self.ports.keys() - set(known):
            ask("AddPlace", name=place)
            ask("AddPlaceMatch", placename=place, pattern=f"lab/{place}/*")
            ask("SetPlaceTags", placename=place, tags={"mlf-board": "mps2-an386"})

    def end_services(self) -> None:
        while self.services:
            process = self.services.pop()
            process.kill()
            process.wait(WAIT_S)

    def switch_on(self) -> None:
        """Start the machines that don't run."""
        for place, (serial, monitor) in self.ports.items():
            if place not in self.machines or self.machines[place].poll() is not None:
                self.machines[place] = started(
                    self.folder / f"{place}.log",
                    *("qemu-system-arm", "-machine", "mps2-an386", "-nodefaults", "-display", "none"),
                    *("-nic", "none", "-serial", f"tcp:127.0.0.1:{serial},server=on,wait=off"),
                    *("-monitor", f"tcp:127.0.0.1:{monitor},server=on,wait=off", "-kernel", str(self.elf)),
                )
            until(lambda port=monitor: listening(port))


def started(log: Path, *argv: str | Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=log.parent)


def ask(what: str, **fields: object) -> None:
    """Send a request to the coordinator, as labgrid-client does."""
    from labgrid.remote.generated import labgrid_coordinator_pb2 as messages

    async def send(session: Any) -> None:
        await getattr(session.stub, what)(getattr(messages, f"{what}Request")(**fields))

    with open_coordinator() as found:
        found.run(send(found.session))


def has_exporter() -> bool:
    with open_coordinator() as found:
        return "two" in found.session.resources.get("lab", {})


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


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A coordinator, and two places 'one' and 'two' that hold the same image."""
    folder = tmp_path_factory.mktemp("lab")
    archive = write(build(Spec()), folder / "tiny.tar")
    elf = mlf_sdk.build(mlf_sdk.generate(archive, folder / "app", board="mps2-an386").folder).elf
    lab = Lab(archive, elf, folder, {place: (free_port(), free_port()) for place in ("one", "two")})
    port, power = free_port(), free_port()
    exported = "".join(
        f"{place}:\n  NetworkSerialPort:\n    host: 127.0.0.1\n    port: {serial}\n    protocol: raw\n"
        f"  NetworkPowerPort:\n    model: simplerest\n"
        f"    host: 'http://127.0.0.1:{power}/{{index}}/{{value}}'\n    index: '{monitor}'\n"
        for place, (serial, monitor) in lab.ports.items()
    )
    (folder / "exporter.yaml").write_text(exported)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", power), Switch)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LG_COORDINATOR", f"127.0.0.1:{port}")
            lab.serve()
            yield lab
    finally:
        lab.end_services()
        for process in lab.machines.values():
            process.kill()
            process.wait(WAIT_S)
        server.shutdown()
        server.server_close()


@pytest.fixture
def lab(coordinator: Lab) -> Lab:
    """The places with both machines on."""
    coordinator.switch_on()
    return coordinator


def planned(lab: Lab, folder: Path, cells: int, **options: object) -> Plan:
    """Cells that differ in their inputs alone: one build."""
    models = []
    for number in range(cells):
        np.savez(folder / f"x{number}.npz", x=np.full((1, 8), number / 8, np.float32))
        inputs = str(folder / f"x{number}.npz")
        models.append(PlannedModel(name=f"input {number}", source=str(lab.archive), inputs=inputs))
    board = {"board": ["labgrid:one|two"]}
    plan = Plan(models=tuple(models), axes=board, options={"timeout": 20.0, **options})
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
    assert (lab.holder("one"), lab.holder("two"), marked_places()) == (None, None, ())


def test_a_coordinator_that_is_restarted_costs_no_board(lab: Lab, tmp_path: Path) -> None:
    """It is gone while cells run and while others wait for a place; they go on when it is back."""
    ended: list[str] = []
    gone: list[str] = []

    class Killer(Watcher):
        def started(self, name: str, worker: str) -> None:
            if ended and not gone:
                gone.append(name)
                lab.end_services()
                back.start()

        def ended(self, name: str, result: JobResult | None, why: str = "") -> None:
            ended.append(name)

    back = threading.Timer(6.0, lab.serve)
    found = expand(planned(lab, tmp_path, 6))
    with Journal(tmp_path / "s", create=True) as journal:
        number = journal.add_plan(Plan(), found)
        with PoolExecutor(2, Setup()) as pool:
            left = Engine(journal, pool, found.references, Killer()).run(journal.pending(number))
        back.join(WAIT_S)
        rows = read_results(journal, number, left).rows
        assert [(row.verdict, row.why) for row in rows] == [("proven", "")] * 6
        assert journal.boards_aside() == {}
        logs = [journal.log(row.name) for row in rows]
    assert any("waiting for the coordinator" in log for log in logs)
    until(lambda: release_abandoned() == 0)
    assert (lab.holder("one"), lab.holder("two"), marked_places()) == (None, None, ())


def test_a_coordinator_that_does_not_come_back_is_said(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = expand(planned(lab, tmp_path, 1)).cells
    monkeypatch.setattr(mlf_sdk.sweep.job, "COORDINATOR_S", 0.1)
    monkeypatch.setattr(mlf_sdk.sweep.job, "_CONNECTION_S", 1e9)
    monkeypatch.setenv("LG_COORDINATOR", f"127.0.0.1:{free_port()}")
    result = run_job(Job(spec=cell.spec, place="labgrid:one", reference=Reference()))
    assert (result.cell, result.board_fault) == (None, "")
    assert "no labgrid coordinator answers" in result.board_lost


def test_places_are_acquired_and_released(lab: Lab) -> None:
    with held("labgrid:one"):
        assert lab.holder("one") is not None and lab.holder("two") is None
        assert marked_places() == ("one",)
        assert release_abandoned() == 0, "its holder lives"
    assert lab.holder("one") is None
    with pytest.raises(RuntimeError), held("labgrid:one"):
        raise RuntimeError
    assert lab.holder("one") is None
    with pytest.raises(TargetError, match="matches nothing"), held("labgrid:three"):
        pass


def test_a_place_of_a_killed_holder_is_released(lab: Lab) -> None:
    code = (
        "import os, signal\nfrom mlf_sdk.sweep.places import held\n"
        "with held('labgrid:one'):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False, timeout=WAIT_S)
    assert lab.holder("one") is not None
    assert release_abandoned() == 1
    assert (lab.holder("one"), marked_places()) == (None, ())


def test_a_place_acquired_by_hand_stays_acquired(lab: Lab) -> None:
    ask("AcquirePlace", placename="two")
    with held("labgrid:two"):
        pass
    assert lab.holder("two") is not None
    ask("ReleasePlace", placename="two")


def test_a_process_has_several_sessions_at_once(lab: Lab) -> None:
    """A coordinator refuses a second session on the connection of one that it still knows."""
    with open_coordinator(), ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: tagged_places(), range(20)))
    assert found == [("one", "two")] * 20
    assert "AssertionError" not in (lab.folder / LOG).read_text()


def test_a_cell_of_another_build_than_the_place_holds_fails(lab: Lab, tmp_path: Path) -> None:
    (cell,) = expand(planned(lab, tmp_path, 1, cflags="-O1")).cells
    right = Reference(outputs={"output": reference(Spec(), np.zeros((1, 8), np.float32))})
    result = run_job(Job(spec=cell.spec, place="labgrid:one", reference=right))
    assert result.cell is not None and result.board_fault == ""
    assert result.cell.outcome == "failed"
    assert "another image: build id" in result.cell.why
    assert lab.holder("one") is None
