# SPDX-License-Identifier: Apache-2.0
"""Secured sessions in C: their tests under sanitizers, warnings, sizes, and the real libraries against Python's."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest

from ccode import CORTEX_M4, CRT, SANITIZE, WARNINGS, call, compiler, sanitizing
from mlf_sdk.tools.signing import AgreementKey

INCLUDE = [f"-I{CRT / folder}" for folder in ("include", "rpc", "secure", "package", "tests")]
SECURE = [CRT / "secure/mlf_secure.c"]
SERVER = [CRT / "src/mlf_crc32.c", *sorted((CRT / "rpc").glob("*.c"))]
TEST = [CRT / f"tests/{name}.c" for name in ("test_secure", "fake_models", "fake_crypto")]
ON = ["-DMLF_RPC_SECURE=1", "-DMLF_STREAMS=0"]

pytestmark = pytest.mark.toolchain


def build(source: Path, folder: Path) -> Path:
    program = folder / "test"
    files = [source if path.name == source.name else path for path in (*SERVER, *SECURE, *TEST)]
    call(sanitizing("gcc"), "-O1", *SANITIZE, *ON, *INCLUDE, *files, "-o", program)
    return program


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_who_gets_in_and_what_a_forged_message_changes(name: str, tmp_path: Path) -> None:
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", *SANITIZE, *ON]
    call(sanitizing(name), *flags, *INCLUDE, *SERVER, *SECURE, *TEST, "-o", "test", cwd=tmp_path)
    found = re.fullmatch(r"(\d+) checks\n", call(tmp_path / "test"))
    assert found is not None
    assert int(found[1]) > 3_000_000


@pytest.mark.parametrize(
    ("file", "good", "bad"),
    [
        ("secure/mlf_secure.c", "return difference == 0;", "return difference != 1;"),
        ("secure/mlf_secure.c", "secure->counter + ahead, payload", "ahead, payload"),
        ("secure/mlf_secure.c", "if (*out_wait_ms != 0) {", "if (*out_wait_ms == 1) {"),
        ("rpc/mlf_rpc.c", "  mlf_secure_close(rpc->config->secure);\n", ""),
        (
            "rpc/mlf_rpc_secure.c",
            "return request[1] == MLF_RPC_HELLO ||",
            "return request[1] == MLF_RPC_RUN ||",
        ),
    ],
)
def test_the_c_test_notices_a_hole(file: str, good: str, bad: str, tmp_path: Path) -> None:
    text = (CRT / file).read_text()
    assert text.count(good) == 1
    changed = tmp_path / Path(file).name
    changed.write_text(text.replace(good, bad))
    done = subprocess.run([build(changed, tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "failed:" in done.stderr


@pytest.mark.parametrize("name", ["gcc", "clang", "arm-none-eabi-gcc"])
def test_no_warnings(name: str, tmp_path: Path) -> None:
    cpu = ["-mcpu=cortex-m0", "-mthumb", "-ffreestanding"] if name.startswith("arm") else []
    call(compiler(name), *WARNINGS, *cpu, *ON, "-O2", *INCLUDE, "-c", *SERVER, *SECURE, cwd=tmp_path)


@pytest.mark.parametrize("define", ["MLF_OBSERVE=1", "MLF_RPC_MAX_PAYLOAD=127"])
def test_what_can_not_be_locked_does_not_compile(define: str) -> None:
    command = [compiler("cc"), *ON, f"-D{define}", *INCLUDE, "-fsyntax-only", CRT / "rpc/mlf_rpc.c"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "must be" in done.stderr


def test_an_open_server_has_none_of_it(tmp_path: Path) -> None:
    call(compiler("gcc"), *INCLUDE, "-DMLF_STREAMS=0", "-c", *SERVER, cwd=tmp_path)
    names = call("nm", *(f"{path.stem}.o" for path in SERVER), cwd=tmp_path)
    assert "secure" not in names.replace("mlf_rpc_secure.o", "")
    assert "crypto" not in names


def test_size_and_stack_on_cortex_m4(tmp_path: Path) -> None:
    gcc = compiler("arm-none-eabi-gcc")
    call(gcc, *CORTEX_M4, "-fstack-usage", *ON, *INCLUDE, "-c", *SECURE, cwd=tmp_path)
    table = call(compiler("arm-none-eabi-size"), "mlf_secure.o", cwd=tmp_path)
    text, data, bss = map(int, table.splitlines()[1].split()[:3])
    assert 300 < text <= 1400
    assert data + bss == 0
    for line in (tmp_path / "mlf_secure.su").read_text().splitlines():
        assert line.endswith("static"), line
        assert int(line.split("\t")[1]) <= 160, line


CHECK = r"""
#include "mlf_crypto.h"
#include <stdio.h>

static void show(const uint8_t *data, int size) {
  for (int i = 0; i < size; i++) printf("%02x", data[i]);
  printf("\n");
}

int main(void) {
  static uint8_t secret[32], theirs[32], message[1000], out[32];
  const size_t size = fread(secret, 1, 32, stdin) + fread(theirs, 1, 32, stdin);
  const size_t count = fread(message, 1, sizeof message, stdin);
  if (size != 64 || mlf_crypto_x25519_public(out, secret) != 0) return 1;
  show(out, 32);
  if (mlf_crypto_x25519(out, secret, theirs) != 0) return 1;
  show(out, 32);
  if (mlf_crypto_mac(out, secret, 0x0102030405060708u, message, count) != 0) return 1;
  show(out, 16);
  static const uint8_t zero[32];
  return mlf_crypto_x25519(out, secret, zero) == 0; /* known to everybody */
}
"""


@pytest.mark.parametrize("library", ["openssl", "monocypher"])
def test_a_library_agrees_with_the_host(library: str, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    (tmp_path / "check.c").write_text(CHECK)
    sources: list[Path | str] = [CRT / "host/mlf_crypto_openssl.c", "-lcrypto"]
    if library == "monocypher":
        if "MONOCYPHER" not in os.environ:
            pytest.skip("MONOCYPHER is not set")
        src = Path(os.environ["MONOCYPHER"]) / "src"
        sources = [f"-I{src}", f"-I{src / 'optional'}", CRT / "package/mlf_crypto_monocypher.c"]
    elif not Path("/usr/include/openssl/evp.h").exists():
        pytest.skip("OpenSSL's headers are not installed")
    call(compiler("gcc"), "-O1", *INCLUDE, "check.c", *sources, "-o", "check", cwd=tmp_path)
    secret, message, own = bytes(range(32)), bytes(range(256)) * 3, AgreementKey()
    given = secret + own.public + message
    done = subprocess.run([tmp_path / "check"], input=given, capture_output=True, check=True)
    public = X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
    counter = 0x0102030405060708.to_bytes(8, "little")
    code = hashlib.blake2b(counter + message, digest_size=16, key=secret).hexdigest()
    shared = own.agree(public)
    assert shared is not None
    assert done.stdout.decode().split() == [public.hex(), shared.hex(), code]
    assert own.agree(bytes(32)) is None
