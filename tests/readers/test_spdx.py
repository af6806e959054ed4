# SPDX-License-Identifier: Apache-2.0
"""The elements of an SPDX document, each by itself."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta, timezone

import pytest

from mlf_sdk.tools.spdx import (
    DOCUMENT,
    NOASSERTION,
    encode_document,
    make_file,
    make_package,
    relate,
)


@pytest.mark.parametrize(
    ("data", "licence"),
    [
        (b"/* SPDX-License-Identifier: Apache-2.0 */\n", "Apache-2.0"),
        (b"# SPDX-License-Identifier: MIT\n", "MIT"),
        (b"SPDX-License-Identifier: MIT", "MIT"),
        (b"# SPDX-License-Identifier: Mine-1.0\n", NOASSERTION),
        (b"# SPDX-License-Identifier: MIT OR Zlib\n", NOASSERTION),
        (b" " * 2048 + b"SPDX-License-Identifier: MIT\n", NOASSERTION),
        (b"", NOASSERTION),
    ],
)
def test_licence_of_a_file(data: bytes, licence: str) -> None:
    file = make_file("src/a.c", data)
    assert (file.license_concluded, file.license_info_in_files) == (licence, (licence,))
    assert make_file("src/a.c", data, conclude=False).license_concluded == NOASSERTION
    digests = {c.algorithm: c.value for c in file.checksums}
    assert digests == {"SHA1": hashlib.sha1(data).hexdigest(), "SHA256": hashlib.sha256(data).hexdigest()}


@pytest.mark.parametrize(
    ("path", "kind"), [("a.c", "SOURCE"), ("b/k.o", "BINARY"), ("README.md", "DOCUMENTATION"), ("LICENSE", "TEXT")]
)  # fmt: skip
def test_kind_of_a_file(path: str, kind: str) -> None:
    assert make_file(path, b"").file_types == (kind,)


def test_identifiers_are_unique() -> None:
    files = [make_file(path, b"") for path in ("a/b", "a-b", "a_b", "ä" * 99, "ö" * 99)]
    assert len({file.spdx_id for file in files}) == 5
    assert all(len(file.spdx_id) < 90 for file in files)


def test_a_package_and_its_files() -> None:
    files = [make_file("b.c", b"2"), make_file("a.c", b"SPDX-License-Identifier: MIT\n")]
    package = make_package("net", "SOURCE", version="1", sha256="ab" * 32, files=files)
    joined = "".join(sorted(file.checksums[0].value for file in files))
    assert package.package_verification_code is not None
    assert package.package_verification_code.value == hashlib.sha1(joined.encode()).hexdigest()
    assert package.license_info_from_files == ("MIT", NOASSERTION)
    assert [c.algorithm for c in package.checksums] == ["SHA256"]
    bare = make_package("net", "SOURCE")
    assert (bare.files_analyzed, bare.package_verification_code, bare.checksums) == (False, None, ())


def test_a_document() -> None:
    file, package = make_file("a.c", b""), make_package("net", "FIRMWARE")
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1)))
    related = [relate(DOCUMENT, "DESCRIBES", package), relate(package, "CONTAINS", file)]
    data = encode_document("net", "Tool: t", when, [package], [file], related)
    value = json.loads(data)
    assert value["creationInfo"] == {"created": "2026-01-02T02:04:05Z", "creators": ["Tool: t"]}
    assert [(r["spdxElementId"], r["relatedSpdxElement"]) for r in value["relationships"]] == [
        (DOCUMENT, package.spdx_id),
        (package.spdx_id, file.spdx_id),
    ]
    later = encode_document("net", "Tool: t", when + timedelta(days=1), [package], [file], related)
    assert json.loads(later)["documentNamespace"] == value["documentNamespace"]
    other = encode_document("net", "Tool: t", when, [package], [], related)
    assert json.loads(other)["documentNamespace"] != value["documentNamespace"]
