# SPDX-License-Identifier: Apache-2.0
"""Packages and keys on the host: written, read back, mutated, refused."""

from __future__ import annotations

import random
import stat
from pathlib import Path

import pytest

from mlf_sdk.cli.main import main
from mlf_sdk.codegen.packagefile import HEAD_BYTES, SelfTest, build_package, read_package
from mlf_sdk.codegen.paramsblob import ParamsBlob
from mlf_sdk.errors import CheckError, InputError, MlfError
from mlf_sdk.pipeline.package import make_keys, verify_package
from mlf_sdk.tools.signing import Signer, make_key, read_public_keys

PARAMS = ParamsBlob(graph_id=bytes(range(32)), archive_sha256=b"a" * 32, data=bytes(range(200))).pack()
CASE = SelfTest((b"in" * 8,), ((b"out" * 5, bytes(4)),))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("a", "b"):
        make_key(folder / f"{name}.key", folder / f"{name}.pub")
    return folder


def package(keys: Path, name: str = "a", **changes: object) -> bytes:
    signer = Signer(keys / f"{name}.key")
    fields: dict[str, object] = {
        "params": PARAMS,
        "cases": [CASE, CASE],
        "version": 7,
        "arena_bytes": 1000,
        "graph_id": b"g" * 32,
        "code_id": b"c" * 32,
        "key_id": signer.public.id,
        "sign": signer.sign,
    }
    return build_package(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_package_says_what_was_put_in(keys: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.mlfp"
    path.write_bytes(package(keys, revoked=[b"12345678"]))
    found = verify_package(path, keys / "a.pub").package
    manifest = found.manifest
    assert (manifest.version, manifest.arena_bytes, manifest.num_cases) == (7, 1000, 2)
    assert (manifest.graph_id, manifest.code_id) == (b"g" * 32, b"c" * 32)
    assert (manifest.archive_sha256, manifest.revoked) == (b"a" * 32, (b"12345678",))
    assert (manifest.params_bytes + manifest.cases_bytes) % 64 == 0
    assert found.data[HEAD_BYTES : HEAD_BYTES + len(PARAMS)] == PARAMS
    assert main(["package", "verify", str(path), "--trust", str(keys / "a.pub")]) == 0


def test_only_trusted_keys_count(keys: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.mlfp"
    path.write_bytes(package(keys))
    with pytest.raises(CheckError, match="is not trusted"):
        verify_package(path, keys / "b.pub")
    assert main(["package", "verify", str(path), "--trust", str(keys / "b.pub")]) == 1
    path.write_bytes(package(keys, key_id=Signer(keys / "b.key").public.id))  # signed by a, it says b
    with pytest.raises(CheckError, match="signature is wrong"):
        verify_package(path, keys / "b.pub")


def test_a_thousand_mutations_are_refused(keys: Path, tmp_path: Path) -> None:
    good = package(keys)
    path = tmp_path / "mutant.mlfp"
    source = random.Random(4)
    count = 0
    while count < 1000:
        data = bytearray(good)
        for _ in range(source.randint(1, 4)):
            at = source.randrange(len(data))
            match source.randrange(4):
                case 0:
                    data[at] ^= 1 << source.randrange(8)
                case 1:
                    del data[at : at + source.randint(1, 64)]
                case 2:
                    data[at:at] = source.randbytes(source.randint(1, 64))
                case _:
                    data[at : at + 16] = data[source.randrange(len(data)) :][:16]
            if not data:
                break
        if bytes(data) == good:
            continue
        path.write_bytes(data)
        with pytest.raises((InputError, CheckError)):
            verify_package(path, keys / "a.pub")
        count += 1


def test_every_cut_is_refused(keys: Path) -> None:
    good = package(keys)
    for size in range(len(good)):
        with pytest.raises(InputError):
            read_package(good[:size])
    with pytest.raises(InputError, match="in place of"):
        read_package(good + b"\0")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"version": 0}, "invalid version 0"),
        ({"version": 1 << 32}, "invalid version"),
        ({"cases": []}, "0 self-test cases"),
        ({"revoked": [bytes([i]) * 8 for i in range(5)]}, "at most 4 keys"),
    ],
)
def test_what_a_package_cannot_hold(keys: Path, changes: dict[str, object], what: str) -> None:
    with pytest.raises(InputError, match=what):
        package(keys, **changes)


def test_a_package_does_not_revoke_its_own_key(keys: Path) -> None:
    with pytest.raises(InputError, match="can't be revoked"):
        package(keys, revoked=[Signer(keys / "a.key").public.id])


def test_keys_are_made_and_rotated(tmp_path: Path) -> None:
    trust = tmp_path / "trusted.pem"
    assert main(["package", "keys", str(tmp_path / "one"), "--trust", str(trust)]) == 0
    one = tmp_path / "one.key"
    assert stat.S_IMODE(one.stat().st_mode) == 0o600
    before = one.read_bytes()
    with pytest.raises(InputError, match="is there already"):
        make_keys(str(tmp_path / "one"), str(trust), [])
    assert one.read_bytes() == before
    make_keys(str(tmp_path / "two"), str(trust), [])
    assert [key.data for key in read_public_keys(trust)] == [
        Signer(tmp_path / f"{name}.key").public.data for name in ("one", "two")
    ]
    make_keys(str(tmp_path / "three"), str(trust), [str(tmp_path / "one.pub")])
    assert [key.data for key in read_public_keys(trust)] == [
        Signer(tmp_path / f"{name}.key").public.data for name in ("two", "three")
    ]
    with pytest.raises(InputError, match="not in the list"):
        make_keys(str(tmp_path / "four"), str(trust), [str(tmp_path / "one.pub")])
    assert not (tmp_path / "four.key").exists()
    with pytest.raises(InputError, match="no list to drop"):
        make_keys(str(tmp_path / "four"), None, [str(tmp_path / "one.pub")])


RSA = """-----BEGIN PUBLIC KEY-----
MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAMq3nTcNQ1Qy6Ww8f3XK8z2o0o0n0iYv
yXkqgk7mYbQ2r0o3y3Q0s0b0m1m1m1m1m1m1m1m1m1m1m1m1m1m1m1kCAwEAAQ==
-----END PUBLIC KEY-----
"""


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no public key"),
        (RSA, "not one of Ed25519"),
        ("-----BEGIN PUBLIC KEY-----\nAA=A\n-----END PUBLIC KEY-----\n", "no base64"),
        ("{a}{a}", "the same, or begin alike"),
        ("{private}", "no public key"),
        ("{a}{private}", "something else"),
    ],
)
def test_lists_of_keys_that_are_none(keys: Path, tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "list.pem"
    a, private = (keys / "a.pub").read_text(), (keys / "a.key").read_text()
    path.write_text(text.format(a=a, private=private))
    with pytest.raises(InputError, match=what):
        read_public_keys(path)


@pytest.mark.parametrize(
    "content", ["", "{public}", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_files_that_are_no_private_key(keys: Path, tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.key"
    path.write_text(content.format(public=(keys / "a.pub").read_text()))
    with pytest.raises(MlfError, match="private key"):
        Signer(path)
