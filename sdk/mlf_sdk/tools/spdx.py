# SPDX-License-Identifier: Apache-2.0
"""A software bill of materials as an SPDX 2.3 document in JSON (https://spdx.github.io/spdx-spec/v2.3/)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime, timezone

import msgspec

DOCUMENT = "SPDXRef-DOCUMENT"
NOASSERTION = "NOASSERTION"
EPOCH = datetime.fromtimestamp(0, timezone.utc)
_LICENCE_LINE = re.compile(
    rb"SPDX-License-Identifier:[ \t]*([A-Za-z0-9.+-]{1,64})[ \t]*(?:\*/|-->|#\}|\r?\n|$)"
)
_LICENCE_WITHIN_BYTES = 2048
# Licences that a file's own line is believed to name; another one is not asserted.
_LICENCES = frozenset(
    {
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MPL-2.0",
        "Unlicense",
        "Zlib",
        "GPL-2.0-only",
        "GPL-2.0-or-later",
        "GPL-3.0-only",
        "GPL-3.0-or-later",
        "LGPL-2.1-only",
        "LGPL-2.1-or-later",
    }
)
_TYPES = {
    "SOURCE": frozenset((".c", ".cc", ".cpp", ".h", ".hpp", ".S", ".s", ".ld", ".py", ".cmake")),
    "BINARY": frozenset((".o", ".a", ".bin", ".elf", ".exe", ".hex")),
    "DOCUMENTATION": frozenset((".md", ".rst")),
}


class Checksum(msgspec.Struct, frozen=True, kw_only=True):
    """A digest of a file or a package."""

    algorithm: str
    value: str = msgspec.field(name="checksumValue")


class VerificationCode(msgspec.Struct, frozen=True, kw_only=True):
    """The digest of all files of a package (section 7.9)."""

    value: str = msgspec.field(name="packageVerificationCodeValue")


class File(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file, by its path in the project."""

    spdx_id: str = msgspec.field(name="SPDXID")
    file_name: str
    file_types: tuple[str, ...]
    checksums: tuple[Checksum, ...]
    license_concluded: str
    license_info_in_files: tuple[str, ...]
    copyright_text: str = NOASSERTION


class Package(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Something that came as a whole."""

    spdx_id: str = msgspec.field(name="SPDXID")
    name: str
    version_info: str = ""
    package_file_name: str = ""
    download_location: str
    files_analyzed: bool
    package_verification_code: VerificationCode | None = None
    checksums: tuple[Checksum, ...] = ()
    license_concluded: str
    license_declared: str
    license_info_from_files: tuple[str, ...] = ()
    copyright_text: str
    primary_package_purpose: str
    comment: str = ""


class Relationship(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Relationship between two elements."""

    element: str = msgspec.field(name="spdxElementId")
    relationship_type: str
    related: str = msgspec.field(name="relatedSpdxElement")


class CreationInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Creators of the document and time of its creation."""

    created: str
    creators: tuple[str, ...]


class Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole document."""

    spdx_version: str
    data_license: str
    spdx_id: str = msgspec.field(name="SPDXID")
    name: str
    document_namespace: str
    creation_info: CreationInfo
    packages: tuple[Package, ...]
    files: tuple[File, ...]
    relationships: tuple[Relationship, ...]


def make_file(path: str, data: bytes, *, conclude: bool = True) -> File:
    """A file of a project: digests, its kind by its name, and the licence that it names itself.

    Args:
        conclude: whether what it names is taken for its licence.
    """
    licence = _licence_of(data)
    suffix = "." + path.rpartition(".")[2]
    kinds = tuple(kind for kind, suffixes in _TYPES.items() if suffix in suffixes)
    return File(
        spdx_id=_identifier("File", path),
        file_name=f"./{path}",
        file_types=kinds or ("TEXT",),
        checksums=(
            Checksum(algorithm="SHA1", value=hashlib.sha1(data, usedforsecurity=False).hexdigest()),
            Checksum(algorithm="SHA256", value=hashlib.sha256(data).hexdigest()),
        ),
        license_concluded=licence if conclude else NOASSERTION,
        license_info_in_files=(licence,),
    )


def make_package(
    name: str,
    purpose: str,
    *,
    version: str = "",
    file_name: str = "",
    sha256: str = "",
    licence: str = NOASSERTION,
    files: Sequence[File] = (),
    comment: str = "",
) -> Package:
    """A package; with ``files``, one whose files were looked at."""
    return Package(
        spdx_id=_identifier(purpose.title(), f"{name} {version} {file_name} {sha256}"),
        name=name,
        version_info=version,
        package_file_name=file_name,
        download_location=NOASSERTION,
        files_analyzed=bool(files),
        package_verification_code=_verification_code(files) if files else None,
        checksums=(Checksum(algorithm="SHA256", value=sha256),) if sha256 else (),
        license_concluded=licence,
        license_declared=licence,
        license_info_from_files=tuple(sorted({name for f in files for name in f.license_info_in_files})),
        copyright_text=NOASSERTION,
        primary_package_purpose=purpose,
        comment=comment,
    )


def relate(element: Package | File | str, kind: str, related: Package | File) -> Relationship:
    """A relationship from an element, or the document, to another."""
    start = element if isinstance(element, str) else element.spdx_id
    return Relationship(element=start, relationship_type=kind, related=related.spdx_id)


def encode_document(
    name: str,
    creator: str,
    created: datetime,
    packages: Sequence[Package],
    files: Sequence[File],
    relationships: Sequence[Relationship],
) -> bytes:
    """Encode the document as JSON; its namespace is derived from its contents."""
    said = msgspec.json.encode((name, creator, packages, files, relationships))
    document = Document(
        spdx_version="SPDX-2.3",
        data_license="CC0-1.0",
        spdx_id=DOCUMENT,
        name=name,
        document_namespace=f"https://spdx.org/spdxdocs/{name}-{hashlib.sha256(said).hexdigest()}",
        creation_info=CreationInfo(
            created=created.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), creators=(creator,)
        ),
        packages=tuple(packages),
        files=tuple(files),
        relationships=tuple(relationships),
    )
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _licence_of(data: bytes) -> str:
    match = _LICENCE_LINE.search(data[:_LICENCE_WITHIN_BYTES])
    name = match[1].decode("ascii") if match else ""
    return name if name in _LICENCES else NOASSERTION


def _verification_code(files: Sequence[File]) -> VerificationCode:
    digests = sorted(file.checksums[0].value for file in files)
    joined = hashlib.sha1("".join(digests).encode(), usedforsecurity=False)
    return VerificationCode(value=joined.hexdigest())


def _identifier(kind: str, what: str) -> str:
    """Unique, readable identifier."""
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", what).strip("-")[:60].strip("-")
    return f"SPDXRef-{kind}-{plain}-{hashlib.sha256(what.encode()).hexdigest()[:8]}"
