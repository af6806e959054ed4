# SPDX-License-Identifier: Apache-2.0
"""Plans: what they may state, how they are expanded, and what a cell's name depends on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from archives import Spec, build, write
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.request import Request
from mlf_sdk.sweep import expand as expanding
from mlf_sdk.sweep import identity as identities
from mlf_sdk.sweep.expand import Expansion, expand
from mlf_sdk.sweep.identity import tool_versions
from mlf_sdk.sweep.job import Spec as Job
from mlf_sdk.sweep.journal import in_shard
from mlf_sdk.sweep.parts import part_of
from mlf_sdk.sweep.plan import make_plan, read_plan
from mlf_sdk.tools.discovery import Tool, ToolStatus


@pytest.fixture
def models(tmp_path: Path) -> Path:
    write(build(Spec()), tmp_path / "one.tar")
    write(build(Spec(name="two")), tmp_path / "two.tar")
    np.savez(tmp_path / "x.npz", x=np.ones((1, 8), np.float32))
    return tmp_path


def planned(folder: Path, text: str) -> Expansion:
    (folder / "plan.toml").write_text(text)
    return expand(read_plan(folder / "plan.toml"))


AXES = (
    'axes.model = ["one.tar", "two.tar"]\naxes.board = ["mps2-an386", "host"]\naxes.cflags = ["-O2", "-Os"]\n'
)


def test_every_combination_is_a_cell(models: Path) -> None:
    found = planned(models, AXES)
    labels = [tuple(cell.labels.values()) for cell in found.cells]
    assert len(labels) == len(set(labels)) == 8
    assert labels[0] == ("one.tar", "mps2-an386", "-O2")
    assert len({cell.spec.name for cell in found.cells}) == 8
    assert found.axes == {
        "model": ("one.tar", "two.tar"),
        "board": ("mps2-an386", "host"),
        "cflags": ("-O2", "-Os"),
    }
    # the host twin of a model with the same flags serves all boards
    assert len(found.references) == 4
    assert {cell.spec.reference for cell in found.cells} == set(found.references)


def test_rows_to_leave_out_and_to_add(models: Path) -> None:
    found = planned(
        models,
        AXES
        + 'exclude = [{board = "host", cflags = ["-Os"]}]\n'
        + 'include = [{model = "two.tar", board = "microbit", cflags = "-O3"}]\n',
    )
    labels = [tuple(cell.labels.values()) for cell in found.cells]
    assert len(labels) == 7
    assert ("one.tar", "host", "-Os") not in labels and ("one.tar", "mps2-an386", "-Os") in labels
    assert labels[-1] == ("two.tar", "microbit", "-O3")


def test_a_model_has_inputs_and_options_of_its_own(models: Path) -> None:
    found = planned(
        models,
        '[[models]]\nname = "first"\nsource = "one.tar"\ninputs = "x.npz"\noptions = {executor = "graph"}\n'
        '[[models]]\nsource = "two.tar"\n[options]\ntimeout = 30\n',
    )
    first, second = (cell.spec.fields for cell in found.cells)
    assert first["inputs"] == str(models / "x.npz") and first["executor"] == "graph"
    assert "inputs" not in second and second["timeout_s"] == 30
    assert found.axes["model"] == ("first", "two.tar")


def test_every_path_of_a_plan_is_relative_to_its_file(models: Path) -> None:
    """Of whatever option, also NAME=PATH; a file's content is part of the cell's name."""
    (models / "op.c").write_text("int x;")
    (models / "w.params").write_bytes(b"1")
    options = 'params-files = ["w.params"]\ncustom = ["op=op.c"]\nmodel-file = "two.tar"\nboard-file = ""\n'
    text = 'axes.model = ["one.tar"]\n[options]\nzephyr-base = "tree"\n' + options
    (models / "plan.toml").write_text(text)
    found = read_plan(models / "plan.toml").options
    assert found == {
        "params_files": (str(models / "w.params"),),
        "custom": (f"op={models / 'op.c'}",),
        "model_file": str(models / "two.tar"),
        "board_file": "",
        "zephyr_base": str(models / "tree"),
    }
    one = part_of("params_files", (str(models / "w.params"),))
    (models / "w.params").write_bytes(b"2")
    assert part_of("params_files", (str(models / "w.params"),)).identity != one.identity


def test_the_name_depends_on_what_decides_the_result(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = 'axes.model = ["one.tar"]\n'

    def name(text: str = one) -> str:
        return planned(models, text).cells[0].spec.name

    before = name()
    assert name() == before
    assert name(one + "[options]\ntimeout = 17\n") == before  # decides no result
    others = {
        name(one + '[options]\ncflags = "-O1"\n'),
        name(one + '[options]\nboard = "microbit"\n'),
        name('[[models]]\nsource = "one.tar"\ninputs = "x.npz"\n'),
    }
    np.savez(models / "x.npz", x=np.zeros((1, 8), np.float32))
    others.add(name('[[models]]\nsource = "one.tar"\ninputs = "x.npz"\n'))
    (models / "one.tar").write_bytes((models / "two.tar").read_bytes())
    others.add(name())
    monkeypatch.setattr(expanding, "tool_versions", lambda: {"cc": "99.1"})
    others.add(name())
    monkeypatch.setattr(expanding, "sdk_version", lambda: "9.9+0")
    others.add(name())
    assert len(others | {before}) == 8


GNU = {"cc": "12.2.0", "arm-none-eabi-gcc": "12.2.1", "qemu-system-arm": "7.2"}


def test_a_cell_names_the_toolchain_and_the_emulator_that_are_used(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names and needs of one cell on a board, by the tools of a machine."""

    def cell(tools: dict[str, str], toolchain: str = "") -> Job:
        for module in (identities, expanding):
            monkeypatch.setattr(module, "tool_versions", lambda: tools)
        option = f'options = {{toolchain = "{toolchain}"}}\n' if toolchain else ""
        return (
            planned(models, f'axes.model = ["one.tar"]\naxes.board = ["mps2-an386"]\n{option}').cells[0].spec
        )

    def needs(spec: Job) -> set[str]:
        return {name for name in spec.resources if not name.startswith("mlf-sdk=")}

    gnu = cell(GNU)
    assert needs(gnu) == {"cc=12.2.0", "arm-none-eabi-gcc=12.2.1", "qemu-system-arm=7.2"}
    assert "toolchain" not in gnu.fields
    both = {**GNU, "zig": "0.17.1", "clang": "14.0"}
    zig, clang = cell(both, "zig"), cell(both, "clang")
    assert needs(zig) == {"zig=0.17.1", "qemu-system-arm=7.2"}
    assert needs(clang) == {*needs(gnu), "clang=14.0"}
    assert needs(cell(both)) == needs(gnu)
    other = cell({**both, "zig": "0.18.0"}, "zig")
    alone = cell({"cc": "12.2.0", "zig": "0.17.1", "qemu-system-arm": "unicorn 2.1.4"})
    assert needs(alone) == {"cc=12.2.0", "zig=0.17.1", "qemu-system-arm=unicorn 2.1.4"}
    assert alone.fields["toolchain"] == "zig"  # a worker that has gcc as well takes the same
    assert len({one.name for one in (gnu, zig, clang, other, alone)}) == 5


def test_unicorn_stands_for_an_emulator_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def status(tool: Tool) -> ToolStatus:
        is_there = "qemu" not in tool.name
        stands = "" if is_there else tool.stand_in
        return ToolStatus(
            tool=tool, path="x" if is_there else None, version="1.2" if is_there else None, replaced_by=stands
        )

    monkeypatch.setattr(identities, "find_tools", lambda tools: tuple(map(status, tools)))
    found = tool_versions.__wrapped__()
    assert found["qemu-system-arm"] == "unicorn 1.2"
    assert not {"qemu-system-riscv32", "unicorn"} & found.keys()
    assert found.keys() >= {"arm-none-eabi-gcc", "zig", "clang", "cc"}


def test_options_in_another_order_are_the_same_cells(models: Path) -> None:
    one, other = (
        planned(
            models,
            f'axes.model = ["one.tar"]\naxes.{a} = ["{x}"]\naxes.{b} = ["{y}"]\n',
        )
        for a, x, b, y in (
            ("cflags", "-Os", "executor", "graph"),
            ("executor", "graph", "cflags", "-Os"),
        )
    )
    by_option = planned(models, 'axes.model = ["one.tar"]\noptions = {cflags = "-Os", executor = "graph"}\n')
    assert [c.spec.name for c in one.cells] == [c.spec.name for c in other.cells]
    assert [c.spec.name for c in one.cells] == [c.spec.name for c in by_option.cells]


def test_a_plan_of_options(models: Path) -> None:
    plan = make_plan([str(models / "one.tar")], ["host"], ["cflags=-O2,-Os", "keep-inputs=true,false"])
    found = expand(plan)
    assert len(found.cells) == 4
    assert {cell.spec.fields.get("keep_inputs") for cell in found.cells} == {True, False}
    assert found.cells[0].labels["keep_inputs"] == "true"


def test_places_and_what_they_need(models: Path, needs_cc: str) -> None:
    plan = make_plan([str(models / "one.tar")], ["labgrid:a|b", "host"], [])
    place, host = (cell.spec for cell in expand(plan).cells)
    assert place.places == ("labgrid:a", "labgrid:b") and host.places == ()
    assert {name.partition("=")[0] for name in host.resources} == {"mlf-sdk", "cc"}
    assert "qemu-system-arm" not in {name.partition("=")[0] for name in place.resources}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("axes.model = [", "can't read the plan"),
        ("wrong = 1\n", "unknown field `wrong`"),
        ('axes.cflags = ["-O2"]\n', "no model"),
        ('axes.model = ["one.tar"]\naxes.boards = ["host"]\n', "unknown option 'boards'"),
        ('axes.model = ["one.tar"]\naxes.cflags = []\n', "no values"),
        ('axes.model = ["one.tar"]\naxes.keep_inputs = ["perhaps"]\n', "invalid value 'perhaps'"),
        ('axes.model = ["one.tar"]\naxes.executor = ["quick"]\n', "invalid value 'quick'"),
        ('axes.model = ["one.tar"]\ngates.flash = {max = 1}\n', "unknown figure 'flash'"),
        ('axes.model = ["none.tar"]\n', "there is no such file"),
        ('axes.model = ["one.tar"]\naxes.board = ["nowhere"]\n', "no board 'nowhere'"),
        ('axes.model = ["one.tar"]\nexclude = [{core = "x"}]\n', "unknown"),
        ('axes.model = ["one.tar", "one.tar"]\n', "two values have the name"),
        ('axes.model = ["one.tar"]\nexclude = [{model = "one.tar"}]\n', "no cell is left"),
    ],
)
def test_what_no_plan_may_state(models: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        planned(models, text)
    assert said in str(caught.value)


def test_no_plan_at_all() -> None:
    with pytest.raises(InputError, match="neither a plan nor an archive"):
        make_plan([], [], [])
    with pytest.raises(InputError, match="no NAME=VALUE"):
        make_plan(["a.tar"], [], ["cflags"])


def test_options_beside_the_plan(models: Path) -> None:
    plan = make_plan([str(models / "one.tar")], ["host"], [])
    found = expand(plan, Request(cflags="-O1"))
    assert found.cells[0].spec.fields["cflags"] == "-O1"
    assert found.cells[0].spec.name != expand(plan).cells[0].spec.name


def test_shards_are_disjoint_and_complete(models: Path) -> None:
    names = [cell.spec.name for cell in planned(models, AXES).cells]
    parts = [{name for name in names if in_shard(name, (number, 3))} for number in (1, 2, 3)]
    assert sum(map(len, parts)) == len(names) and set.union(*parts) == set(names)
