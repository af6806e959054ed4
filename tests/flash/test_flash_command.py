# SPDX-License-Identifier: Apache-2.0
"""The command ``flash``: verdicts, exit codes, JSON; runners that claim more than the board shows."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import mlf_sdk
from archives import Spec, build, write
from flash_helpers import halted_machine, stub
from mlf_sdk.cli.main import main
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import ToolError
from mlf_sdk.pipeline.firmware import inspect_firmware

pytestmark = pytest.mark.qemu


def call(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(a) for a in argv])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def liar(folder: Path, *, code: int = 0) -> Path:
    """The row of a runner that does nothing and says that all is well."""
    stub(folder / "bin", "liar", prints="all is well", code=code)
    path = folder / "liar.toml"
    path.write_text(
        'name = "liar"\ntitle = "Liar"\nprogram = ["liar"]\nargs = ["{hex}"]\nsuccess = ["all is well"]\n'
    )
    return path


@pytest.fixture
def stubs_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.skipif(shutil.which("gdb-multiarch") is None, reason="gdb-multiarch is not installed")
def test_flashed_and_proven(app: Path, tmp_path: Path, capsys) -> None:
    with halted_machine(tmp_path) as machine:
        argv = ("flash", app, "--runner", "gdb", "--port", machine.gdb, "--console", machine.console)
        code, out, err = call(capsys, *argv)
        assert code == 0 and "Loading section .vectors" in err  # what gdb says, as it says it
        assert out.rstrip().endswith("PASS")
        code, out, err = call(capsys, *argv, "--json")
    value = json.loads(out)
    assert (code, value["proven"], value["runner"], value["board"]) == (0, True, "gdb", "mps2-an386")
    assert [m["archive_sha256"] for m in value["models"]] == [read_lock(app).models[0].archive_sha256]


def test_a_runner_that_lies(app: Path, other: Path, tmp_path: Path, stubs_first, capsys) -> None:
    """The board still runs what it ran before: a failure, whatever the runner said."""
    row = liar(tmp_path)
    with halted_machine(tmp_path, image=other / "build" / "app.elf") as machine:
        argv = ("flash", app, "--runner-file", row, "--port", machine.console, "--timeout", "2")
        code, out, err = call(capsys, *argv)
        assert (code, out) == (4, "")
        assert err.startswith("all is well\nerror: liar claims success, but the board does not answer")
    (tmp_path / "running").mkdir()
    with halted_machine(tmp_path / "running", image=other / "build" / "app.elf", halted=False) as machine:
        code, out, err = call(capsys, "flash", app, "--runner-file", row, "--port", machine.console)
        assert (code, out) == (4, "")
        assert "the board runs something else: it holds other" in err
        code, out, err = call(capsys, "flash", other, "--runner-file", row, "--port", machine.console)
        assert (code, err) == (0, "all is well\n")


def test_nothing_is_flashed_that_nobody_could_prove(app: Path, tmp_path: Path, stubs_first, capsys) -> None:
    """A verdict is only given by the board; without one it takes the user's word, before anything is touched."""
    argv = ("flash", app, "--runner-file", liar(tmp_path))
    code, out, err = call(capsys, *argv)
    assert (code, out) == (2, "")
    assert "the serial port on which it answers is not given (--port)" in " ".join(err.split())
    assert "--unproven-ok" in err
    assert not (tmp_path / "bin" / "liar.argv").exists()
    code, out, err = call(capsys, *argv, "--unproven-ok")
    assert (code, err) == (0, "all is well\n")
    assert re.search("^unproven +the serial port on which it answers", out, re.MULTILINE)
    assert "PASS" not in out
    value = json.loads(call(capsys, *argv, "--unproven-ok", "--json")[1])
    assert (value["proven"], value["models"]) == (False, None)
    assert value["build_id"] == inspect_firmware(app / "build" / "app.elf").build_id


def test_the_same_models_with_other_options_prove_nothing(
    app: Path, tmp_path: Path, stubs_first, capsys
) -> None:
    twin = tmp_path / "twin"
    options: dict[str, Any] = {"cflags": "-Os -ffp-contract=off"}
    mlf_sdk.generate(write(build(Spec()), tmp_path / "tiny.tar"), twin, board="mps2-an386", **options)
    mlf_sdk.build(twin)
    assert read_lock(twin).models[0].archive_sha256 == read_lock(app).models[0].archive_sha256
    with halted_machine(tmp_path, image=twin / "build" / "app.elf", halted=False) as machine:
        argv = ("--runner-file", liar(tmp_path), "--port", machine.console)
        for more in ((), ("--unproven-ok",)):
            code, out, err = call(capsys, "flash", app, *argv, *more)
            assert (code, out) == (4, "")
            assert "the board runs another image of the same models: build id" in " ".join(err.split())
        assert call(capsys, "flash", twin, *argv)[0] == 0


def test_a_board_that_does_not_tell_its_build_id(app: Path, tmp_path: Path, stubs_first, capsys) -> None:
    """As with a main.c of the user's own."""
    mute = tmp_path / "mute"
    mlf_sdk.generate(write(build(Spec()), tmp_path / "tiny.tar"), mute, board="mps2-an386")
    main_c = mute / "src" / "main.c"
    text = main_c.read_text()
    assert ".build_id = build_id," in text
    main_c.write_text(text.replace(".build_id = build_id,", ".build_id = NULL,"))
    mlf_sdk.build(mute)
    with halted_machine(tmp_path, image=mute / "build" / "app.elf", halted=False) as machine:
        argv = ("flash", mute, "--runner-file", liar(tmp_path), "--port", machine.console)
        code, out, err = call(capsys, *argv)
        assert (code, out) == (4, "")
        assert ".build_id = build_id" in err
        code, out, err = call(capsys, *argv, "--unproven-ok")
        assert (code, err) == (0, "all is well\n")
        assert "reports no build id" in " ".join(out.split())
        assert "PASS" not in out


def test_arguments_of_the_user(app: Path, tmp_path: Path, stubs_first, capsys) -> None:
    assert (
        call(capsys, "flash", app, "--runner-file", liar(tmp_path), "--unproven-ok", "--", "--erase", "-v")[0]
        == 0
    )
    assert (tmp_path / "bin" / "liar.argv").read_text().split("\n")[1:] == ["--erase", "-v"]


def test_a_runner_that_fails(app: Path, tmp_path: Path, stubs_first, capsys) -> None:
    code, out, err = call(capsys, "flash", app, "--runner-file", liar(tmp_path, code=9), "--unproven-ok")
    assert (code, out) == (3, "")
    assert "liar failed with exit code 9" in err


def test_no_runner(app: Path, capsys) -> None:
    code, _, err = call(capsys, "flash", app)
    assert code == 2
    assert "the board is emulated: nothing has to be flashed" in err
    assert "mlf-sdk run" in err
    code, _, err = call(capsys, "flash", app, "--runner", "jtag")
    assert code == 2
    assert "no runner 'jtag'" in err
    code, _, err = call(capsys, "flash", app, "--runner", "jlink", "--unproven-ok", "--", "-Device", "X")
    assert code == 3
    assert "'JLinkExe' or 'JLink' is not installed" in err


def test_projects_that_can_not_be_flashed(app: Path, tmp_path: Path, stubs_first, capsys) -> None:
    archive = write(build(Spec()), tmp_path / "tiny.tar")
    mlf_sdk.generate(archive, tmp_path / "host", board="host")
    code, _, err = call(capsys, "flash", tmp_path / "host", "--runner", "gdb", "--port", "x")
    assert code == 2
    assert "a program of this machine" in err
    mlf_sdk.generate(archive, tmp_path / "new", board="mps2-an386")
    code, _, err = call(capsys, "flash", tmp_path / "new", "--runner", "gdb", "--port", "x")
    assert code == 2
    assert "not built" in err
    assert call(capsys, "flash", tmp_path, "--runner", "gdb")[0] == 2
    mlf_sdk.generate(archive, tmp_path / "plain", board="mps2-an386", app="standalone")
    shutil.copytree(app / "build", tmp_path / "plain" / "build")
    argv = ("flash", tmp_path / "plain", "--runner-file", liar(tmp_path), "--port", "/dev/none")
    code, out, err = call(capsys, *argv)
    assert (code, out) == (2, "")
    assert "its application (standalone) answers no requests" in " ".join(err.split())
    assert call(capsys, *argv, "--unproven-ok")[0] == 0


def test_a_missing_program_is_named_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs_arm: None
) -> None:
    """Not that no serial port was given, which matters only once there is a program to flash with."""
    layers = Path(__file__).resolve().parents[2] / "examples/layers/layers.tflite"
    mlf_sdk.generate(layers, tmp_path / "app", board="nucleo-f411re")
    mlf_sdk.build(tmp_path / "app")
    monkeypatch.setattr("shutil.which", lambda *_args, **_named: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="'openocd' is not installed"):
        mlf_sdk.flash(tmp_path / "app")
