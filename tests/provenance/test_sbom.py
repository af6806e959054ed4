# SPDX-License-Identifier: Apache-2.0
"""Bills of materials: valid for SPDX's own validator, complete, true, and always the same."""

from __future__ import annotations

import hashlib
import json
import shutil
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import pytest
from spdx_tools.spdx.model import Document, RelationshipType
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

import mlf_sdk
from archives import Spec, build, write
from mlf_sdk.cli.main import main
from mlf_sdk.codegen.lock import encode_lock, read_lock
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.firmware import inspect_firmware
from mlf_sdk.pipeline.sbom import make_sbom
from mlf_sdk.tools.spdx import make_file

pytestmark = pytest.mark.toolchain


def valid(path: Path) -> Document:
    """The document, which the validator has nothing to say about."""
    document = parse_file(str(path))
    messages = validate_full_spdx_document(document)
    assert [m.validation_message for m in messages] == []
    return document


def document_of(folder: Path, tmp_path: Path, **options: datetime) -> Document:
    path = tmp_path / "bill.spdx.json"
    path.write_bytes(make_sbom(folder, **options).document)
    return valid(path)


def related(document: Document, kind: RelationshipType) -> set[tuple[str, str]]:
    names = {p.spdx_id: p.name for p in document.packages} | {f.spdx_id: f.name for f in document.files}
    names["SPDXRef-DOCUMENT"] = "document"
    return {
        (names[r.spdx_element_id], names[str(r.related_spdx_element_id)])
        for r in document.relationships
        if r.relationship_type is kind
    }


def test_of_a_built_project(arm_app: Path, tmp_path: Path) -> None:
    document = document_of(arm_app, tmp_path)
    packages = {p.name: p for p in document.packages}
    lock = read_lock(arm_app)
    image = "tiny-mps2-an386-firmware"
    assert packages.keys() == {
        "tiny-mps2-an386", image, "mlf-sdk", "mlf-sdk runtime", "tiny", lock.models[0].compiler, "GCC"
    }  # fmt: skip
    assert packages["tiny"].checksums[0].value == lock.models[0].archive_sha256
    assert packages["tiny"].file_name == "tiny.tar"
    elf = arm_app / "build" / "app.elf"
    assert packages[image].version == f"build id {inspect_firmware(elf).build_id}"
    assert packages["GCC"].version.count(".") == 2
    assert str(packages["mlf-sdk runtime"].license_concluded) == "Apache-2.0"
    assert str(packages["tiny"].license_concluded) == "NOASSERTION"
    assert ("GCC", image) in related(document, RelationshipType.BUILD_TOOL_OF)
    assert ("TVM", "tiny") in related(document, RelationshipType.BUILD_TOOL_OF)
    assert related(document, RelationshipType.DESCRIBES) == {
        ("document", "tiny-mps2-an386"),
        ("document", image),
    }
    made = related(document, RelationshipType.GENERATED_FROM)
    assert {("tiny-mps2-an386", "tiny"), (image, "tiny-mps2-an386"), ("./model/tiny/tiny.c", "tiny")} <= made


def test_every_file_with_its_digests(arm_app: Path, tmp_path: Path) -> None:
    document = document_of(arm_app, tmp_path)
    listed = {f.name.removeprefix("./"): f for f in document.files}
    sources = {
        p.relative_to(arm_app).as_posix()
        for p in arm_app.rglob("*")
        if p.is_file() and p.relative_to(arm_app).parts[0] != "build"
    }
    sources = {name for name in sources if not name.startswith(".")}  # for editors and git, not of the image
    assert listed.keys() == sources | {f"build/app.{end}" for end in ("elf", "bin", "hex")}
    for name, file in listed.items():
        data = (arm_app / name).read_bytes()
        digests = {c.algorithm.name: c.value for c in file.checksums}
        assert digests == {"SHA1": hashlib.sha1(data).hexdigest(), "SHA256": hashlib.sha256(data).hexdigest()}
    assert str(listed["crt/src/mlf.c"].license_concluded) == "Apache-2.0"
    assert str(listed["model/tiny/codegen/host/src/tiny_lib1.c"].license_concluded) == "NOASSERTION"


def test_the_same_project_gives_the_same_document(arm_app: Path, tmp_path: Path) -> None:
    shutil.copytree(arm_app, tmp_path / "elsewhere" / "app")
    first, second = make_sbom(arm_app), make_sbom(tmp_path / "elsewhere" / "app")
    assert first.document == second.document
    later = json.loads(make_sbom(arm_app, created=datetime(2026, 1, 2, tzinfo=timezone.utc)).document)
    assert later["creationInfo"]["created"] == "2026-01-02T00:00:00Z"
    assert later["documentNamespace"] == json.loads(first.document)["documentNamespace"]
    main_c = tmp_path / "elsewhere" / "app" / "src" / "main.c"
    main_c.write_text(main_c.read_text() + "/* mine */\n")
    changed = json.loads(make_sbom(tmp_path / "elsewhere" / "app").document)
    assert changed["documentNamespace"] != later["documentNamespace"]


def test_before_the_build_and_with_several_models(tmp_path: Path) -> None:
    archives = [write(build(s), tmp_path / f"{s.dtype}.tar") for s in (Spec(), Spec(dtype="int8"))]
    mlf_sdk.generate(archives, tmp_path / "app", board="mps2-an386")
    (tmp_path / "app" / "mine").mkdir()
    (tmp_path / "app" / "mine" / "größe & ü.c").write_text("// SPDX-License-Identifier: MIT\n")
    (tmp_path / "app" / "mine" / "link.c").symlink_to("/etc/passwd")
    (tmp_path / "app" / ".git").mkdir()
    (tmp_path / "app" / ".git" / "HEAD").write_text("ref")
    document = document_of(tmp_path / "app", tmp_path)
    names = [p.name for p in document.packages]
    assert names.count("tiny") == 2
    assert names.count("TVM") == 1
    files = {f.name: f for f in document.files}
    assert str(files["./mine/größe & ü.c"].license_concluded) == "MIT"
    assert not {n for n in files if "link.c" in n or ".git" in n or n.startswith("./build/")}


def test_zephyr_and_cmsis_nn_are_named(arm_app: Path, tmp_path: Path) -> None:
    """From the lock alone, and from what the build says of the tree."""
    shutil.copytree(arm_app, tmp_path / "app", ignore=shutil.ignore_patterns("build"))
    (tmp_path / "nn").mkdir()
    (tmp_path / "nn" / "ARM.CMSIS-NN.pdsc").write_text('<package>\n<release version="6.0.0" date="x">')
    lock = msgspec.to_builtins(read_lock(tmp_path / "app"))
    lock["zephyr"] = {"series": "4.1", "board": "mps2/an386"}
    lock["options"]["cmsis_nn"] = str(tmp_path / "nn")
    changed = msgspec.convert(lock, type(read_lock(tmp_path / "app")))
    (tmp_path / "app" / "mlf-project.json").write_bytes(encode_lock(changed))
    versions = {p.name: p.version for p in document_of(tmp_path / "app", tmp_path).packages}
    assert (versions["Zephyr"], versions["CMSIS-NN"]) == ("4.1", "6.0.0")
    generated = tmp_path / "app" / "build" / "zephyr" / "include" / "generated" / "zephyr"
    generated.mkdir(parents=True)
    (generated / "version.h").write_text('#define KERNEL_VERSION_STRING     "4.1.99"\n')
    versions = {p.name: p.version for p in document_of(tmp_path / "app", tmp_path).packages}
    assert versions["Zephyr"] == "4.1.99"
    lock["options"]["cmsis_nn"] = "cmsis-nn"
    changed = msgspec.convert(lock, type(changed))
    (tmp_path / "app" / "mlf-project.json").write_bytes(encode_lock(changed))
    for name, line in (
        ("CMakeCache.txt", f"MLF_CMSIS_NN:UNINITIALIZED={tmp_path / 'nn'}\n"),
        ("zephyr_modules.txt", f'"cmsis-nn":"{tmp_path / "nn"}":"/none"\n'),
    ):
        (tmp_path / "app" / "build" / name).write_text(line)
        versions = {p.name: p.version for p in document_of(tmp_path / "app", tmp_path).packages}
        assert versions["CMSIS-NN"] == "6.0.0"
        (tmp_path / "app" / "build" / name).unlink()


def test_the_library_that_verifies_packages_is_named(arm_app: Path, tmp_path: Path) -> None:
    shutil.copytree(arm_app, tmp_path / "app", ignore=shutil.ignore_patterns("build"))
    (tmp_path / "m" / "src").mkdir(parents=True)
    (tmp_path / "m" / "src" / "monocypher.h").write_text("// Monocypher version 4.0.2\n//\n")
    for monocypher, name, version, licence in (
        (str(tmp_path / "m"), "Monocypher", "4.0.2", "BSD-2-Clause OR CC0-1.0"),
        (None, "OpenSSL", None, "Apache-2.0"),
    ):
        lock = msgspec.to_builtins(read_lock(tmp_path / "app"))
        lock["options"] |= {"trust": ["00" * 32], "monocypher": monocypher}
        changed = msgspec.convert(lock, type(read_lock(tmp_path / "app")))
        (tmp_path / "app" / "mlf-project.json").write_bytes(encode_lock(changed))
        found = {p.name: p for p in document_of(tmp_path / "app", tmp_path).packages}
        assert (found[name].version or None, str(found[name].license_concluded)) == (version, licence)


def test_an_image_of_another_state_is_refused(arm_app: Path, tmp_path: Path) -> None:
    shutil.copytree(arm_app, tmp_path / "app")
    lock = msgspec.structs.replace(read_lock(tmp_path / "app"), sdk_version="0.0.1")
    (tmp_path / "app" / "mlf-project.json").write_bytes(encode_lock(lock))
    with pytest.raises(InputError, match="another state of the project") as caught:
        make_sbom(tmp_path / "app")
    assert "mlf-sdk build" in caught.value.hint


@pytest.mark.parametrize(
    ("head", "licence"),
    [
        ("/* SPDX-License-Identifier: Apache-2.0 */", "Apache-2.0"),
        ("# SPDX-License-Identifier: MIT\n", "MIT"),
        ("<!-- SPDX-License-Identifier: ISC -->", "ISC"),
        ("/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */", "NOASSERTION"),
        ("// SPDX-License-Identifier: Mine-1.0\n", "NOASSERTION"),
        ("// SPDX-License-Identifier: (MIT\n", "NOASSERTION"),
        ("", "NOASSERTION"),
    ],
)
def test_licences_that_files_name(head: str, licence: str) -> None:
    file = make_file("x.c", head.encode())
    assert (file.license_concluded, file.license_info_in_files) == (licence, (licence,))
    assert make_file("x.c", head.encode(), conclude=False).license_concluded == "NOASSERTION"


def test_the_command(arm_app: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    out = tmp_path / "app.spdx.json"
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert main(["sbom", str(arm_app), "-o", str(out)]) == 0
    assert f"{out}:{len(make_sbom(arm_app).files)}files" in "".join(capsys.readouterr().out.split())
    assert valid(out).creation_info.created.year == 1970
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert main(["sbom", str(arm_app), "-o", str(out), "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["output"] == str(out)
    assert value["files"] == len(make_sbom(arm_app).files)
    assert [p["name"] for p in value["packages"]][:3] == ["tiny-mps2-an386", "mlf-sdk", "mlf-sdk runtime"]
    assert valid(out).creation_info.created.year == 2023
    assert main(["sbom", str(arm_app), "-o", str(out), "--now"]) == 0
    assert valid(out).creation_info.created.year >= 2026
    capsys.readouterr()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    assert main(["sbom", str(arm_app), "-o", str(out)]) == 2
    assert "no number of seconds" in capsys.readouterr().err
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert main(["sbom", str(tmp_path), "-o", str(out)]) == 2
    assert main(["sbom", str(arm_app), "-o", str(tmp_path / "no" / "folder")]) == 2
    assert "can't write" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["app.spdx.json"]
