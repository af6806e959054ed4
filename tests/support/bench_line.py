# SPDX-License-Identifier: Apache-2.0
"""Figures of the line: bulk throughput at a rate, bytes of a round trip, goodput on a bad line, the
server's size. Part of ``make bench``; ``python tests/serial/bench_line.py`` prints them alone, as JSON.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mlf_sdk.testing.badline import Faults, FaultTransport
from mlf_sdk.tools.process import start_process
from mlf_sdk.wire import protocol
from mlf_sdk.wire.codes import Opcode
from mlf_sdk.wire.session import Session, Timeouts
from mlf_sdk.wire.transport import PipeTransport

CRT = Path(__file__).parents[2] / "crt"
_BITS = 10
_SERVER = ("src/mlf_crc32.c", *sorted(f"rpc/{path.name}" for path in (CRT / "rpc").glob("*.c")))


def build_server(main: str, folder: Path, *, max_payload: int) -> Path:
    """Compile one of ``crt/tests`` as a device of this machine; returns the program."""
    program = folder / Path(main).stem
    sources = [CRT / "tests" / main, *(CRT / name for name in _SERVER)]
    if main == "rpc_host.c":
        sources.append(CRT / "tests/fake_models.c")
    flags = ["-std=c99", "-O2", f"-DMLF_RPC_MAX_PAYLOAD={max_payload}", "-DMLF_STREAMS=0"]
    flags += [f"-I{CRT / 'include'}", f"-I{CRT / 'rpc'}"]
    command = [shutil.which("cc") or "cc", *flags, *map(str, sources), "-o", str(program)]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    return program


@contextmanager
def bad_line(
    program: Path, faults: Faults, timeouts: Timeouts | None = None, *arguments: str
) -> Iterator[tuple[Session, FaultTransport]]:
    """A session with a program over a line with faults, after its hello."""
    with start_process([str(program), *arguments], pipes=True) as process:
        line = FaultTransport(PipeTransport(process.stdout_fd, process.stdin_fd), faults)
        with Session(line, timeouts=timeouts) as session:
            session.hello()
            yield session, line


def throughput(baud: int, program: Path, window_bytes: int = 0xFFFF) -> dict[str, float]:
    """Bytes a second of tensor data to and from the device over a paced line, and the shares of its rate."""
    with bad_line(program, Faults(baud=baud), None, str(window_bytes)) as (session, _):
        max_payload = session.info.max_payload
        data = np.random.default_rng(1).integers(0, 256, 32768, dtype=np.uint8)
        started = time.monotonic()
        session.write_input(0, 0, data)
        written = time.monotonic()
        session.run(0)
        reading = time.monotonic()
        copy = session.read_output(0, 0)
        ended = time.monotonic()
    if not np.array_equal(copy, data):
        raise AssertionError("a wrong byte came back")
    rate = baud / _BITS
    to_device, to_host = len(data) / (written - started), len(data) / (ended - reading)
    return {
        "baud": baud,
        "max_payload": max_payload,
        "window_bytes": window_bytes,
        "write_bytes_per_s": round(to_device),
        "read_bytes_per_s": round(to_host),
        "write_share": round(to_device / rate, 4),
        "read_share": round(to_host / rate, 4),
    }


def round_trip_bytes(program: Path) -> dict[str, int]:
    """Bytes on the line of the smallest request with a reply: a read of nothing."""
    with bad_line(program, Faults()) as (session, line):
        session.write_input(0, 0, np.zeros(session.info.models[0].inputs[0].shape, np.uint8))
        sent, received = line.to_device.counts.given, line.to_host.counts.given
        body = protocol.ReadRequest(0, 0, 0, 0, 0).pack()
        session._link.call(Opcode.READ, body, session._link.after(5))
        return {
            "request_bytes": line.to_device.counts.given - sent,
            "reply_bytes": line.to_host.counts.given - received,
        }


def goodput(program: Path, rate: float, *, inferences: int = 100, seed: int = 1) -> dict[str, Any]:
    """Inferences of the small device with bytes flipped, dropped and doubled at a rate each."""
    timeouts = Timeouts(first_try_s=0.05, back_off=1.5, tries=12, hello_retry_s=0.1)
    faults = Faults(flip=rate, drop=rate, double=rate, seed=seed)
    wrong = 0
    with bad_line(program, faults, timeouts) as (session, line):
        started = time.monotonic()
        for number in range(inferences):
            values = np.random.default_rng(number).standard_normal(130).astype(np.float32)
            wrong += not np.array_equal(session.infer(1, [values])[0], -values)
        seconds = time.monotonic() - started
        carried = line.to_device.counts.taken + line.to_host.counts.taken
    return {
        "fault_rate": rate,
        "inferences": inferences,
        "wrong": wrong,
        "inferences_per_s": round(inferences / seconds, 1),
        "goodput_share": round(inferences * 2 * 520 / carried, 4),
    }


def server_size(cpu: str = "cortex-m4", max_payload: int = 512) -> dict[str, int]:
    """Flash and RAM of the server with -Os; RAM is what its one structure takes."""
    gcc = shutil.which("arm-none-eabi-gcc")
    if gcc is None:
        raise RuntimeError("arm-none-eabi-gcc is not installed")
    probe = '#include "mlf_rpc.h"\nmlf_rpc_t rpc;\n'
    with tempfile.TemporaryDirectory() as folder:
        flags = [
            f"-mcpu={cpu}",
            "-mthumb",
            "-Os",
            "-ffreestanding",
            f"-DMLF_RPC_MAX_PAYLOAD={max_payload}",
            "-DMLF_STREAMS=0",
        ]
        flags += [f"-I{CRT / 'include'}", f"-I{CRT / 'rpc'}"]
        Path(folder, "probe.c").write_text(probe, encoding="utf-8")
        sources = [*(str(CRT / name) for name in _SERVER), "probe.c"]
        run = {"cwd": folder, "check": True, "timeout": 60, "capture_output": True, "text": True}
        subprocess.run([gcc, *flags, "-c", *sources], **run)  # type: ignore[call-overload]
        size = ["arm-none-eabi-size", *(f"{Path(name).stem}.o" for name in _SERVER), "probe.o"]
        lines = subprocess.run(size, **run).stdout.splitlines()[1:]  # type: ignore[call-overload]
    sizes = [[int(word) for word in line.split()[:3]] for line in lines]
    return {
        "max_payload": max_payload,
        "flash_bytes": sum(text + data for text, data, _ in sizes),
        "ram_bytes": sum(data + bss for _, data, bss in sizes),
    }


def line_figures() -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = {}
        for size in (256, 1024, 4096):
            (Path(folder) / str(size)).mkdir()
            sizes[size] = build_server("rpc_bulk.c", Path(folder) / str(size), max_payload=size)
        bulk = sizes[1024]
        small = build_server("rpc_host.c", Path(folder), max_payload=512)
        lines = [(115_200, 1024, 0xFFFF), (1_000_000, 1024, 0xFFFF)]
        lines += [(115_200, 4096, 0), (1_000_000, 4096, 0), (115_200, 256, 0)]  # boards that poll their UART
        return {
            "throughput": [throughput(baud, sizes[size], window) for baud, size, window in lines],
            "round_trip": round_trip_bytes(bulk),
            "bad_line": [goodput(small, rate) for rate in (1e-4, 1e-3)],
            "server": server_size(),
        }


if __name__ == "__main__":
    json.dump(line_figures(), sys.stdout, indent=1)
