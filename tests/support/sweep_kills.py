# SPDX-License-Identifier: Apache-2.0
"""Sweeps whose client, workers and scheduler are killed at random: nothing lost, nothing counted twice.

``python tests/support/sweep_kills.py --kills 50`` (``make kills``). With ``--proof ARCHIVE...`` the jobs are real: a
proof whose table is compared with that of an undisturbed one; without, they sleep.
"""

from __future__ import annotations

import argparse
import difflib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "support"
sys.path[:0] = [str(ROOT / "sdk"), str(SUPPORT)]
CLI = "import sys; from mlf_sdk.cli.main import main; sys.exit(main())"
CELLS = 60
WORKERS = 2
KILLS_IN_THE_SUITE = 3
MOST_S = 1800.0
INTERVAL_S = 2.25  # between two kills, on average
POLL_S = 0.3


@dataclass
class Processes:
    """A scheduler, workers and a client; each is started again when it is gone.

    Args:
        folder: for logs.
        client: command of the client.
    """

    folder: Path
    client: list[str]
    environ: dict[str, str]
    port: int = 0
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    code: int | None = None

    def commands(self) -> dict[str, list[str]]:
        address = f"tcp://127.0.0.1:{self.port}"
        scheduler = ["-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port)]
        worker = ["-c", CLI, "sweep", "worker", address, "--jobs", "1"]
        found = {
            "scheduler": [*scheduler, "--no-dashboard"],
            "client": [*self.client, "--scheduler", address],
        }
        return found | {f"worker {number}": worker for number in range(WORKERS)}

    def keep_up(self) -> None:
        """Start what is gone, until the client has ended by itself."""
        for name, command in self.commands().items():
            process = self.running.get(name)
            if process is not None and process.poll() is None:
                continue
            if name == "client" and process is not None and process.returncode in (0, 1, 2):
                self.code = process.returncode
                return
            with (self.folder / f"{name.replace(' ', '-')}.log").open("ab") as log:
                self.running[name] = subprocess.Popen(
                    [sys.executable, *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self.environ,
                    cwd=self.folder,
                )

    def kill_one(self, chance: random.Random) -> str:
        """Kill one of them, or the process in which a worker runs its jobs."""
        name = chance.choice(["client", "scheduler", "worker 0", "worker 1", "job 0", "job 1"])
        process = self.running[name.replace("job", "worker")]
        pid = process.pid
        if name.startswith("job"):
            children = [child for child in _children(pid) if b"spawn_main" in _command_line(child)]
            if not children:
                return ""
            pid = children[-1]
        if process.poll() is not None:
            return ""
        os.kill(pid, signal.SIGKILL)
        return name

    def stop(self) -> None:
        """End everything; workers end their jobs' processes."""
        for process in self.running.values():
            process.send_signal(signal.SIGINT)
        for process in self.running.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _children(pid: int) -> list[int]:
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def disturb(
    folder: Path,
    client: list[str],
    environ: dict[str, str],
    kills: int,
    seed: int,
    *,
    interval_s: float = INTERVAL_S,
    most_s: float = MOST_S,
) -> list[str]:
    """Run a client to its end while processes are killed, every ``interval_s`` on average.

    Returns:
        What was killed; fewer than ``kills`` where the client was faster.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    processes = Processes(folder, client, environ, port)
    chance, killed = random.Random(seed), []
    end, due = time.monotonic() + most_s, time.monotonic() + interval_s
    try:
        while processes.code is None:
            if time.monotonic() > end:
                raise TimeoutError(f"the client did not end; killed so far: {killed}")
            processes.keep_up()
            time.sleep(POLL_S)
            if len(killed) == kills or processes.code is not None or time.monotonic() < due:
                continue
            if name := processes.kill_one(chance):
                killed.append(name)
            due = time.monotonic() + interval_s * chance.uniform(0.2, 1.8)
        if processes.code:
            raise RuntimeError(f"the client ended with {processes.code}: {_tail(folder / 'client.log')}")
    finally:
        processes.stop()
    return killed


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-3000:] if path.exists() else ""


def environment(folder: Path) -> dict[str, str]:
    """Environment with a cache of its own, and without builds of others."""
    path = os.pathsep.join([str(ROOT / "sdk"), str(SUPPORT), str(Path(__file__).parent)])
    scratch_of(folder / "cache").mkdir(exist_ok=True)
    return {
        **os.environ,
        "PYTHONPATH": path,
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TMPDIR": str(scratch_of(folder / "cache")),
        "MLF_TEST_JOBS": str(folder),
    }


def scratch_of(cache: Path) -> Path:
    """Folder of temporary files beside a cache."""
    return cache.with_name("tmp")


def left_behind(cache: Path) -> list[str]:
    """Programs and folders of killed workers, and locks that are held, after everything has ended.

    Folders of those that were killed last are removed by the next worker, which is this process.
    """
    from filelock import FileLock, Timeout

    from mlf_sdk.tools.files import remove_abandoned

    deadline = time.monotonic() + 20
    while True:
        needle = os.fsencode(cache)
        found = [
            _command_line(int(entry.name)).replace(b"\0", b" ").decode(errors="replace")
            for entry in Path("/proc").glob("[0-9]*")
            if int(entry.name) != os.getpid() and needle in _environ_of(entry)
        ]
        if not found or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    for path in (cache / "mlf-sdk" / "locks").glob("*.lock"):
        lock = FileLock(path, timeout=0)
        try:
            lock.acquire()
            lock.release()
        except Timeout:
            found.append(f"lock {path}")
    remove_abandoned("mlf-worker-", scratch_of(cache))
    return found + [f"folder {path}" for path in scratch_of(cache).glob("mlf-worker-*")]


def _environ_of(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except OSError:
        return b""


# ---- jobs that sleep ----


def run_client(folder: Path, address: str) -> int:
    """The client: an engine on jobs that sleep."""
    from mlf_sdk.sweep.cluster import open_cluster
    from mlf_sdk.sweep.engine import Engine
    from mlf_sdk.sweep.events import Watcher
    from mlf_sdk.sweep.journal import Journal
    from mlf_sdk.sweep.plan import Plan
    from sweep_jobs import expansion, slow, specs

    with Journal(folder / "sweep", create=True) as journal:
        cells = specs(CELLS)
        number = journal.add_plan(Plan(name="kills"), expansion(cells))
        journal.recover()
        with open_cluster(1, address, (), slow) as cluster:
            Engine(journal, cluster, {}, Watcher(), wait_s=60.0).run(journal.pending(number))
        return 0 if not journal.pending(number) else 5


def sleeping(folder: Path, kills: int, seed: int) -> tuple[list[str], dict[str, int]]:
    """Kill while jobs sleep.

    Returns:
        What was killed, and the number of runs of each cell.
    """
    from mlf_sdk.sweep.journal import Journal
    from mlf_sdk.sweep.results import read_results

    killed = disturb(folder, [__file__, "--client", str(folder)], environment(folder), kills, seed)
    with Journal(folder / "sweep") as journal:
        found = read_results(journal, journal.last_plan() or 0)
        assert [row.state for row in found.rows] == ["done"] * CELLS, found.counts
        assert all(row.figures == {"flash_bytes": int(row.name[:4], 16)} for row in found.rows)
        finished = journal.db.execute(
            "SELECT cell, count(*) FROM attempts WHERE outcome = 'proven' GROUP BY cell"
        ).fetchall()
        assert sorted(finished) == sorted((row.name, 1) for row in found.rows), "a result is counted once"
    runs: dict[str, int] = {}
    for log in folder.glob("[0-9]*.txt"):
        for name in log.read_text().split():
            runs[name] = runs.get(name, 0) + 1
    assert len(runs) == CELLS
    return killed, runs


# ---- a proof ----


def proving(folder: Path, archives: list[str], boards: list[str], kills: int, seed: int) -> list[str]:
    """Kill while a proof runs; its table must be that of an undisturbed one."""
    environ = environment(folder)
    more = [text for board in boards for text in ("--board", board)]
    table = ["--markdown", str(folder / "killed.md"), "--made-by", "x"]
    command = ["-c", CLI, "proof", *archives, *more]
    killed = disturb(folder, [*command, *table], environ, kills, seed)
    assert not (found := left_behind(folder / "cache")), found
    shutil.rmtree(folder / "cache")
    undisturbed = [*command, "--markdown", str(folder / "calm.md"), "--made-by", "x"]
    subprocess.run([sys.executable, *undisturbed], env=environ, check=True, capture_output=True)
    tables = [_without_marks((folder / name).read_text()) for name in ("calm.md", "killed.md")]
    if different := "\n".join(difflib.unified_diff(*tables, "undisturbed", "killed", lineterm="")):
        raise AssertionError(f"the tables differ:\n{different}")
    return killed


def _without_marks(table: str) -> list[str]:
    """Lines of a proof's table without the painted stack: interrupts come at other depths in each run."""
    lines, at = [], None
    for line in table.splitlines():
        fields = line.split(" | ")
        if "stack: bound" in line:
            at = next(number for number, field in enumerate(fields) if "stack: bound" in field) + 1
        elif at is not None and line.startswith("|") and len(fields) > at:
            fields[at] = "any"
        elif not line.startswith("|"):
            at = None
        lines.append(" | ".join(fields))
    return lines


def main() -> int:
    """Run one of them, and say what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--proof", nargs="*", default=[])
    parser.add_argument("--board", action="append", default=[])
    parser.add_argument("--client", type=Path)
    parser.add_argument("--scheduler", default="")
    arguments = parser.parse_args()
    if arguments.client is not None:
        return run_client(arguments.client, arguments.scheduler)
    with tempfile.TemporaryDirectory(prefix="mlf-kills-") as name:
        folder = Path(name)
        if arguments.proof:
            archives = [str(Path(path).resolve()) for path in arguments.proof]

            def work(kills: int, seed: int) -> list[str]:
                return proving(folder, archives, arguments.board or ["mps2-an386"], kills, seed)
        else:

            def work(kills: int, seed: int) -> list[str]:
                return sleeping(folder, kills, seed)[0]

        killed: list[str] = []
        while len(killed) < arguments.kills:
            killed += work(arguments.kills - len(killed), arguments.seed + len(killed))
            assert not (found := left_behind(folder / "cache")), found
            print(
                f"{len(killed)} killed: nothing lost, nothing counted twice, nothing left behind", flush=True
            )
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
