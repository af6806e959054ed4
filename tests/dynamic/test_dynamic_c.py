# SPDX-License-Identifier: Apache-2.0
"""The dynamic executor and the parameter store in C: their tests under sanitizers, warnings, sizes, fuzzing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ccode import CORTEX_M4, CRT, SANITIZE, WARNINGS, call, compiler, sanitizing
from mlf_sdk.wire.params import BLOB_STATUS_TEXT, BlobStatus, ParamsOpcode

INCLUDE = [f"-I{CRT / folder}" for folder in ("include", "graph", "params", "rpc", "tests")]
GRAPH = [CRT / "src/mlf_crc32.c", *sorted((CRT / "graph").glob("*.c"))]
STORE = [CRT / f"params/mlf_{name}.c" for name in ("params", "store", "dynamic", "store_ram")]
RPC = CRT / "params/mlf_params_rpc.c"
FILE = CRT / "params/mlf_store_file.c"
TEST = [
    CRT / "tests/test_dynamic.c",
    CRT / "tests/tiny_model.c",
    CRT / "src/mlf.c",
    CRT / "src/mlf_backend.c",
]
TARGETS = ("graph", "params", "rpc", "package", "secure", "mlperf")

pytestmark = pytest.mark.toolchain


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_every_field_every_byte_and_every_power_cut(name: str, tmp_path: Path) -> None:
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", *SANITIZE, *INCLUDE]
    call(sanitizing(name), *flags, *TEST, *GRAPH, *STORE, FILE, "-o", "test", cwd=tmp_path)
    said = re.fullmatch(r"(\d+) checks\n", call(tmp_path / "test", tmp_path / "store.bin"))
    assert said is not None
    assert int(said.group(1)) > 1_000_000


@pytest.mark.parametrize("name", ["gcc", "clang", "arm-none-eabi-gcc"])
def test_no_warnings(name: str, tmp_path: Path) -> None:
    arm = name.startswith("arm")
    cpu = ["-mcpu=cortex-m0", "-mthumb", "-ffreestanding"] if arm else []
    sources = [*GRAPH, *STORE, RPC, *([] if arm else [FILE])]
    call(compiler(name), *WARNINGS, *cpu, "-O2", *INCLUDE, "-c", *sources, cwd=tmp_path)


def test_size_and_stack_on_cortex_m4(tmp_path: Path) -> None:
    gcc = compiler("arm-none-eabi-gcc")
    call(gcc, *CORTEX_M4, "-fstack-usage", *INCLUDE, "-c", *GRAPH, *STORE, RPC, cwd=tmp_path)
    names = [path.stem for path in (*GRAPH, *STORE, RPC)]
    table = call(compiler("arm-none-eabi-size"), *(f"{n}.o" for n in names), cwd=tmp_path)
    rows = [list(map(int, line.split()[:3])) for line in table.splitlines()[1:]]
    text, data, bss = (sum(column) for column in zip(*rows, strict=True))
    assert 1000 < text <= 5000
    assert data + bss == 0
    for name in names:
        for line in (tmp_path / f"{name}.su").read_text().splitlines():
            _, size, kind = line.split("\t")
            assert kind == "static", line
            assert int(size) <= 256, line
    undefined = call(compiler("arm-none-eabi-nm"), "-u", *(f"{n}.o" for n in names), cwd=tmp_path)
    needed = {n for n in re.findall(r" U (\w+)", undefined) if not n.startswith("mlf_")}
    assert needed <= {"memcpy", "memset", "memcmp"}


@pytest.mark.parametrize(("language", "standard"), [("c", "c99"), ("c++", "c++14")])
def test_public_headers_stand_alone(language: str, standard: str, tmp_path: Path) -> None:
    gcc = compiler("g++" if language == "c++" else "gcc")
    headers = [*sorted((CRT / "graph").glob("*.h")), *sorted((CRT / "params").glob("*.h"))]
    assert len(headers) >= 8
    for header in headers:
        source = tmp_path / "use.txt"
        source.write_text(f'#include "{header.name}"\n#include "{header.name}"\nint use;\n')
        strict = ["-Wall", "-Wextra", "-Werror", f"-std={standard}", "-fsyntax-only"]
        call(gcc, "-x", language, *strict, *INCLUDE, source)


def test_numbers_are_those_of_the_headers() -> None:
    header = (CRT / "graph/mlf_blob.h").read_text()
    in_c = {n: int(v) for n, v in re.findall(r"MLF_BLOB_E_(\w+) = (-\d+)", header)}
    assert in_c == {status.name: status.value for status in BlobStatus}
    assert set(BLOB_STATUS_TEXT) == set(BlobStatus)
    header = (CRT / "params/mlf_params_rpc.h").read_text()
    in_c = {n: int(v, 16) for n, v in re.findall(r"MLF_RPC_(\w+) = (0x\w+)", header)}
    assert in_c == {opcode.name: opcode.value for opcode in ParamsOpcode}
    text = (CRT / "BLOBS.md").read_text()
    for status in BlobStatus:
        assert f"`{status.name}` {status.value}" in text
    for opcode in ParamsOpcode:
        assert f"| `{opcode.name}` | {opcode.value} |" in text


@pytest.fixture(scope="module")
def fuzzers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sanitizing("clang", "-fsanitize=fuzzer")
    folder = tmp_path_factory.mktemp("fuzz")
    call("sh", CRT / "fuzz/build.sh", folder)
    return folder


@pytest.mark.parametrize("target", TARGETS)
def test_fuzz_a_little(target: str, fuzzers: Path, tmp_path: Path) -> None:
    corpus = CRT / "fuzz/corpus" / target
    assert len(list(corpus.iterdir())) >= 10
    new = tmp_path / "new"
    new.mkdir()
    said = call(
        fuzzers / f"fuzz_{target}", "-runs=20000", "-max_len=512", "-seed=1", new, corpus, cwd=tmp_path
    )
    assert "Done 20" in said


def test_the_corpus_is_small() -> None:
    sizes = [path.stat().st_size for path in (CRT / "fuzz/corpus").rglob("*") if path.is_file()]
    assert 0 < sum(sizes) < 240_000
