# SPDX-License-Identifier: Apache-2.0
"""Signed packages of a model's parameters (``crt/PACKAGES.md``): the writer and the reader."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mlf_sdk.codegen.paramsblob import ParamsHeader, read_params_header
from mlf_sdk.errors import InputError
from mlf_sdk.tools.signing import KEY_ID_BYTES, SIGNATURE_BYTES

MAGIC: Final = b"MLFK"
FORMAT: Final = 1
HEAD_BYTES: Final = 384
SIGNED_BYTES: Final = HEAD_BYTES - SIGNATURE_BYTES
ALIGNMENT: Final = 64  # of parameters and cases together
MOST_REVOKED: Final = 4
MOST_VERSION: Final = 0xFFFFFFFF
_HEAD: Final = struct.Struct("<4sHHIIIIHBB4x32s32s64s64s32s32s8s24x")
_ZEROS: Final = ((27, 32), (296, SIGNED_BYTES))


@dataclass(frozen=True, slots=True)
class SelfTest:
    """One self-test case: bytes of each input, and of each output with its tolerance (4 bytes)."""

    inputs: tuple[bytes, ...] = field(repr=False)
    outputs: tuple[tuple[bytes, bytes], ...] = field(repr=False)

    def pack(self) -> bytes:
        """Encode the case."""
        return b"".join(self.inputs) + b"".join(tolerance + data for data, tolerance in self.outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Signed part of a package.

    Attributes:
        version: counts up from package to package; a device takes none that is not newer.
        arena_bytes: arena that the model needs.
        archive_sha256: of the archive or file that the parameters came from.
        graph_id: of the graph that the parameters are for.
        code_id: of the kernels that the firmware must have.
        key_id: of the key that signs.
        revoked: ids of keys that are not trusted any more.
    """

    version: int
    params_bytes: int
    cases_bytes: int
    arena_bytes: int
    num_cases: int
    graph_id: bytes
    code_id: bytes
    params_sha512: bytes
    cases_sha512: bytes
    archive_sha256: bytes
    revoked: tuple[bytes, ...]
    key_id: bytes

    @property
    def total_bytes(self) -> int:
        """Bytes of the whole package."""
        return HEAD_BYTES + self.params_bytes + self.cases_bytes

    def pack(self) -> bytes:
        """Encode the manifest: the bytes that are signed."""
        return _HEAD.pack(
            MAGIC,
            FORMAT,
            HEAD_BYTES,
            self.version,
            self.params_bytes,
            self.cases_bytes,
            self.arena_bytes,
            self.num_cases,
            len(self.revoked),
            0,
            self.graph_id,
            self.code_id,
            self.params_sha512,
            self.cases_sha512,
            self.archive_sha256,
            b"".join(self.revoked),
            self.key_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A whole package, whose hashes are right; its signature is not verified.

    Attributes:
        header: of the parameters.
        data: all of its bytes.
    """

    manifest: Manifest
    signature: bytes
    header: ParamsHeader
    data: bytes = field(repr=False)

    @property
    def signed(self) -> bytes:
        """The bytes that are signed."""
        return self.data[:SIGNED_BYTES]


def build_package(
    *,
    params: bytes,
    cases: Sequence[SelfTest],
    version: int,
    arena_bytes: int,
    graph_id: bytes,
    code_id: bytes,
    key_id: bytes,
    sign: Callable[[bytes], bytes],
    revoked: Sequence[bytes] = (),
) -> bytes:
    """Encode and sign a package.

    Args:
        params: parameter blob.
        cases: at least one.
        sign: returns the signature of the manifest.

    Raises:
        InputError: a number does not fit, or the signing key is one of those that are revoked.
    """
    if not 1 <= version <= MOST_VERSION:
        raise InputError(f"invalid version {version}: must be 1 to {MOST_VERSION}", where="--model-version")
    if not 1 <= len(cases) <= 0xFFFF:
        raise InputError(f"{len(cases)} self-test cases: a package has 1 to 65,535", where="--cases")
    if len(set(revoked)) > MOST_REVOKED:
        raise InputError(f"a package revokes at most {MOST_REVOKED} keys", where="--revoke")
    if key_id in revoked:
        raise InputError("the key that signs can't be revoked by the same package", where="--revoke")
    content = b"".join(case.pack() for case in cases)
    content += bytes(-(len(params) + len(content)) % ALIGNMENT)
    manifest = Manifest(
        version=version,
        params_bytes=len(params),
        cases_bytes=len(content),
        arena_bytes=arena_bytes,
        num_cases=len(cases),
        graph_id=graph_id,
        code_id=code_id,
        params_sha512=hashlib.sha512(params).digest(),
        cases_sha512=hashlib.sha512(content).digest(),
        archive_sha256=read_params_header(params).archive_sha256,
        revoked=tuple(dict.fromkeys(revoked)),
        key_id=key_id,
    )
    signed = manifest.pack()
    return signed + sign(signed) + params + content


def read_manifest(data: bytes, where: str = "") -> Manifest:
    """Decode the head of a package, as strictly as a device does.

    Raises:
        InputError: it is cut off, no package of a version that is known, or its fields disagree.
    """
    if len(data) < HEAD_BYTES or data[:4] != MAGIC:
        raise InputError("this is no package", where=where)
    fields = _HEAD.unpack_from(data)
    _, version_of_format, head, version, params, cases, arena, count, revoked, _ = fields[:10]
    if (version_of_format, head) != (FORMAT, HEAD_BYTES):
        raise InputError("this is no package of a version that is known", where=where)
    ids, rest = fields[15][: revoked * KEY_ID_BYTES], fields[15][revoked * KEY_ID_BYTES :]
    has_zeros = not any(rest) and not any(any(data[a:b]) for a, b in _ZEROS)
    total = HEAD_BYTES + params + cases
    good = has_zeros and revoked <= MOST_REVOKED and count > 0 and total <= MOST_VERSION
    if not good or (params + cases) % ALIGNMENT:
        raise InputError("the fields of the package disagree", where=where)
    return Manifest(
        version=version,
        params_bytes=params,
        cases_bytes=cases,
        arena_bytes=arena,
        num_cases=count,
        graph_id=fields[10],
        code_id=fields[11],
        params_sha512=fields[12],
        cases_sha512=fields[13],
        archive_sha256=fields[14],
        revoked=tuple(ids[i : i + KEY_ID_BYTES] for i in range(0, len(ids), KEY_ID_BYTES)),
        key_id=fields[16],
    )


def read_package(data: bytes, where: str = "") -> Package:
    """Decode a package, and check the hashes of its parts.

    Raises:
        InputError: it is cut off, longer, of another kind, or its content is not what the manifest says.
    """
    manifest = read_manifest(data, where)
    if len(data) != manifest.total_bytes:
        raise InputError(f"{len(data):,} bytes in place of {manifest.total_bytes:,}", where=where)
    params = data[HEAD_BYTES : HEAD_BYTES + manifest.params_bytes]
    cases = data[HEAD_BYTES + manifest.params_bytes :]
    for name, part, digest in (
        ("parameters", params, manifest.params_sha512),
        ("self-test cases", cases, manifest.cases_sha512),
    ):
        if hashlib.sha512(part).digest() != digest:
            raise InputError(f"the {name} are not those that were signed", where=where)
    return Package(
        manifest=manifest,
        signature=data[SIGNED_BYTES:HEAD_BYTES],
        header=read_params_header(params, where),
        data=data,
    )
