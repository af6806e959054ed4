# SPDX-License-Identifier: Apache-2.0
"""The Python API and the command line keep what a release promised: api.json is theirs at the last release."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest

import mlf_sdk
from mlf_sdk.cli.main import app

PROMISED = Path(__file__).with_name("api.json")


def python_api() -> dict[str, Any]:
    """Parameters of every public function, fields of every public class: name to default, or ``...`` if needed."""
    found: dict[str, Any] = {}
    for name in sorted(mlf_sdk.__all__):
        thing = getattr(mlf_sdk, name)
        if not callable(thing):
            continue
        if isinstance(thing, type) and not dataclasses.is_dataclass(thing):
            found[name] = {"bases": [base.__name__ for base in thing.__mro__[1:-1]]}
            continue
        parameters = inspect.signature(thing).parameters.values()
        found[name] = {
            "*" * (p.kind is p.VAR_POSITIONAL) + "*" * 2 * (p.kind is p.VAR_KEYWORD) + p.name: _default(p)
            for p in parameters
        }
    return found


def _default(parameter: inspect.Parameter) -> Any:
    value = parameter.default
    if value is parameter.empty:
        return ...
    return value if isinstance(value, str | int | float | bool | None) else type(value).__name__


def command_line() -> dict[str, list[str]]:
    """The options of every command."""
    context = click.Context(app)
    return {
        name: sorted(
            spelling
            for parameter in command.params
            if isinstance(parameter, click.Option)
            for spelling in (*parameter.opts, *parameter.secondary_opts)
        )
        for name in app.list_commands(context)
        if (command := app.get_command(context, name)) is not None
    }


def current() -> dict[str, Any]:
    """What api.json holds, of the code as it is."""
    plain = {n: {p: "..." if d is ... else d for p, d in of.items()} for n, of in python_api().items()}
    return {"python": plain, "commands": command_line()}


def broken(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What callers of ``before`` can't do any more."""
    faults = []
    for name, parameters in before["python"].items():
        if name not in now["python"]:
            faults.append(f"{name} is gone")
            continue
        mine = now["python"][name]
        faults += [f"{name}: {p} is gone" for p in parameters if p not in mine]
        faults += [f"{name}: {p} is new and needed" for p in mine if mine[p] == "..." and p not in parameters]
        faults += [
            f"{name}: {p} was {d!r}, is {mine[p]!r}"
            for p, d in parameters.items()
            if p in mine and mine[p] != d
        ]
    for name, options in before["commands"].items():
        gone = set(options) - set(now["commands"].get(name, ()))
        faults += [f"mlf-sdk {name}: {option} is gone" for option in sorted(gone)]
        if name not in now["commands"]:
            faults.append(f"mlf-sdk {name} is gone")
    return faults


def test_what_a_release_promised_is_kept() -> None:
    faults = broken(json.loads(PROMISED.read_text()), current())
    assert not faults, "\n".join([*faults, "CONTRIBUTING.md (Releases) says how something goes"])


@pytest.mark.parametrize(
    ("path", "change", "fault"),
    [
        (("python",), {"run": None}, "run is gone"),
        (("python", "run"), {"source": None}, "run: source is gone"),
        (("python", "run"), {"speed": "..."}, "run: speed is new and needed"),
        (("python", "Request"), {"goal": "size"}, "Request: goal was 'balanced', is 'size'"),
        (("commands",), {"run": []}, "mlf-sdk run: --board is gone"),
        (("commands",), {"run": None}, "mlf-sdk run is gone"),
    ],
)
def test_a_change_that_breaks_callers_is_noticed(
    path: tuple[str, ...], change: dict[str, Any], fault: str
) -> None:
    now = current()
    place = now
    for key in path:
        place = place[key]
    place.update(change)
    for key in [key for key, value in change.items() if value is None]:
        del place[key]
    assert fault in broken(current(), now)


def test_more_options_break_nobody() -> None:
    now = current()
    now["python"]["run"]["more"] = None
    now["python"]["new"] = {}
    now["commands"]["run"].append("--more")
    assert not broken(current(), now)


if __name__ == "__main__":  # a release: python tests/package/test_api.py
    sys.stdout.write(json.dumps(current(), indent=1, sort_keys=True) + "\n")
