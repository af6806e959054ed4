# SPDX-License-Identifier: Apache-2.0
"""The device's side of MLPerf Tiny's protocol in C, under sanitizers: commands, inputs, results, numbers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ccode import CRT, SANITIZE, WARNINGS, call, compiler, sanitizing

SERVER = [*sorted((CRT / "mlperf").glob("*.c")), CRT / "src/mlf.c", CRT / "src/mlf_backend.c"]
INCLUDES = [f"-I{CRT / 'include'}", f"-I{CRT / 'mlperf'}"]
LOAD = "db load 8%db 0001027f8081feff%"
READY = "m-ready"

pytestmark = pytest.mark.toolchain
Talk = Callable[..., list[list[str]]]


@pytest.fixture(scope="module")
def talk(once: Callable[[str, Callable[[Path], None]], Path]) -> Talk:
    """``talk(text, loader, results)``: lines of the answer to each command; the program must end well."""

    def make(folder: Path) -> None:
        flags = [*WARNINGS, *SANITIZE, "-D_DEFAULT_SOURCE", *INCLUDES]
        source = CRT / "tests/mlperf_host.c"
        call(sanitizing("cc"), *flags, source, *SERVER, "-o", folder / "mlperf_host")

    program = once("mlperf-host", make) / "mlperf_host"

    def ask(text: str | bytes, loader: str = "copy", results: str = "values") -> list[list[str]]:
        data = text.encode() if isinstance(text, str) else text
        done = subprocess.run([program, loader, results], input=data, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        answers: list[list[str]] = [[]]
        for line in done.stdout.decode("ascii").split("\r\n")[:-1]:
            answers[-1].append(line)
            if line == READY:
                answers.append([])
        assert answers.pop() == []
        assert len(answers) == data.count(b"%")  # one m-ready a command, and none unasked
        return answers

    return ask


def error(talk: Talk, text: str) -> str:
    """The one error line that answers the last command."""
    *said, ready = talk(text)[-1]
    assert ready == READY
    assert len(said) == 1
    found = re.fullmatch(r"e-\[([^\]%]+)\]", said[0])
    assert found, said
    return found[1]


def results_of(answer: list[str]) -> list[float]:
    (line,) = [line for line in answer if line.startswith("m-results")]
    found = re.fullmatch(r"m-results-\[([^]]+)\]", line)
    assert found, line
    return [float(value) for value in found[1].split(",")]


def test_a_session_of_the_runner(talk: Talk) -> None:
    name, profile, begin, data, infer, again, stamp, printed = talk(
        "name%profile%" + LOAD + "infer 3 2%results%timestamp%db print%"
    )
    assert name == ["m-name-dut-[vendor]", READY]
    assert profile == ["m-profile-[profile]", "m-model-[test01]", READY]
    assert begin == ["m-[Expecting 8 bytes]", READY]
    assert data == ["m-load-done", READY]
    laps = [line for line in infer if line.startswith("m-lap-us-")]
    results = (
        "m-results-[" + ",".join(f"{v:.8f}" for v in (1.75, 2, 2.25, 33.5, -30.25, -30, 1.25, 1.5)) + "]"
    )
    start = ["m-warmup-start-2", "m-warmup-done", "m-infer-start-3"]
    assert infer == [*start, *laps, "m-infer-done", results, READY]
    begun, ended = (int(line.removeprefix("m-lap-us-")) for line in laps)
    assert ended - begun == 3000  # three runs, and no byte of the answer
    assert begun > 1 << 32  # 64 bits
    assert again == [results, READY]
    assert re.fullmatch(r"m-lap-us-[0-9]+", stamp[0])
    assert printed == ["m-buffer-00-01-02-7f-80-81-fe-ff", READY]


def test_a_load_in_pieces(talk: Talk) -> None:
    first, second, third, fourth, printed, *_ = talk(
        "db load 8%db 0001%db 02030405%db 0607%db print%infer 1 0%"
    )
    assert first == ["m-[Expecting 8 bytes]", READY]
    assert second == third == [READY]
    assert fourth == ["m-load-done", READY]
    assert printed[0] == "m-buffer-00-01-02-03-04-05-06-07"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("infer 1 0%", "No input is loaded"),
        ("results%", "There are no results"),
        ("db load 8%infer 1 0%", "The input is not completely loaded"),
        ("db load 8%db 00010203040506%infer 1 0%", "The input is not completely loaded"),
        ("db load 7%db 00010203040506%infer 1 0%", "The input is not completely loaded"),
        (LOAD + "db load 9%infer 1 0%", "No input is loaded"),
        (LOAD + "infer 0 0%", "Inference iterations must be >0"),
        (LOAD + "infer -1 0%", "Inference iterations must be >0"),
        (LOAD + "infer x 0%", "Inference iterations must be >0"),
        (LOAD + "infer 1 -1%", "Inference warmup must be >=0"),
        (LOAD + "db 00%", "The load is complete"),
        ("db 00%", "Bytes without 'db load'"),
        ("db%", "Command 'db' requires a subcommand"),
        ("db load%", "requires a number of bytes > 0"),
        ("db load 0%", "requires a number of bytes > 0"),
        ("db load -8%", "requires a number of bytes > 0"),
        ("db load 9%", "More bytes than the input has"),
        ("db load 99999999999999999999%", "More bytes than the input has"),
        ("db load 8%db 000%", "Insufficient number of hex digits"),
        ("db load 8%db 0g%", "Invalid hex digit"),
        ("db load 8%db 0102db 0304%", "Insufficient number"),  # the % between two lines was lost
        ("%", "Unknown command"),
        ("   %", "Unknown command"),
        ("nam%", "Unknown command"),
        ("names%", "Unknown command"),
        ("m-ready%", "Unknown command"),
        ("x" * 80 + "%", "Unknown command"),
        ("x" * 81 + "%", "Command is too long"),
        ("name" + " " * 77 + "%", "Command is too long"),
        ("db " + "0" * 5000 + "%", "Command is too long"),
    ],
)
def test_refused(talk: Talk, text: str, what: str) -> None:
    assert what in error(talk, text)


def test_overflow_of_the_last_line_is_disregarded(talk: Talk) -> None:
    """As the protocol's own device does; nothing is written behind the buffer, which has exactly eight bytes."""
    *_, last, printed = talk("db load 8%db 00010203040506070809%db print%")
    assert last == ["m-load-done", READY]
    assert printed == ["m-buffer-00-01-02-03-04-05-06-07", READY]


def test_a_dropped_line_is_noticed_and_the_next_load_is_good(talk: Talk) -> None:
    *_, refused, begin, done, infer = talk("db load 8%db 00010203%infer 1 0%" + LOAD + "infer 1 0%")
    assert refused == ["e-[The input is not completely loaded]", READY]
    assert begin[0].startswith("m-[Expecting")
    assert done == ["m-load-done", READY]
    assert len(results_of(infer)) == 8


def test_a_line_with_an_error_stores_nothing(talk: Talk) -> None:
    *_, printed = talk("db load 8%db 00010203zz%db 0809%db print%")
    assert printed == ["m-buffer-08-09", READY]


def test_defaults_and_what_is_skipped(talk: Talk) -> None:
    alone, one, ends, case = talk(LOAD + "infer%infer 2%\r\n  name  \r\n%db load 8%")[2:]
    assert alone[:1] + alone[2:3] == ["m-warmup-start-10", "m-infer-start-1"]
    assert one[:1] + one[2:3] == ["m-warmup-start-10", "m-infer-start-2"]
    assert ends == ["m-name-dut-[vendor]", READY]
    assert case == ["m-[Expecting 8 bytes]", READY]


def test_a_run_that_fails(talk: Talk) -> None:
    *_, infer, results = talk("db load 8%db EE00000000000000%infer 5 0%results%")
    assert infer[-2:] == ["e-[Inference failed]", READY]
    assert not any(line.startswith(("m-results", "m-lap")) for line in infer)
    assert results == ["e-[There are no results]", READY]


def test_any_bytes_at_all(talk: Talk) -> None:
    rng = np.random.default_rng(0)
    alphabet = np.frombuffer(b"%%% 0123456789abcdefdb load infer name print\x00\xff\r\n", np.uint8)
    talk(rng.choice(alphabet, 20_000).tobytes() + b"%")


# ---- inputs ----


def sent(talk: Talk, data: bytes, loader: str, results: str = "values") -> list[float]:
    text = f"db load {len(data)}%"
    text += "".join(f"db {data[at : at + 31].hex()}%" for at in range(0, len(data), 31))
    return results_of(talk(text + "infer 1 0%", loader, results)[-1])


BYTES = bytes([0, 1, 127, 128, 129, 200, 254, 255])
FLOATS = np.array([0, 0.1, -0.125, 0.124, 33.6, -40.0, 3e9, np.nan], np.float32)


def test_unsigned_bytes_to_int8(talk: Talk) -> None:
    stored = np.frombuffer(BYTES, np.uint8).astype(int) - 128
    assert sent(talk, BYTES, "minus_128") == [0.25 * (value + 7) for value in stored]


def test_bytes_to_floats(talk: Talk) -> None:
    assert sent(talk, BYTES, "float") == [0.5 * value for value in BYTES]
    signed = np.frombuffer(BYTES, np.int8).astype(int)
    assert sent(talk, BYTES, "signed") == [0.5 * (value - 83) for value in signed]


@pytest.mark.parametrize(("loader", "least", "most"), [("quantised", -128, 127), ("unsigned", 0, 255)])
def test_floats_are_rounded_and_saturated(talk: Talk, loader: str, least: int, most: int) -> None:
    found = sent(talk, FLOATS.tobytes(), loader)
    away = np.trunc(FLOATS[:-1] / 0.25 + np.copysign(0.5, FLOATS[:-1]))  # halves away from zero
    stored = np.clip(away - 7, least, most)
    assert found[:-1] == [0.25 * (value + 7) for value in stored]
    assert found[-1] == 0.25 * (least + 7)  # NaN


def test_words(talk: Talk) -> None:
    values = np.array([0, 1, -1, 32767, -32768, 300, -300, 7], np.int16)
    assert sent(talk, values.tobytes(), "words") == [0.25 * (int(value) + 7) for value in values]


# ---- results ----


def test_the_error_is_against_the_float_input(talk: Talk) -> None:
    values = np.array([0, 0.1, -0.125, 0.124, 1.6, -3.0, 2.2, 100], np.float32)
    stored = np.clip(np.trunc(values / 0.25 + np.copysign(0.5, values)) - 7, -128, 127)
    wanted = np.mean((0.25 * (stored + 7) - values) ** 2)
    assert sent(talk, values.tobytes(), "quantised", "error") == pytest.approx([wanted], rel=1e-6)


@pytest.mark.parametrize(
    "values", [[0, 1, 2, 3, -4, 5, 6, -7], [1000, 0, 0, 0, 0, 0, 0, 0], [-200] * 8, [9.5, 9] * 4]
)
def test_softmax(talk: Talk, values: list[float]) -> None:
    numbers = np.array(values, np.float32)
    powers = np.exp(numbers.astype(np.float64) - numbers.max())
    assert sent(talk, numbers.tobytes(), "floats", "softmax") == pytest.approx(
        powers / powers.sum(), abs=1.5e-6
    )


def test_numbers_have_eight_decimals(talk: Talk) -> None:
    rng = np.random.default_rng(1)
    numbers = np.concatenate(
        [
            rng.uniform(-2, 2, 200).astype(np.float32),
            (rng.uniform(-1, 1, 200) * 10.0 ** rng.integers(-7, 9, 200)).astype(np.float32),
            np.float32([0, 1, -1, 0.9999999, 0.99999994, 1e-7, 4.9e-7, 5.1e-7, 16777216, 2147483520]),
            np.float32([0.5, -0.0, 3.9999998, 127.5, 1 / 256, 255 / 256]),
        ]
    )
    blocks = [block for block in np.resize(numbers, 416).reshape(-1, 8) if block.tobytes()[0] != 0xEE]
    numbers = np.concatenate(blocks)
    text = ""
    for block in blocks:
        data = block.tobytes()
        text += f"db load 32%db {data[:16].hex()}%db {data[16:].hex()}%infer 1 0%"
    answers = talk(text, "floats")[3::4]
    lines = [line for answer in answers for line in answer if line.startswith("m-results")]
    texts = [value for line in lines for value in line[len("m-results-[") : -1].split(",")]
    assert all(re.fullmatch(r"-?[0-9]+\.[0-9]{8}", value) for value in texts)
    found = np.array([float(value) for value in texts])
    assert np.abs(found - numbers.astype(np.float64)).max() <= 0.5e-8 + 2.4e-10


def test_numbers_that_are_too_large(talk: Talk) -> None:
    values = np.array([3e9, -3e9, 1e30, 3.4e38, np.inf, -np.inf, np.nan, 1], np.float32)
    found = sent(talk, values.tobytes(), "floats")
    assert found == pytest.approx(values.tolist(), rel=1e-5, nan_ok=True)


# ---- the code ----


@pytest.mark.parametrize("name", ["gcc", "clang", "arm-none-eabi-gcc"])
def test_no_warnings(name: str, tmp_path: Path) -> None:
    cpu = ["-mcpu=cortex-m0", "-mthumb"] if name.startswith("arm") else []
    call(compiler(name), *WARNINGS, *cpu, "-Os", *INCLUDES, "-c", *SERVER, cwd=tmp_path)
    assert (tmp_path / "mlf_mlperf.o").stat().st_size > 0


def test_too_small_a_command_does_not_compile() -> None:
    command = [compiler("cc"), "-DMLF_MLPERF_MAX_COMMAND=71u", *INCLUDES, "-fsyntax-only", SERVER[0]]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "must be 72 to 4096" in done.stderr
