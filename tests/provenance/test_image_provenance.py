# SPDX-License-Identifier: Apache-2.0
"""What an image says of itself, in its file and on the target: read back, compared, small, and refused when broken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

import mlf_sdk
from archives import Spec, build, write
from mlf_sdk.analysis.elf.provenance import encode_provenance
from mlf_sdk.cli.main import main
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.codegen.provenance import provenance_of
from mlf_sdk.pipeline.firmware import inspect_firmware
from mlf_sdk.targets.registry import project_target
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.tools.process import run_process
from model_cases import Net

pytestmark = pytest.mark.toolchain
MOST_NOTE_BYTES = 400  # of both notes, for one model


def call(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(a) for a in argv])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def notes(elf: Path) -> dict[str, tuple[str, bytes]]:
    """Owner and description of the notes, as another reader sees them."""
    with elf.open("rb") as file:
        opened = ELFFile(file)
        found = {}
        for name in (".note.gnu.build-id", ".note.mlf"):
            section = opened.get_section_by_name(name)
            assert section["sh_flags"] & 2  # it is on the target, too
            (note,) = section.iter_notes()
            found[name] = (note["n_name"], note["n_descdata"])
        return found


def check_notes(app: Path) -> None:
    elf = app / "build" / "app.elf"
    found = inspect_firmware(elf)
    assert found.firmware.provenances == (provenance_of(read_lock(app)),)
    said = notes(elf)
    assert said[".note.mlf"] == ("mlf-sdk", encode_provenance(found.provenance))
    owner, build_id = said[".note.gnu.build-id"]
    assert (owner, build_id.hex()) == ("GNU", found.build_id)
    assert len(build_id) == 20


def test_notes_of_an_image_for_a_board(arm_app: Path) -> None:
    check_notes(arm_app)
    found = inspect_firmware(arm_app / "build" / "app.elf")
    sizes = {s.name: s.size_bytes for s in found.firmware.sections}
    assert sizes[".note.mlf"] + sizes[".note.gnu.build-id"] < MOST_NOTE_BYTES
    assert found.build_id.encode("ascii")
    image = (arm_app / "build" / "app.bin").read_bytes()
    assert bytes.fromhex(found.build_id) in image
    assert encode_provenance(found.provenance) in image
    assert {r.name for r in found.regions if r.used_bytes} == {"flash", "ram"}


def test_notes_of_an_image_for_the_host(host_app: Path) -> None:
    check_notes(host_app)


def test_a_production_image_has_them_too(tmp_path: Path, needs_arm: None) -> None:
    archives = [write(build(s), tmp_path / f"{s.dtype}.tar") for s in (Spec(), Spec(dtype="int8"))]
    options: dict[str, Any] = {"app": "standalone", "share_arena": True, "params": "ram", "cflags": "-Os"}
    mlf_sdk.generate(archives, tmp_path / "app", board="mps2-an386", **options)
    mlf_sdk.build(tmp_path / "app")
    check_notes(tmp_path / "app")
    said = inspect_firmware(tmp_path / "app" / "build" / "app.elf").provenance
    assert (said.app, said.share_arena, said.params, said.cflags) == ("standalone", True, "ram", "-Os")
    assert [m.archive_sha256 for m in said.models] == [
        m.archive_sha256 for m in read_lock(tmp_path / "app").models
    ]


def test_a_hostile_name_is_not_assembled_as_code(tmp_path: Path, needs_host: None) -> None:
    """Whatever an archive is called, the note holds it and nothing else."""
    name = 'x";.byte 1;*# größe ??='
    net = Net(name=name)
    mlf_sdk.generate(
        net.write(tmp_path / "a.tar", net.call("neg", [net.input("x")], "-in0[i]")),
        tmp_path / "app",
        board="host",
    )
    mlf_sdk.build(tmp_path / "app")
    check_notes(tmp_path / "app")
    assert inspect_firmware(tmp_path / "app" / "build" / "app.elf").provenance.models[0].name == name


def test_what_changes_the_image_changes_the_build_id(arm_app: Path, tmp_path: Path) -> None:
    shutil.copytree(arm_app, tmp_path / "app")
    shutil.rmtree(tmp_path / "app" / "build")
    elf = tmp_path / "app" / "build" / "app.elf"
    mlf_sdk.build(tmp_path / "app")
    assert inspect_firmware(elf).build_id == inspect_firmware(arm_app / "build" / "app.elf").build_id
    main_c = tmp_path / "app" / "src" / "main.c"
    main_c.write_text(main_c.read_text().replace("received[64]", "received[65]"))
    mlf_sdk.build(tmp_path / "app")
    assert inspect_firmware(elf).build_id != inspect_firmware(arm_app / "build" / "app.elf").build_id


@pytest.mark.qemu
def test_a_board_tells_its_build_id(arm_app: Path, needs_qemu: None) -> None:
    check_device(arm_app)


def test_the_host_tells_its_build_id(host_app: Path) -> None:
    check_device(host_app)


def check_device(app: Path) -> None:
    elf = app / "build" / "app.elf"
    with project_target(app, read_lock(app), TargetChoice()).open(elf, timeout_s=30.0) as session:
        assert session.hello().build_id == inspect_firmware(elf).build_id != ""


# ---- inspect ----


def test_inspect(arm_app: Path, tmp_path: Path, capsys) -> None:
    named = tmp_path / "firmware.tar"  # by what it is, not by its name
    shutil.copy(arm_app / "build" / "app.elf", named)
    code, out, err = call(capsys, "inspect", named)
    assert (code, err) == (0, "")
    found = inspect_firmware(named)
    text = " ".join(out.split())
    assert found.build_id in text
    assert "mlf-sdk" in text
    assert found.provenance.models[0].archive_sha256 in "".join(out.split())
    assert ".note.mlf" in text
    code, out, err = call(capsys, "inspect", named, "--json")
    value = json.loads(out)
    assert (code, err, value["build_id"]) == (0, "", found.build_id)
    assert value["provenance"][0]["models"][0]["archive_sha256"] == found.provenance.models[0].archive_sha256
    assert {r["name"] for r in value["regions"]} >= {"flash", "ram"}
    assert sum(s["size_bytes"] for s in value["sections"] if s["name"] == ".note.mlf") > 200


def test_inspect_of_what_is_none(arm_app: Path, tmp_path: Path, capsys) -> None:
    elf = arm_app / "build" / "app.elf"
    bare = tmp_path / "bare.elf"
    run_process(["arm-none-eabi-objcopy", "-R", ".note.mlf", str(elf), str(bare)], timeout_s=30)
    code, out, err = call(capsys, "inspect", bare)
    assert (code, out) == (2, "")
    assert "does not say what it was made from" in err
    (tmp_path / "cut.elf").write_bytes(elf.read_bytes()[:5000])
    assert call(capsys, "inspect", tmp_path / "cut.elf")[0] == 2
    broken = tmp_path / "broken.elf"
    broken.write_bytes(elf.read_bytes().replace(b'{"format":1', b'{"format":9'))
    code, out, err = call(capsys, "inspect", broken)
    assert (code, out) == (2, "")
    assert "format 9; this SDK reads 1" in " ".join(err.split())
    relocatable = next((arm_app / "build").rglob("main.c.obj"), None) or next(
        (arm_app / "build").rglob("main.c.o")
    )
    code, out, err = call(capsys, "inspect", relocatable)
    assert (code, out) == (2, "")
    assert "a relocatable object (ELF)" in err
    assert call(capsys, "inspect", elf, "--module", "x")[0] == 2


def test_a_stripped_image_keeps_its_notes(arm_app: Path, tmp_path: Path) -> None:
    elf = arm_app / "build" / "app.elf"
    stripped = tmp_path / "stripped.elf"
    run_process(["arm-none-eabi-strip", str(elf), "-o", str(stripped)], timeout_s=30)
    assert inspect_firmware(stripped).firmware.provenances == inspect_firmware(elf).firmware.provenances
    assert inspect_firmware(stripped).build_id == inspect_firmware(elf).build_id
