# SPDX-License-Identifier: Apache-2.0
"""Targets by name: which class a choice gives, what it can do, and what it says of a project."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from analysed import load_model
from archives import Spec, build, reference, sample, write
from mlf_sdk.codegen.link import link_models
from mlf_sdk.codegen.lock import Lock
from mlf_sdk.codegen.make_lock import make_lock
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.render import render_project
from mlf_sdk.codegen.writer import write_project
from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.judge.execute import find_model
from mlf_sdk.planner.layout import lay_out
from mlf_sdk.targets import registry as targets
from mlf_sdk.targets.baremetal import BaremetalTarget
from mlf_sdk.targets.boards import DEFAULT_BOARD
from mlf_sdk.targets.host import HostTarget
from mlf_sdk.targets.registry import project_target, register_target, resolve_target, target_schemes
from mlf_sdk.targets.serial.target import SerialTarget
from mlf_sdk.targets.target import Ability, FlashChoice, Target, TargetChoice
from mlf_sdk.targets.zephyr.target import ZephyrTarget
from toy_target import ToyTarget

BOARD = """
name = "my-board"
title = "mine"
cpu = "cortex-m4"
fpu = "none"
dsp = true
clock_hz = 25_000_000
stack_bytes = 4096
memories = [
  { name = "flash", kind = "flash", origin = 0x0, size_bytes = 0x400000 },
  { name = "ram", kind = "ram", origin = 0x20000000, size_bytes = 0x400000 },
]
uart = { driver = "cmsdk", base = 0x40004000 }
counter = { hz = 25_000_000 }
qemu = { machine = "mps2-an386" }
"""


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(targets, "_SCHEMES", dict(targets._SCHEMES))
    register_target(ToyTarget)
    yield


def generate(folder: Path, target: Target) -> Lock:
    """A project of a tiny model for any target, with what the protocol gives."""
    layouts = (lay_out(load_model(write(build(Spec()), folder / "tiny.tar")), keep_inputs=False),)
    linkages = link_models(layouts, share_arena=False)
    options = ProjectOptions()
    lock = make_lock(
        layouts,
        linkages,
        options,
        platform=target.board.platform,
        board=target.board.name,
        board_file=target.board_file.name if target.board_file else None,
        zephyr=target.lock_zephyr(),
    )
    write_project(render_project(layouts, linkages, target.files(options), options, lock), folder / "app")
    return lock


def test_a_choice_survives_json_and_pickle():
    choice = TargetChoice(
        board="b", platform="zephyr", port="auto", baud=9600, zephyr_modules=("a", "b"), cmake_args=("-DA=1",)
    )
    assert pickle.loads(pickle.dumps(choice)) == choice
    stored = json.loads(json.dumps(asdict(choice)))
    lists = {name: tuple(value) for name, value in stored.items() if isinstance(value, list)}
    assert TargetChoice(**{**stored, **lists}) == choice


@pytest.mark.parametrize(
    ("choice", "kind", "abilities"),
    [
        (
            TargetChoice(),
            BaremetalTarget,
            Ability.BUILD | Ability.START | Ability.FLASH | Ability.KEEP,
        ),
        (TargetChoice(board="host"), HostTarget, Ability.BUILD | Ability.START | Ability.KEEP),
        (
            TargetChoice(board="mps2-an386", platform="zephyr"),
            ZephyrTarget,
            Ability.BUILD | Ability.START | Ability.FLASH,
        ),
        (TargetChoice(board="some/board", platform="zephyr"), ZephyrTarget, Ability.BUILD | Ability.FLASH),
        (TargetChoice(board="native_sim", platform="zephyr"), ZephyrTarget, Ability.BUILD | Ability.START),
        (TargetChoice(port="/dev/ttyACM0"), SerialTarget, Ability.BUILD | Ability.FLASH | Ability.KEEP),
        (TargetChoice(board="host", port="socket://h:1"), SerialTarget, Ability.BUILD | Ability.KEEP),
    ],
)
def test_the_class_and_abilities_of_a_choice(choice, kind, abilities):
    found = resolve_target(choice)
    assert type(found) is kind
    assert found.abilities == abilities
    assert found.attached == (kind is SerialTarget)
    assert found.is_host == (kind is HostTarget)


def test_the_default_board_is_the_first_one_of_a_row_of_ones_own(tmp_path: Path):
    assert resolve_target(TargetChoice()).board.name == DEFAULT_BOARD
    row = tmp_path / "row.toml"
    row.write_text(BOARD)
    found = resolve_target(TargetChoice(board_file=str(row)))
    assert found.name == found.board.name == "my-board"


def test_a_port_is_the_name_of_its_target():
    found = resolve_target(TargetChoice(board="host", port="socket://h:1"))
    assert (found.name, found.board.name) == ("socket://h:1", "host")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (TargetChoice(board="mps2-an38"), "there is no board 'mps2-an38'"),
        (TargetChoice(board="mps2-an386", platform="host"), "is for the platform baremetal"),
        (TargetChoice(board="nowhere:x"), "no kind of target is named 'nowhere'"),
        (TargetChoice(board="labgrid:x", port="auto"), "a board of labgrid has its port"),
    ],
)
def test_a_choice_that_names_nothing_is_refused(choice, message):
    with pytest.raises(InputError, match=message):
        resolve_target(choice)


def test_a_class_without_a_scheme_is_not_registered():
    with pytest.raises(InputError, match="states no scheme"):
        register_target(HostTarget)


def test_only_an_emulated_board_takes_arguments_for_its_emulator():
    emulated = resolve_target(TargetChoice()).with_emulator(["-d", "in_asm"])
    assert emulated.board.qemu is not None and emulated.board.qemu.args[-2:] == ("-d", "in_asm")
    assert emulated.counts_instructions
    with pytest.raises(ToolError, match="only an emulated board"):
        resolve_target(TargetChoice(board="host")).with_emulator([])


def test_the_project_of_a_users_board_holds_its_row(tmp_path: Path):
    row = tmp_path / "row.toml"
    row.write_text(BOARD)
    target = resolve_target(TargetChoice(board_file=str(row)))
    assert target.files(ProjectOptions()).files["board/board.toml"] == row.read_bytes()
    assert "board/board.toml" not in resolve_target(TargetChoice()).files(ProjectOptions()).files
    assert target.regions(tmp_path) == (("flash", 0, 0x400000), ("ram", 0x20000000, 0x400000))


def test_what_can_not_be_done_says_so(tmp_path: Path):
    host = resolve_target(TargetChoice(board="host"))
    with pytest.raises(InputError, match="can't be reset"):
        host.reset()
    with pytest.raises(InputError, match="nothing has to be flashed"):
        host.flash(tmp_path, FlashChoice())
    with pytest.raises(InputError, match="only the images of Zephyr projects are signed"):
        host.build(tmp_path, timeout_s=1, sign=tmp_path / "key")
    with pytest.raises(InputError, match="the project is not built"):
        resolve_target(TargetChoice(board="microbit")).flash(tmp_path, FlashChoice(runner="pyocd"))
    with pytest.raises(InputError, match="no image to start"):
        host.open(None, timeout_s=1)


def test_the_target_of_a_project_is_its_own_board(tmp_path: Path):
    row = tmp_path / "row.toml"
    row.write_text(BOARD)
    lock = generate(tmp_path, resolve_target(TargetChoice(board_file=str(row))))
    row.unlink()
    found = project_target(tmp_path / "app", lock, TargetChoice(port="/dev/ttyACM0", board="my-board"))
    assert (found.board.name, found.name) == ("my-board", "/dev/ttyACM0")
    with pytest.raises(InputError, match="the project is for the board my-board"):
        project_target(tmp_path / "app", lock, TargetChoice(board="host"))


@pytest.mark.toolchain
@pytest.mark.usefixtures("toy")
def test_a_new_transport_is_one_class(tmp_path: Path):
    assert target_schemes() == ("labgrid", "toy")
    lock = generate(tmp_path, resolve_target(TargetChoice(board="toy:one")))
    target = project_target(tmp_path / "app", lock, TargetChoice())
    assert (type(target), target.name) == (ToyTarget, "toy:one")
    lines: list[str] = []
    built = target.build(tmp_path / "app", timeout_s=300, log=lines.append)
    assert built.elf == target.image(tmp_path / "app")
    assert any("app.elf" in line for line in lines)
    data = sample(Spec())
    for _ in range(2):
        with target.open(built.elf, timeout_s=60) as session:
            session.hello()
            (output,) = session.infer(find_model(session, lock.models[0]), [data])
        np.testing.assert_allclose(output, reference(Spec(), data))
        target.reset()
    assert isinstance(target, ToyTarget) and target.resets == 2


@pytest.mark.toolchain
@pytest.mark.usefixtures("toy")
def test_commands_take_a_new_transport(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = write(build(Spec()), tmp_path / "tiny.tar")
    app = tmp_path / "app"
    mlf_sdk.generate(archive, app, board="toy:one")
    inputs = {"x": sample(Spec())}
    for source, options in ((archive, {"board": "toy:one"}), (app, {})):
        report = mlf_sdk.run(source, inputs=inputs, twin=False, **options)
        assert report.board.name == "toy:one"
        (output,) = report.outputs.values()
        np.testing.assert_allclose(np.squeeze(output), np.squeeze(reference(Spec(), inputs["x"])))
    with mlf_sdk.open_session(app) as model:
        (output,) = model.infer([inputs["x"]])
    np.testing.assert_allclose(output, reference(Spec(), inputs["x"]))
