# SPDX-License-Identifier: Apache-2.0
"""Signed packages in C: their tests under sanitizers, warnings, sizes, and the real libraries' signatures."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ccode import CORTEX_M4, CRT, SANITIZE, WARNINGS, call, compiler, sanitizing
from mlf_sdk.codegen.options import MONOCYPHER_FLAGS
from mlf_sdk.tools.signing import Signer, make_key
from mlf_sdk.wire.package import PACKAGE_STATUS_TEXT, PackageOpcode, PackageStatus

INCLUDE = [f"-I{CRT / folder}" for folder in ("include", "graph", "params", "rpc", "package", "tests", "src")]
OWN = [CRT / f"package/mlf_package{name}.c" for name in ("", "_cases", "_receive")]
RPC = CRT / "package/mlf_package_rpc.c"
STORE = [CRT / f"params/mlf_{name}.c" for name in ("params", "store", "dynamic")]
GRAPH = [CRT / "src/mlf_crc32.c", *sorted((CRT / "graph").glob("*.c"))]
TEST = [CRT / f"tests/{name}.c" for name in ("test_package", "tiny_model", "tiny_package", "fake_crypto")]
TEST += [CRT / "src/mlf.c", CRT / "src/mlf_backend.c"]

NVMC = [f"-I{CRT / 'tests/nvmc'}", CRT / "tests/nvmc/fake_nvmc.c", CRT / "baremetal/flash_nvmc.c"]

pytestmark = pytest.mark.toolchain


@pytest.mark.parametrize(("name", "memory"), [("gcc", "bytes"), ("clang", "bytes"), ("gcc", "nvmc")])
def test_every_field_and_power_lost_everywhere(name: str, memory: str, tmp_path: Path) -> None:
    """In memory that takes any byte, and in flash that the nRF51's driver writes, its controller simulated."""
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", *SANITIZE, *INCLUDE]
    more = [*NVMC, "-DTEST_NVMC"] if memory == "nvmc" else []
    call(sanitizing(name), *flags, *more, *TEST, *GRAPH, *STORE, *OWN, "-o", "test", cwd=tmp_path)
    said = call(tmp_path / "test")
    found = re.fullmatch(
        r"(\d+) checks, (\d+) mutations refused, (\d+) power cuts \((\d+) old, (\d+) new\), "
        r"(\d+) watchdog resets, (\d+) bit errors\n",
        said,
    )
    assert found is not None, said
    checks, refused, cuts, olds, news, bites, flips = map(int, found.groups())
    assert checks > 10_000_000
    assert refused > 7_000  # 5,120 bits, and pieces that are moved
    assert cuts == olds + news > 20_000
    assert news > 0  # the answer alone was lost
    assert bites == 4
    assert flips == 8 * (32 + 256 + 384)
    stated = (CRT.parent / "docs/security.md").read_text()
    assert f"{cuts:,} power cuts" in stated


@pytest.mark.parametrize("name", ["gcc", "clang", "arm-none-eabi-gcc"])
def test_no_warnings(name: str, tmp_path: Path) -> None:
    arm = name.startswith("arm")
    cpu = ["-mcpu=cortex-m0", "-mthumb", "-ffreestanding"] if arm else []
    signed = "-DMLF_PARAMS_SIGNED=1"
    sources = [*OWN, RPC, *STORE, CRT / "params/mlf_params_rpc.c", CRT / "baremetal/flash_nvmc.c"]
    call(compiler(name), *WARNINGS, *cpu, signed, "-O2", *INCLUDE, *NVMC[:1], "-c", *sources, cwd=tmp_path)


def test_size_and_stack_on_cortex_m4(tmp_path: Path) -> None:
    gcc = compiler("arm-none-eabi-gcc")
    call(gcc, *CORTEX_M4, "-fstack-usage", *INCLUDE, "-c", *OWN, RPC, cwd=tmp_path)
    names = [path.stem for path in (*OWN, RPC)]
    table = call(compiler("arm-none-eabi-size"), *(f"{n}.o" for n in names), cwd=tmp_path)
    rows = [list(map(int, line.split()[:3])) for line in table.splitlines()[1:]]
    text, data, bss = (sum(column) for column in zip(*rows, strict=True))
    assert 1000 < text <= 3000
    assert data + bss == 0
    for name in names:
        for line in (tmp_path / f"{name}.su").read_text().splitlines():
            _, size, kind = line.split("\t")
            assert kind == "static", line
            assert int(size) <= 256, line


def test_code_with_ed25519_on_cortex_m4(tmp_path: Path) -> None:
    """Code that a signed image has more, without its tables; its share of the library as docs/security.md says."""
    if "MONOCYPHER" not in os.environ:
        pytest.skip("MONOCYPHER is not set")
    gcc, src = compiler("arm-none-eabi-gcc"), Path(os.environ["MONOCYPHER"]) / "src"
    small = [*CORTEX_M4, "-Os", "-ffunction-sections", "-fdata-sections"]
    call(gcc, *small, *INCLUDE, "-c", *OWN, RPC, cwd=tmp_path)
    library = CRT / "package/mlf_crypto_monocypher.c"
    flags = [*MONOCYPHER_FLAGS, "-DMLF_PACKAGES_ONLY", "-w", f"-I{src}", f"-I{src / 'optional'}"]
    call(gcc, *small, *flags, *INCLUDE, "-c", library, cwd=tmp_path)
    ours = "mlf_package_rpc_handle,-u,mlf_package_init,-u,mlf_package_accept"
    crypto = "mlf_crypto_verify,-u,mlf_crypto_sha512"
    text = {}
    for name, kept, paths in (("all", ours, [*OWN, RPC, library]), ("crypto", crypto, [library])):
        link = ["-nostdlib", f"-Wl,--gc-sections,--unresolved-symbols=ignore-all,-e,{kept}"]
        call(gcc, *CORTEX_M4, *link, *(f"{path.stem}.o" for path in paths), "-o", f"{name}.elf", cwd=tmp_path)
        line = call(compiler("arm-none-eabi-size"), f"{name}.elf", cwd=tmp_path).splitlines()[1]
        text[name], data, bss = map(int, line.split()[:3])
        assert data + bss == 0
    assert 11_000 < text["all"] <= 12_200
    if "12.2" in call(gcc, "-dumpfullversion") and "version 3.1.2" in (src / "monocypher.h").read_text():
        assert f"Monocypher 3.1.2, {text['crypto']:,} B" in (CRT.parent / "docs/security.md").read_text()


def test_the_writing_requests_are_not_in_a_signed_image(tmp_path: Path) -> None:
    gcc, source = compiler("arm-none-eabi-gcc"), CRT / "params/mlf_params_rpc.c"
    needed = {}
    for signed in (0, 1):
        call(gcc, *CORTEX_M4, f"-DMLF_PARAMS_SIGNED={signed}", *INCLUDE, "-c", source, cwd=tmp_path)
        needed[signed] = call(compiler("arm-none-eabi-nm"), "-u", "mlf_params_rpc.o", cwd=tmp_path)
    assert "mlf_dynamic_begin" in needed[0]
    assert "mlf_dynamic" not in needed[1]


def test_numbers_are_those_of_the_headers() -> None:
    header = (CRT / "package/mlf_package.h").read_text()
    in_c = {n: int(v) for n, v in re.findall(r"MLF_E_PACKAGE_(\w+) = (-\d+)", header)}
    assert in_c == {status.name: status.value for status in PackageStatus}
    assert set(PACKAGE_STATUS_TEXT) == set(PackageStatus)
    header = (CRT / "package/mlf_package_rpc.h").read_text()
    in_c = {n: int(v, 16) for n, v in re.findall(r"MLF_RPC_(\w+) = (0x\w+)", header)}
    assert in_c == {opcode.name: opcode.value for opcode in PackageOpcode}
    text = (CRT / "PACKAGES.md").read_text()
    for status in PackageStatus:
        assert f"| `{status.name}` | {status.value} |" in text
    for opcode in PackageOpcode:
        assert f"| `{opcode.name}` | {opcode.value} |" in text


CHECK = r"""
#include "mlf_crypto.h"
#include <stdio.h>
#include <string.h>

int main(void) {
  static uint8_t key[32], signature[64], message[1000], digest[64];
  const size_t size = fread(key, 1, 32, stdin) + fread(signature, 1, 64, stdin);
  const size_t count = fread(message, 1, sizeof message, stdin);
  int accepted = mlf_crypto_verify(signature, key, message, count) == 0;
  int wrong = 0;
  for (int i = 0; i < 64 * 8; i++) {
    signature[i / 8] ^= (uint8_t)(1 << i % 8);
    wrong += mlf_crypto_verify(signature, key, message, count) == 0;
    signature[i / 8] ^= (uint8_t)(1 << i % 8);
  }
  for (size_t i = 0; i < count; i++) {
    message[i] ^= 1;
    wrong += mlf_crypto_verify(signature, key, message, count) == 0;
    message[i] ^= 1;
  }
  if (mlf_crypto_sha512(digest, message, count) != 0) return 1;
  printf("%d %d %d ", (int)size, accepted, wrong);
  for (int i = 0; i < 64; i++) printf("%02x", digest[i]);
  return 0;
}
"""


@pytest.mark.parametrize("library", ["openssl", "monocypher"])
def test_a_library_verifies_what_the_host_signs(library: str, tmp_path: Path) -> None:
    """The signature of Python's library; not one with any bit changed."""
    import hashlib
    import subprocess

    gcc = compiler("gcc")
    (tmp_path / "check.c").write_text(CHECK)
    sources: list[Path | str] = [CRT / "host/mlf_crypto_openssl.c", "-lcrypto"]
    if library == "monocypher":
        if "MONOCYPHER" not in os.environ:
            pytest.skip("MONOCYPHER is not set")
        src = Path(os.environ["MONOCYPHER"]) / "src"
        sources = [f"-I{src}", f"-I{src / 'optional'}", CRT / "package/mlf_crypto_monocypher.c"]
    elif not Path("/usr/include/openssl/evp.h").exists():
        pytest.skip("OpenSSL's headers are not installed")
    call(gcc, "-O1", *INCLUDE, "check.c", *sources, "-o", "check", cwd=tmp_path)
    public = make_key(tmp_path / "a.key", tmp_path / "a.pub")
    message = bytes(range(256)) + b"signed" * 10
    signature = Signer(tmp_path / "a.key").sign(message)
    done = subprocess.run(
        [tmp_path / "check"], input=public.data + signature + message, capture_output=True, check=True
    )
    assert done.stdout.decode() == f"96 1 0 {hashlib.sha512(message).hexdigest()}"
