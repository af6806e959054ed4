# SPDX-License-Identifier: Apache-2.0
"""Requests: declared once, checked, serialisable; command line and configuration derive from them."""

from __future__ import annotations

import dataclasses
import pickle
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from mlf_sdk.cli.command import Command, make_click_command
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.arguments import make_request
from mlf_sdk.pipeline.config import read_config
from mlf_sdk.pipeline.declare import Stage, flag_of, option_of
from mlf_sdk.pipeline.request import Request

COMMANDS: dict[str, Command] = {
    name: command
    for module in ("archives", "projects", "runs", "devices")
    for name, command in import_module(f"mlf_sdk.cli.{module}").COMMANDS.items()
}
FIELDS = dataclasses.fields(Request)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_a_field_is_declared_whole(field: dataclasses.Field) -> None:
    declared = option_of(field)
    assert declared.help.endswith(".")
    assert declared.stage is not None or field.name == "source"
    assert declared.hidden or declared.group


def test_flags_differ() -> None:
    offered = [field for field in FIELDS if not option_of(field).hidden]
    flags = [flag for field in offered for flag in {flag_of(field), *option_of(field).flags}]
    assert len(flags) == len(set(flags))


def given(**options: object) -> Request:
    return Request(source=("a.tar",), **options)


def test_a_request_survives_pickle_and_json() -> None:
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    request = given(board="host", zephyr_modules=("/a", "/b"), inputs={"x": x}, timeout_s=1.5, twin=True)
    for other in (pickle.loads(pickle.dumps(request)), Request.from_json(request.to_json())):
        assert other.inputs["x"].dtype == np.int8
        assert np.array_equal(other.inputs["x"], x)
        assert other.replace(inputs=None) == request.replace(inputs=None)


def test_up_to_a_stage() -> None:
    request = given(board="host", cflags="-Os", timeout_s=3.0, inputs="x.npz", expect="y.npz", atol=1.0)
    assert request.up_to(Stage.LOAD) == given()
    assert request.up_to(Stage.BUILD) == given(board="host", cflags="-Os")
    assert request.up_to(Stage.EXECUTE) == request.replace(expect=None, atol=1e-6)
    assert request.up_to(Stage.JUDGE) == request
    assert hash(given(inputs={"x": np.zeros(1)}).up_to(Stage.BUILD)) == hash(given().up_to(Stage.BUILD))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"boards": "host"}, "unknown option 'boards'"),
        ({"timeout": 3}, "unknown option 'timeout'"),
        ({"timeout_s": 0}, "invalid value 0"),
        ({"rtol": float("nan")}, "invalid value nan"),
        ({"app": "rcp"}, "invalid value 'rcp'"),
        ({"platform": "linux"}, "invalid value 'linux'"),
    ],
)
def test_bad_options(options: dict[str, object], says: str) -> None:
    with pytest.raises(InputError) as caught:
        make_request("a.tar", None, options)
    assert caught.value.what == says
    assert caught.value.hint


def test_sources_and_precedence(tmp_path: Path) -> None:
    base = Request(source=("a.tar",), board="host", cflags="-Os")
    assert make_request(None, base, {}) == base
    assert make_request(tmp_path, base, {"board": "microbit"}).source == (str(tmp_path),)
    assert make_request(["a", tmp_path], base, {}).source == ("a", str(tmp_path))
    assert make_request("b", base, {"board": "microbit"}).cflags == "-Os"
    with pytest.raises(InputError, match="no archive or project"):
        make_request(None, None, {})


# ---- commands ----


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_every_option_of_its_stages(name: str) -> None:
    """Left out is only what the command says it leaves out."""
    command = COMMANDS[name]
    offered = {parameter.name for parameter in make_click_command(name, command).params}
    own = {flag_of(field) for field in dataclasses.fields(command.own)}
    for field in FIELDS:
        declared = option_of(field)
        if declared.stage in command.stages and not declared.hidden and flag_of(field) not in own:
            left_out = field.name in command.omits or (command.takes_project and declared.fixed)
            assert (field.name in offered) is not left_out, field.name


@pytest.mark.parametrize("name", ["run", "test", "report", "profile", "compare"])
def test_options_that_once_drifted(name: str) -> None:
    offered = {parameter.name for parameter in make_click_command(name, COMMANDS[name]).params}
    assert offered >= {
        "platform",
        "cflags",
        "params",
        "cmsis_nn",
        "zephyr_base",
        "zephyr_modules",
        "west",
        "baud",
    }


# ---- mlf.toml ----


def test_the_nearest_configuration(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert read_config(inner).values == {}
    (tmp_path / "pyproject.toml").write_text('[tool.mlf-sdk]\nboard = "host"\nzephyr-base = "z"\n')
    assert read_config(inner).values == {"board": "host", "zephyr_base": str(tmp_path / "z")}
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\n")
    assert read_config(inner).values["board"] == "host"
    (inner / "mlf.toml").write_text('board = "microbit"\nport = "/dev/x"\ntimeout = 3\nwest = false\n')
    found = read_config(inner)
    assert found.path == inner / "mlf.toml"
    assert found.values == {"board": "microbit", "port": "/dev/x", "timeout_s": 3.0, "west": False}
    assert found.defaults_for({"board", "timeout_s"}) == {"board": "microbit", "timeout_s": 3.0}
    assert found.defaults_for({"port", "timeout_s"}, board_given=True) == {"timeout_s": 3.0}


def test_paths_of_a_configuration_are_beside_it(tmp_path: Path) -> None:
    (tmp_path / "mlf.toml").write_text(
        'archive = "a.tar"\nimage = "app"\nmore-sources = ["x.c", "/abs/y.c"]\ncustom = ["op=code/op.c"]\n'
    )
    assert read_config(tmp_path).values == {
        "archive": str(tmp_path / "a.tar"),
        "image": str(tmp_path / "app"),
        "more_sources": (str(tmp_path / "x.c"), "/abs/y.c"),
        "custom": (f"op={tmp_path / 'code/op.c'}",),
    }


def test_options_of_paths_are_declared_as_such() -> None:
    """What names a file or must exist is a path: one in a configuration is relative to that file."""
    declared = {field.name: option_of(field) for field in dataclasses.fields(Request)}
    words = re.compile(r"FILE|DIR|PATH|KEY|FOLDER")
    said = {name for name, one in declared.items() if one.exists or words.search(one.metavar)}
    assert said == {name for name, one in declared.items() if one.is_path}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bord = 'host'", "unknown option 'bord'"),
        ("timeout = 'long'", "invalid value 'long'"),
        ("timeout = 0", "invalid value 0"),
        ("board = 3", "invalid value 3"),
        ("keep-inputs = 1", "invalid value 1"),
        ("board = ", "can't read the configuration"),
        ("source = ['a']", "unknown option 'source'"),
    ],
)
def test_bad_configurations(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "mlf.toml").write_text(text)
    with pytest.raises(InputError, match=says):
        read_config(tmp_path)
