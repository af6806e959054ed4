# SPDX-License-Identifier: Apache-2.0
"""The C executor: its own tests under sanitizers in every configuration, warnings, sizes, numbers."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import pytest

from ccode import CORTEX_M4, CRT, SANITIZE, WARNINGS, call, compiler, sanitizing
from mlf_sdk.wire.codes import STATUS_TEXT, Status

INCLUDE = f"-I{CRT / 'include'}"
SOURCES = [CRT / f"src/{name}.c" for name in ("mlf", "mlf_backend", "mlf_observe", "mlf_stream")]
OBJECTS = [f"{source.stem}.o" for source in SOURCES]
TEST = CRT / "tests/test_executor.c"
SWITCHES = [*((0, *modes) for modes in itertools.product((0, 1), repeat=3)), (1, 0, 1, 1), (1, 1, 1, 1)]

pytestmark = pytest.mark.toolchain


def defines(observe: int, trace: int, slots: int, stack: int) -> list[str]:
    switches = {"OBSERVE": observe, "TRACE": trace, "WORKSPACE_SLOTS": slots, "WORKSPACE_STACK": stack}
    return [f"-DMLF_{name}={value}" for name, value in switches.items()]


@pytest.mark.parametrize(("observe", "trace", "slots", "stack"), SWITCHES)
@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_under_sanitizers(
    name: str, observe: int, trace: int, slots: int, stack: int, tmp_path: Path
) -> None:
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", *SANITIZE]
    flags += [*defines(observe, trace, slots, stack), INCLUDE]
    call(sanitizing(name), *flags, TEST, *SOURCES, "-o", "test", cwd=tmp_path)
    said = re.fullmatch(r"(\d+) checks\n", call(tmp_path / "test"))
    assert said is not None
    assert int(said.group(1)) >= 300 + 10_000 * (slots + stack)


@pytest.mark.parametrize("ways", ["-DMLF_SEQUENCES=1", "-DMLF_SEQUENCES=0"])
@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_rows_under_sanitizers(name: str, ways: str, tmp_path: Path) -> None:
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", *SANITIZE, ways, INCLUDE]
    call(sanitizing(name), *flags, CRT / "tests/test_stream.c", *SOURCES, "-o", "test", cwd=tmp_path)
    said = re.fullmatch(r"(\d+) checks\n", call(tmp_path / "test"))
    assert said is not None and int(said.group(1)) >= 300


def test_without_streams_there_is_no_code_of_them(tmp_path: Path) -> None:
    gcc = compiler("arm-none-eabi-gcc")
    flags = ["-mcpu=cortex-m4", "-mthumb", "-Os", "-DMLF_STREAMS=0", INCLUDE]
    call(gcc, *flags, "-c", CRT / "src/mlf_stream.c", cwd=tmp_path)
    table = call(compiler("arm-none-eabi-size"), "mlf_stream.o", cwd=tmp_path)
    assert table.splitlines()[1].split()[:3] == ["0", "0", "0"]


@pytest.mark.parametrize("name", ["gcc", "clang", "arm-none-eabi-gcc"])
def test_no_warnings(name: str, tmp_path: Path) -> None:
    cpu = ["-mcpu=cortex-m0", "-mthumb", "-ffreestanding"] if name.startswith("arm") else []
    for switches in SWITCHES:
        call(
            compiler(name), *WARNINGS, *cpu, "-O2", *defines(*switches), INCLUDE, "-c", *SOURCES, cwd=tmp_path
        )


@pytest.mark.parametrize("tables", [0, 1])
def test_ways_to_run_compile_alone(tables: int, tmp_path: Path) -> None:
    ways = [f"-DMLF_STEP_TABLES={tables}", f"-DMLF_SEQUENCES={1 - tables}"]
    call(compiler("gcc"), *WARNINGS, *ways, "-O2", INCLUDE, "-c", *SOURCES, cwd=tmp_path)


@pytest.mark.parametrize(
    "switch",
    [
        "MLF_OBSERVE",
        "MLF_TRACE",
        "MLF_WORKSPACE_SLOTS",
        "MLF_WORKSPACE_STACK",
        "MLF_STEP_TABLES",
        "MLF_SEQUENCES",
    ],
)
@pytest.mark.parametrize("value", ["2", "-1"])
def test_options_out_of_range_do_not_compile(switch: str, value: str) -> None:
    command = [compiler("cc"), f"-D{switch}={value}", INCLUDE, "-fsyntax-only", str(SOURCES[0])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "must be 0 or 1" in done.stderr


@pytest.mark.parametrize(("language", "standard"), [("c", "c99"), ("c++", "c++14")])
def test_public_headers_stand_alone(language: str, standard: str, tmp_path: Path) -> None:
    gcc = compiler("g++" if language == "c++" else "gcc")
    headers = sorted(path.relative_to(CRT / "include") for path in (CRT / "include").rglob("*.h"))
    assert {"mlf/mlf.h", "tvm/runtime/c_backend_api.h", "dlpack/dlpack.h"} <= set(map(str, headers))
    for header in headers:
        source = tmp_path / "use.txt"
        source.write_text(f"#include <{header}>\n#include <{header}>\nint use;\n")
        strict = ["-Wall", "-Wextra", "-Werror", f"-std={standard}", "-fsyntax-only"]
        call(gcc, "-x", language, *strict, INCLUDE, source)


def test_size_in_production(tmp_path: Path) -> None:
    """At most 1 kB of code and 64 bytes of RAM outside the arena, with every workspace mode; 640 B for rows."""
    gcc = compiler("arm-none-eabi-gcc")
    for slots, stack in itertools.product((0, 1), repeat=2):
        whole = [*defines(0, 0, slots, stack), "-DMLF_STREAMS=0"]
        call(gcc, *CORTEX_M4, *whole, INCLUDE, "-c", *SOURCES, cwd=tmp_path)
        table = call(compiler("arm-none-eabi-size"), *OBJECTS, cwd=tmp_path)
        rows = [list(map(int, line.split()[:3])) for line in table.splitlines()[1:]]
        text, data, bss = (sum(column) for column in zip(*rows, strict=True))
        assert 100 < text <= 1024
        assert 0 < data + bss <= 64
    call(gcc, *CORTEX_M4, INCLUDE, "-c", CRT / "src/mlf_stream.c", cwd=tmp_path)
    table = call(compiler("arm-none-eabi-size"), "mlf_stream.o", cwd=tmp_path)
    assert 100 < int(table.splitlines()[1].split()[0]) <= 640


LAYOUT = """\
#include <stddef.h>
#include <stdio.h>
#include "mlf_rpc.h"
#define SIZE(type) printf(#type " %zu\\n", sizeof(type))
#define AT(type, member) printf(#type "." #member " %zu\\n", offsetof(type, member))
int main(void) {
  SIZE(mlf_slot_t); SIZE(mlf_step_t); SIZE(mlf_tensor_t); SIZE(mlf_argument_t); SIZE(mlf_observed_t);
  SIZE(mlf_model_t); AT(mlf_model_t, archive_sha256); AT(mlf_model_t, observed);
  SIZE(mlf_trace_t); SIZE(mlf_rpc_config_t); SIZE(mlf_rpc_t); AT(mlf_rpc_t, tx_buffer);
  return 0;
}
"""


def test_one_layout_whatever_the_options(tmp_path: Path) -> None:
    """A library and an application that were compiled with different options agree on every structure."""
    (tmp_path / "layout.c").write_text(LAYOUT)
    found = set()
    for switches in SWITCHES:
        call(
            compiler("gcc"),
            *defines(*switches),
            INCLUDE,
            f"-I{CRT / 'rpc'}",
            "layout.c",
            "-o",
            "t",
            cwd=tmp_path,
        )
        found.add(call(tmp_path / "t"))
    (layout,) = found
    assert len(layout.splitlines()) == 12


def test_observing_costs_nothing(tmp_path: Path) -> None:
    """The executor and the allocator are the same code with and without it, and without it is nothing else."""
    gcc, objcopy = compiler("arm-none-eabi-gcc"), compiler("arm-none-eabi-objcopy")
    code: list[dict[str, bytes]] = []
    for observe in (0, 1):
        call(gcc, *CORTEX_M4, *defines(observe, 0, 1, 1), INCLUDE, "-c", *SOURCES, cwd=tmp_path)
        found = {}
        for name in OBJECTS:
            call(objcopy, "-O", "binary", "-j", ".text", name, f"{name}.text", cwd=tmp_path)
            text = tmp_path / f"{name}.text"
            found[name] = text.read_bytes() if text.exists() else b""
            text.unlink(missing_ok=True)
        code.append(found)
    assert code[0].pop("mlf_observe.o") == b""
    assert code[1].pop("mlf_observe.o") != b""
    assert code[0] == code[1]
    assert len(code[0]["mlf.o"]) > 50


def test_needs_nothing_from_a_library(tmp_path: Path) -> None:
    gcc = compiler("arm-none-eabi-gcc")
    call(gcc, *CORTEX_M4, "-ffreestanding", INCLUDE, "-c", *SOURCES, cwd=tmp_path)
    undefined = call(compiler("arm-none-eabi-nm"), "-u", *OBJECTS, cwd=tmp_path)
    assert set(re.findall(r" U (\w+)", undefined)) <= {
        "mlf_context",
        "mlf_refuse",
        "mlf_run",
        "memcpy",
        "memset",
    }


def test_stack_use(tmp_path: Path) -> None:
    """No recursion to measure, no variable frames; the allocator, called in loops, takes next to nothing."""
    gcc = compiler("arm-none-eabi-gcc")
    call(gcc, *CORTEX_M4, "-fstack-usage", *defines(0, 1, 1, 1), INCLUDE, "-c", *SOURCES, cwd=tmp_path)
    text = (tmp_path / "mlf.su").read_text() + (tmp_path / "mlf_backend.su").read_text()
    used = {}
    for line in text.splitlines():
        place, size, kind = line.split("\t")
        assert kind == "static"
        used[place.split(":")[-1]] = int(size)
    assert used["mlf_run"] <= 64
    assert used["TVMBackendAllocWorkspace"] <= 8
    assert used["TVMBackendFreeWorkspace"] == 0


def test_status_numbers_are_those_of_the_header() -> None:
    header = (CRT / "include/mlf/mlf.h").read_text()
    body = re.search(r"typedef enum \{([^}]*)\} mlf_status_t;", header)
    assert body is not None
    in_c = {
        name.removeprefix("E_"): int(value) for name, value in re.findall(r"MLF_(\w+) = (-?\d+)", body[1])
    }
    in_python = {status.name: status.value for status in Status if status > -32}
    assert in_c == in_python
    assert set(STATUS_TEXT) == set(Status)
