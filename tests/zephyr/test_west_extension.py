# SPDX-License-Identifier: Apache-2.0
"""``west mlf``: its words become those of mlf-sdk, by themselves and in a west workspace."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from zephyr_flash_helpers import make_workspace
from zephyr_trees import MakeTree, zephyr_options

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "crt/zephyr/west_commands.py"


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The module, with a stand-in for west's package."""

    class WestCommand:
        def __init__(self, *args: object, **kwargs: object) -> None:
            self.name, self.help, self.description = args

        def die(self, *words: object) -> None:
            raise RuntimeError(*words)

    commands = types.ModuleType("west.commands")
    commands.WestCommand = WestCommand  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "west", types.ModuleType("west"))
    monkeypatch.setitem(sys.modules, "west.commands", commands)
    spec = importlib.util.spec_from_file_location("west_commands_of_mlf", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("words", "board", "expected"),
    [
        ("generate a.tar -o app", None, "generate --platform zephyr a.tar -o app"),
        ("generate a.tar -o app", "x/y", "generate --platform zephyr --board x/y a.tar -o app"),
        ("generate a.tar --board z", "x/y", "generate --platform zephyr a.tar --board z"),
        ("generate a.tar -b z", "x/y", "generate --platform zephyr a.tar -b z"),
        ("generate a.tar --platform=host", None, "generate a.tar --platform=host"),
        ("generate --library a.tar", "x/y", "generate --library a.tar"),
        ("generate --help", "x/y", "generate --help"),
        ("run a.tar", None, "run --platform zephyr a.tar"),
        ("run PROJECT", "x/y", "run PROJECT"),
        ("test PROJECT --cases c.npz", "x/y", "test PROJECT --cases c.npz"),
        ("build app", "x/y", "build app"),
        ("flash app -- --reset", "x/y", "flash app -- --reset"),
    ],
)
def test_words(extension: types.ModuleType, tmp_path: Path, words: str, board: str | None, expected: str):
    (tmp_path / "mlf-project.json").touch()
    given, wanted = (text.replace("PROJECT", str(tmp_path)).split() for text in (words, expected))
    assert extension._completed(given, board) == wanted


def test_every_command_that_it_names_is_one(extension: types.ModuleType):
    from mlf_sdk.cli.main import app

    known = set(app.list_commands(click.Context(app)))
    assert set(extension._TO_DO) <= known
    assert {"generate", "build", "run", "check", "flash"} <= set(extension._TO_DO)


def test_it_runs_in_this_process_where_it_can(
    extension: types.ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    code = extension._start(["check", str(tmp_path)], extension.Mlf())
    assert code == 2
    assert "no generated project here" in capsys.readouterr().err


def test_without_the_package_the_program_is_run(
    extension: types.ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setitem(sys.modules, "mlf_sdk.cli.main", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="pip install mlf-sdk"):
        extension._start(["check", "x"], extension.Mlf())
    program = tmp_path / "mlf-sdk"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/said\nexit 4\n')
    program.chmod(0o755)
    assert extension._start(["check", "x y"], extension.Mlf()) == 4
    assert (tmp_path / "said").read_text() == "check x y\n"


# ---- with the real west ----


@pytest.fixture(scope="module")
def west(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace without Zephyr's own commands, and mlf-sdk on PATH that says how it was called."""
    if shutil.which("west") is None:
        pytest.skip("west is not installed")
    folder = tmp_path_factory.mktemp("west")
    (folder / "tree/scripts").mkdir(parents=True)
    (folder / "tree/scripts/west-commands.yml").write_text("west-commands: []\n")
    (folder / "bin").mkdir()
    program = folder / "bin/mlf-sdk"
    program.write_text('#!/bin/sh\nfor word in "$@"; do echo "[$word]"; done\nexit 3\n')
    program.chmod(0o755)
    yield make_workspace(folder / "top", folder / "tree", ROOT, "west")


def run_west(top: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PATH": f"{top.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    environ.pop("ZEPHYR_BASE", None)
    return subprocess.run(["west", *words], cwd=top, env=environ, capture_output=True, text=True, timeout=60)


def test_west_knows_it(west: Path):
    assert "mlf:" in run_west(west, "help").stdout
    said = run_west(west, "mlf")
    assert said.returncode == 0
    assert "usage: west mlf COMMAND" in said.stdout


def test_west_passes_words_and_exit_code_on(west: Path):
    if run_west(west, "mlf", "doctor", "--json").returncode == 0:
        pytest.skip("west's Python has mlf_sdk itself")
    assert run_west(west, "config", "build.board", "mps2/an385").returncode == 0
    said = run_west(west, "mlf", "generate", "a b.tar", "-o", "app", "--app", "rpc")
    words = [
        "generate",
        "--platform",
        "zephyr",
        "--board",
        "mps2/an385",
        "a b.tar",
        "-o",
        "app",
        "--app",
        "rpc",
    ]
    assert said.stdout.splitlines() == [f"[{word}]" for word in words]
    assert said.returncode == 3
    said = run_west(west, "mlf", "flash", "app", "--runner", "jlink", "--", "--reset", "-x")
    assert said.stdout.splitlines() == [
        f"[{w}]" for w in ("flash", "app", "--runner", "jlink", "--", "--reset", "-x")
    ]


def test_west_leaves_other_words_to_mlf_sdk(west: Path):
    said = run_west(west, "mlf", "boards", "--json")
    assert said.stdout.splitlines()[-2:] == ["[boards]", "[--json]"] or '"boards"' in said.stdout


def test_a_generated_project_brings_it_along(tiny: Path, make_tree: MakeTree, tmp_path: Path):
    import mlf_sdk
    from mlf_sdk.targets.zephyr.build import ZephyrSetup

    setup = ZephyrSetup(base=make_tree("4.1.0"), environ={}, home=tmp_path)
    mlf_sdk.generate(tiny, tmp_path / "app", board="mps2_an385", platform="zephyr", **zephyr_options(setup))
    listed = (tmp_path / "app/crt/zephyr/west-commands.yml").read_text()
    assert "file: crt/zephyr/west_commands.py" in listed
    assert (tmp_path / "app/crt/zephyr/west_commands.py").read_bytes() == SOURCE.read_bytes()
