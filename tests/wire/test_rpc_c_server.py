# SPDX-License-Identifier: Apache-2.0
"""The C server: its own tests under sanitizers, warnings for every compiler, and end to end."""

import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ccode import CRT, SANITIZE, WARNINGS, call, compiler, sanitizing
from measuring import measure
from mlf_sdk.errors import TargetError
from mlf_sdk.wire.codes import Capability, DeviceError, Status
from mlf_sdk.wire.session import Session, Timeouts
from mlf_sdk.wire.transport import Deadline, PipeTransport
from rpc_models import SUM, X, Y
from rpc_vectors import VECTORS, text_of

INCLUDES = [f"-I{CRT / 'include'}", f"-I{CRT / 'rpc'}"]
WHOLE = "-DMLF_STREAMS=0"  # fakes stand for the executor
SERVER = [CRT / "src/mlf_crc32.c", *sorted((CRT / "rpc").glob("*.c"))]
C_TESTS = [
    *sorted((CRT / "tests").glob("test_rpc*.c")),
    CRT / "tests/rpc_device.c",
    CRT / "tests/fake_models.c",
]
FLOATS = np.linspace(-3, 3, 130, dtype=np.float32)

pytestmark = pytest.mark.toolchain


@pytest.mark.parametrize("options", ["-O2 -DMLF_OBSERVE=1", "-Os -DMLF_TRACE=1 -DMLF_RPC_MAX_PAYLOAD=64"])
@pytest.mark.parametrize("name", ["gcc", "clang", "arm-none-eabi-gcc"])
def test_no_warnings(name: str, options: str, tmp_path: Path) -> None:
    cpu = ["-mcpu=cortex-m0", "-mthumb", "-ffreestanding"] if name.startswith("arm") else []
    call(compiler(name), *WARNINGS, *cpu, *options.split(), *INCLUDES, "-c", *SERVER, cwd=tmp_path)
    assert (tmp_path / "mlf_rpc.o").stat().st_size > 0


@pytest.mark.parametrize(
    "define",
    ["MLF_RPC_MAX_PAYLOAD=63", "MLF_RPC_MAX_PAYLOAD=16385", "MLF_RPC_STACK_MARGIN=-1", "MLF_TRACE=2"],
)
def test_options_out_of_range_do_not_compile(define: str) -> None:
    command = [compiler("cc"), f"-D{define}", *INCLUDES, "-fsyntax-only", CRT / "rpc/mlf_rpc.c"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "must be" in done.stderr


@pytest.mark.parametrize(("streams", "most"), [(0, 3500), (1, 3900)])
def test_size_on_the_smallest_core(streams: int, most: int, tmp_path: Path) -> None:
    gcc = compiler("arm-none-eabi-gcc")
    flags = [
        f"-DMLF_STREAMS={streams}",
        "-mcpu=cortex-m0",
        "-mthumb",
        "-Os",
        "-ffreestanding",
        "-DMLF_RPC_MAX_PAYLOAD=128",
    ]
    call(gcc, *WARNINGS, *flags, *INCLUDES, "-c", *SERVER, cwd=tmp_path)
    objects = [tmp_path / f"{source.stem}.o" for source in SERVER]
    sizes = call("arm-none-eabi-size", *objects).splitlines()[1:]
    text = sum(int(line.split()[0]) for line in sizes)
    ram = sum(int(line.split()[1]) + int(line.split()[2]) for line in sizes)
    assert most - 400 < text < most
    assert ram == 0  # all memory is the caller's
    symbols = call("arm-none-eabi-nm", "-u", *objects)
    outside = {line.split()[-1] for line in symbols.splitlines() if " U " in line}
    allowed = {"memcpy", "memset", "mlf_run", "mlf_failed_step", "mlf_input", "mlf_output"}
    defined = call("arm-none-eabi-nm", "--defined-only", *objects).splitlines()
    inside = {line.split()[-1] for line in defined if line}
    assert outside - inside <= allowed | ({"mlf_begin", "mlf_row", "mlf_rows_done"} if streams else set())


@pytest.mark.parametrize(
    ("name", "payload", "trace", "observe"),
    [("gcc", 64, 0, 1), ("gcc", 128, 1, 0), ("gcc", 512, 0, 1), ("clang", 512, 0, 1)],
)
def test_the_c_tests(name: str, payload: int, trace: int, observe: int, tmp_path: Path) -> None:
    sources = [*SERVER, *C_TESTS]
    defines = [f"-DMLF_RPC_MAX_PAYLOAD={payload}", f"-DMLF_TRACE={trace}", f"-DMLF_OBSERVE={observe}", WHOLE]
    program = tmp_path / "test_rpc"
    call(sanitizing(name), *WARNINGS, *SANITIZE, *defines, *INCLUDES, *sources, "-o", program)
    arguments: list[Path] = []
    if (payload, trace) == (512, 0):
        arguments = [tmp_path / "vectors.txt"]
        arguments[0].write_text(text_of(json.loads(VECTORS.read_text(encoding="utf-8"))), encoding="utf-8")
    checks = int(call(program, *arguments).split()[0])
    assert checks > (900_000 if arguments else 500_000)


def test_the_c_test_notices_a_wrong_vector(tmp_path: Path) -> None:
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    step = next(step for step in vectors["steps"] if step["name"] == "read-sum")
    step["receive"] = step["receive"][:-4] + "ff00"
    program, file = tmp_path / "test_rpc", tmp_path / "vectors.txt"
    file.write_text(text_of(vectors), encoding="utf-8")
    sources = [*SERVER, *C_TESTS]
    call(compiler("cc"), "-DMLF_OBSERVE=1", WHOLE, *INCLUDES, *sources, "-o", program)
    done = subprocess.run([str(program), str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "vector" in done.stderr


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_the_frame_tests(name: str, tmp_path: Path) -> None:
    program = tmp_path / "test_frame"
    sources = [CRT / "src/mlf_crc32.c", CRT / "rpc/mlf_frame.c", CRT / "tests/test_frame.c"]
    call(sanitizing(name), *WARNINGS, *SANITIZE, *INCLUDES, *sources, "-o", program)
    assert int(call(program).split()[0]) > 20_000


# ---- end to end: the C server in a process, the Python session over its pipes ------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("rpc_host") / "rpc_host"
    sources = [*SERVER, CRT / "tests/rpc_host.c", CRT / "tests/fake_models.c"]
    call(sanitizing("cc"), *WARNINGS, *SANITIZE, "-DMLF_TRACE=1", WHOLE, *INCLUDES, *sources, "-o", program)
    return program


@pytest.fixture
def process(server: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([str(server)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as running:
        yield running
        running.kill()


def transport_to(process: "subprocess.Popen[bytes]") -> PipeTransport:
    assert process.stdin is not None and process.stdout is not None
    return PipeTransport(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno()))


def test_end_to_end(process: "subprocess.Popen[bytes]") -> None:
    with Session(transport_to(process)) as session:
        info = session.hello()
        assert session.console_text == "rpc_host: ready\n"
        assert info.capabilities == Capability.TRACE | Capability.TICKS
        assert info.window_bytes == 0xFFFF
        assert [model.name for model in info.models] == ["twins", "ä" * 127, "sharer"]
        total, echo = session.infer("twins", {"x": X, "y:0": Y})
        np.testing.assert_array_equal(total, SUM)
        np.testing.assert_array_equal(echo, Y)
        np.testing.assert_array_equal(session.infer(1, [FLOATS])[0], -FLOATS)
        result = session.run(1, 1000)
        assert (result.runs, result.ticks) == (1000, 1000)
        measured = measure(session, 0, [X, Y])
        assert measured.stats.arena_high_water_bytes == 53
        assert measured.stats.workspace_high_water_bytes == 60
        assert measured.stats.workspace_requests == 2
        assert measured.stats.dropped_frames == 0
        with pytest.raises(DeviceError, match="step 2") as error:
            session.infer(0, [X, np.array([0xEE, 0, 0, 0, 0], np.uint8)])
        assert error.value.status == Status.KERNEL


class NoisyTransport(PipeTransport):
    """Flips, drops and doubles bytes in both directions."""

    draw = random.Random(11)

    def _noisy(self, data: bytes) -> bytes:
        out = bytearray()
        for byte in data:
            kind = self.draw.random()
            if kind < 0.002:
                out.append(byte ^ 1 << self.draw.randrange(8))
            elif kind < 0.004:
                out += bytes([byte, byte])
            elif kind > 0.006:
                out.append(byte)
        return bytes(out)

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        return self._noisy(super().read(max_bytes, deadline))

    def write(self, data: bytes, deadline: Deadline) -> None:
        super().write(self._noisy(data), deadline)


def test_end_to_end_over_a_bad_line(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None and process.stdout is not None
    transport = NoisyTransport(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno()))
    timeouts = Timeouts(first_try_s=0.02, back_off=1.0, tries=100, hello_retry_s=0.05)
    with Session(transport, timeouts=timeouts) as session:
        session.hello()
        for number in range(20):
            y = np.array([number, 2, 3, 4, 5], np.uint8)
            np.testing.assert_array_equal(session.infer(0, [X, y])[1], y)
        stats = session.stats(0)
    assert stats.dropped_frames > 0


def test_a_server_that_ends_is_noticed(process: "subprocess.Popen[bytes]") -> None:
    with Session(transport_to(process)) as session:
        session.hello()
        process.kill()
        process.wait(10)
        with pytest.raises(TargetError, match="closed the connection"):
            session.infer(0, [X, Y])
