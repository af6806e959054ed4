# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin with boards on ports: matched, shared, reset, unplugged, one after the other."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from archives import Spec, build, write
from mlf_sdk.testing.fake import FakeModel, FakeTensor
from mlf_sdk.tools.process import run_process
from pytest_runs import UNUSED
from serial_helpers import PtyDevice

pytest_plugins = ["pytester"]
BUILD_ID = bytes(range(1, 21))
TESTS = """
import numpy as np
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_it(mlf_model, number):
    model = mlf_model("tiny.tar")
    x = np.full((1, 8), number, np.float32)
    np.testing.assert_array_equal(model.infer(x)[0], 2 * x)
"""


class Board(PtyDevice):
    """A board that holds the model of an archive, and doubles its input.

    Attributes:
        runs: inferences so far.
        at_run: called with the number of each inference.
    """

    def __init__(self, archive: Path, build_id: bytes = BUILD_ID) -> None:
        super().__init__(lambda data: b"" if self.silent else self.device.feed(data))
        self.silent = False
        self.runs = 0
        self.at_run: Callable[[int], None] = lambda number: None
        tensor = FakeTensor(name="x", offset=0, shape=(1, 8), size_bytes=32, type_code=2, bits=32)
        result = FakeTensor(name="output", offset=32, shape=(1, 8), size_bytes=32, type_code=2, bits=32)
        model = FakeModel(
            name="tiny",
            arena=bytearray(64),
            inputs=(tensor,),
            outputs=(result,),
            run=self._run,
            archive_sha256=hashlib.sha256(archive.read_bytes()).digest(),
        )
        self.device.models[:] = [model]
        self.device.build_id = build_id
        self.device.reset()

    def _run(self, arena: bytearray) -> None:
        arena[32:] = (2 * np.frombuffer(bytes(arena[:32]), "<f4")).tobytes()
        self.runs += 1
        self.at_run(self.runs)

    def restart(self) -> None:
        """Reset the device: it forgets its session."""
        self.device.reset()
        self.device.boot_nonce += 1


@pytest.fixture
def tiny(pytester: pytest.Pytester) -> Path:
    return write(build(Spec()), pytester.path / "tiny.tar")


@pytest.fixture
def board(tiny: Path) -> Iterator[Board]:
    with Board(tiny) as found:
        yield found  # type: ignore[misc]


@pytest.fixture
def second(tiny: Path) -> Iterator[Board]:
    with Board(tiny) as found:
        yield found  # type: ignore[misc]


def run(pytester: pytest.Pytester, count: int, *options: str, workers: int = 0) -> pytest.RunResult:
    pytester.makepyfile(TESTS.format(count=count))
    spread = ("-n", str(workers)) if workers else ("-p", "no:xdist")
    return pytester.runpytest_subprocess(
        *UNUSED, *spread, "--mlf-timeout", "5", "--junit-xml", "junit.xml", *options
    )


def properties(pytester: pytest.Pytester, name: str) -> list[str]:
    """Values of a property of all tests in the JUnit report."""
    root = ET.parse(pytester.path / "junit.xml").getroot()
    return [p.attrib["value"] for p in root.iter("property") if p.attrib["name"] == name]


@pytest.mark.parametrize(
    ("port", "options", "says"),
    [
        ("microbit=/dev/none", [], "no test runs on a board 'microbit'; the boards are: mps2-an386"),
        ("hots=/dev/none", ["--mlf-board", "host"], "no test runs on a board 'hots'; the boards are: host"),
        (
            "/dev/none",
            ["--mlf-board", "host", "--mlf-board", "microbit"],
            "whose port? Write it as BOARD=PORT",
        ),
    ],
)
def test_a_port_of_no_board(pytester: pytest.Pytester, port: str, options: list[str], says: str) -> None:
    """It is an error before the first test, not a run on the emulator."""
    result = run(pytester, 1, f"--mlf-port={port}", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{says}*"])
    assert result.parseoutcomes() == {}


def test_a_port_of_no_board_with_workers(pytester: pytest.Pytester, tiny: Path) -> None:
    result = run(pytester, 2, "--mlf-port=microbit=/dev/none", workers=2)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*no test runs on a board 'microbit'*"])


def test_the_report_says_which_image_answered(pytester: pytest.Pytester, board: Board) -> None:
    result = run(pytester, 2, f"--mlf-port=mps2-an386={board.path}")
    result.assert_outcomes(passed=2)
    assert properties(pytester, "mlf_build_id") == [BUILD_ID.hex()] * 2
    assert properties(pytester, "mlf_port") == [board.path] * 2
    assert properties(pytester, "mlf_board") == ["mps2-an386"] * 2


@pytest.mark.toolchain
def test_another_image_is_refused(pytester: pytest.Pytester, board: Board, needs_cc: str) -> None:
    elf = pytester.path / "app.elf"
    (pytester.path / "app.c").write_text("int main(void) { return 0; }\n")
    program = [needs_cc, str(pytester.path / "app.c"), "-o", str(elf)]
    run_process([*program, "-Wl,--build-id=sha1"], timeout_s=60)
    result = run(pytester, 1, f"--mlf-port={board.path}", "--mlf-image", str(elf))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"*the board runs another image of the same model: build id {BUILD_ID.hex()}*"]
    )
    run_process([*program, f"-Wl,--build-id=0x{BUILD_ID.hex()}"], timeout_s=60)
    run(pytester, 1, f"--mlf-port={board.path}", "--mlf-image", str(elf)).assert_outcomes(passed=1)


def test_a_reset_fails_one_test(pytester: pytest.Pytester, board: Board) -> None:
    board.at_run = lambda number: board.restart() if number == 2 else None
    result = run(pytester, 4, f"--mlf-port={board.path}")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*DeviceResetError*"])


def test_a_board_that_fails_again_and_again(pytester: pytest.Pytester, board: Board) -> None:
    board.at_run = lambda number: board.restart() if number > 1 else None
    result = run(pytester, 5, f"--mlf-port={board.path}")
    result.assert_outcomes(passed=1, failed=2, skipped=2)


def test_a_board_that_was_unplugged(
    pytester: pytest.Pytester, board: Board, second: Board, tmp_path: Path
) -> None:
    """The port comes back under its name, with another device behind it."""
    port = tmp_path / "port"
    port.symlink_to(board.path)

    def replug() -> None:
        board.unplug()
        (tmp_path / "new").symlink_to(second.path)
        (tmp_path / "new").replace(port)

    def at_run(number: int) -> None:
        if number == 2:
            board.silent = True
            threading.Thread(target=replug).start()

    board.at_run = at_run
    result = run(pytester, 4, f"--mlf-port={port}")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*PortVanishedError*"])
    assert (board.runs, second.runs) == (2, 2)


def test_workers_wait_for_their_turn(pytester: pytest.Pytester, board: Board) -> None:
    run(pytester, 8, f"--mlf-port={board.path}", workers=2).assert_outcomes(passed=8)
    assert board.runs == 8


def test_workers_share_equal_boards(pytester: pytest.Pytester, board: Board, second: Board) -> None:
    """Each takes one that is free: none is used by both at once, and both are used."""
    first_runs = threading.Barrier(2)

    def at_run(number: int) -> None:
        if number == 1:
            first_runs.wait(60)  # nobody goes on before both boards run

    board.at_run = second.at_run = at_run
    ports = [f"--mlf-port=mps2-an386={b.path}" for b in (board, second)]
    run(pytester, 8, *ports, "--mlf-timeout", "60", workers=2).assert_outcomes(passed=8)
    assert board.runs + second.runs == 8
    assert set(properties(pytester, "mlf_port")) == {board.path, second.path}


def test_boards_with_different_images(pytester: pytest.Pytester, board: Board, tiny: Path) -> None:
    with Board(tiny, b"\x07" * 20) as other:
        board.at_run = lambda number: board.restart()
        ports = [f"--mlf-port=mps2-an386={b.path}" for b in (board, other)]
        result = run(pytester, 3, *ports)
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["*the boards run different images: build id 0102*"])
