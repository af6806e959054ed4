# SPDX-License-Identifier: Apache-2.0
"""Ed25519 and X25519 by the package ``cryptography``; public keys are read without it."""

from __future__ import annotations

import base64
import binascii
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.tools.files import read_bounded, write_error

if TYPE_CHECKING:
    from collections.abc import Iterable

PUBLIC_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
KEY_ID_BYTES: Final = 8
_MOST_BYTES: Final = 1 << 16
_SPKI: Final = bytes.fromhex("302a300506032b6570032100")  # RFC 8410, section 4: the key follows
_PEM: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----\s*([A-Za-z0-9+/=\s]{1,500}?)-----END PUBLIC KEY-----")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key; ``data`` has 32 bytes."""

    data: bytes

    @property
    def id(self) -> bytes:
        """The bytes of the key by which packages name it."""
        return self.data[:KEY_ID_BYTES]

    def pem(self) -> str:
        """Text of the key as RFC 8410 has it."""
        text = base64.b64encode(_SPKI + self.data).decode()
        return f"-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n"


def read_public_keys(path: Path) -> tuple[PublicKey, ...]:
    """Read every Ed25519 public key of a PEM file.

    Raises:
        InputError: it can't be read, has no key, a key of another kind, one twice, or two with one id.
    """
    where = str(path)
    text = read_bounded(path, _MOST_BYTES, where)
    keys = []
    for result in _PEM.finditer(text):
        try:
            data = base64.b64decode(re.sub(rb"\s", b"", result[1]), validate=True)
        except binascii.Error as error:
            raise InputError(f"a public key is no base64: {error}", where=where) from error
        if len(data) != len(_SPKI) + PUBLIC_BYTES or not data.startswith(_SPKI):
            raise InputError("a public key is not one of Ed25519", where=where)
        keys.append(PublicKey(data[len(_SPKI) :]))
    if not keys or len(keys) != text.count(b"-----BEGIN "):
        what = (
            "there is something else than public keys in the file"
            if keys
            else "there is no public key in the file"
        )
        raise InputError(what, where=where, hint="mlf-sdk package keys make NAME writes NAME.pub.")
    if len({key.id for key in keys}) != len(keys):
        raise InputError("two public keys are the same, or begin alike", where=where)
    return tuple(keys)


def make_key(private: Path, public: Path) -> PublicKey:
    """Draw a key pair; write it to two files that do not exist yet, the private one for its owner alone.

    Raises:
        InputError: a file is there already, or can't be written.
        ToolError: ``cryptography`` is not installed.
    """
    from_library = _library()
    key = from_library.ed25519.Ed25519PrivateKey.generate()
    encoded = key.private_bytes(
        from_library.Encoding.PEM, from_library.PrivateFormat.PKCS8, from_library.NoEncryption()
    )
    made = PublicKey(key.public_key().public_bytes_raw())
    for path in (private, public):
        if path.exists():
            raise InputError("the file is there already", where=str(path), hint="Keys are never overwritten.")
    _write_new(private, encoded, 0o600)
    _write_new(public, made.pem().encode(), 0o644)
    return made


def _write_new(path: Path, data: bytes, mode: int) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(file, "wb") as out:
            out.write(data)
    except OSError as error:
        raise write_error(error, "can't write the key", where=str(path), hint="") from error


class Signer:
    """A private key that signs.

    Args:
        path: PEM file of an Ed25519 key (PKCS 8), not encrypted.

    Raises:
        InputError: it can't be read, or is no such key.
        ToolError: ``cryptography`` is not installed.
    """

    def __init__(self, path: Path) -> None:
        from_library = _library()
        data = read_bounded(path, _MOST_BYTES, str(path))
        try:
            key = from_library.load_pem_private_key(data, password=None)
        except (ValueError, TypeError) as error:
            hint = "mlf-sdk package keys make NAME makes one."
            raise InputError(
                "the file is no private key that can be read", where=str(path), hint=hint
            ) from error
        except from_library.UnsupportedAlgorithm as error:
            raise InputError("the private key is not one of Ed25519", where=str(path)) from error
        if not isinstance(key, from_library.ed25519.Ed25519PrivateKey):
            raise InputError("the private key is not one of Ed25519", where=str(path))
        self._key = key
        self.public = PublicKey(key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message (RFC 8032, Ed25519)."""
        return bytes(self._key.sign(message))


class AgreementKey:
    """A key pair of X25519 for one session.

    Attributes:
        public: its public key, 32 bytes.

    Raises:
        ToolError: ``cryptography`` is not installed.
    """

    def __init__(self) -> None:
        self._library = _library().x25519
        self._key = self._library.X25519PrivateKey.generate()
        self.public: bytes = self._key.public_key().public_bytes_raw()

    def agree(self, public: bytes) -> bytes | None:
        """Return the secret shared with the owner of a public key; None: it would be known to everybody."""
        try:
            return bytes(self._key.exchange(self._library.X25519PublicKey.from_public_bytes(public)))
        except ValueError:
            return None


def signed_by(signature: bytes, message: bytes, keys: Iterable[PublicKey]) -> PublicKey | None:
    """Return the key whose signature it is; None: of none of them.

    Raises:
        ToolError: ``cryptography`` is not installed.
    """
    from_library = _library()
    for key in keys:
        try:
            from_library.ed25519.Ed25519PublicKey.from_public_bytes(key.data).verify(signature, message)
        except (from_library.InvalidSignature, ValueError):
            continue
        return key
    return None


def _library() -> Any:  # noqa: ANN401
    """The parts of ``cryptography`` that are used, as attributes of one object."""
    from types import SimpleNamespace

    try:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            load_pem_private_key,
        )
    except ImportError as error:
        raise ToolError(
            "the package 'cryptography' is not installed", hint="pip install 'mlf-sdk[package]'"
        ) from error
    return SimpleNamespace(
        ed25519=ed25519,
        x25519=x25519,
        Encoding=Encoding,
        NoEncryption=NoEncryption,
        PrivateFormat=PrivateFormat,
        load_pem_private_key=load_pem_private_key,
        InvalidSignature=InvalidSignature,
        UnsupportedAlgorithm=UnsupportedAlgorithm,
    )
