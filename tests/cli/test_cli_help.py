# SPDX-License-Identifier: Apache-2.0
"""Help, version and shell completion."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from cli_helpers import COMMANDS, Caller
from mlf_sdk.cli.command import Command
from mlf_sdk.cli.main import app
from mlf_sdk.targets.boards.load import load_boards
from mlf_sdk.version import __version__

GROUP = app
CONTEXT = click.Context(app)
ALL = tuple(GROUP.list_commands(CONTEXT))
OF_THE_SHELL = ("completion",)  # has no result to print


def _leaves() -> dict[str, click.Command]:
    """All commands by their words: "run", "params push"."""
    found = {}
    for name in ALL:
        command = GROUP.get_command(CONTEXT, name)
        if isinstance(command, click.Group):
            found |= {
                f"{name} {sub}": command.get_command(CONTEXT, sub) for sub in command.list_commands(CONTEXT)
            }
        elif name not in OF_THE_SHELL:
            found[name] = command
    return found


LEAVES = _leaves()


def is_long(command: str) -> bool:
    """Return True for a command whose ``--help`` leaves options out."""
    return any("--help-all" in param.opts for param in LEAVES[command].params)


README = Path(__file__).resolve().parents[2] / "README.md"


def _stated() -> dict[str, list[str]]:
    """Command lines of the README's list: with optional parts and without, each of the alternatives."""
    block = README.read_text().split("## The commands")[1].split("All take")[0]
    found: dict[str, list[str]] = {}
    for line in re.findall(r"^    mlf-sdk (.+?)(?: {2,}.*)?$", block, re.MULTILINE):
        for text in line.split(" | "):
            whole = (
                text
                if " | " not in line or "--port" in text
                else text + "".join(re.findall(r" --port.*", line))
            )
            for one in dict.fromkeys((re.sub(r" \[[^]]*\]", "", whole), re.sub(r"[][]", "", whole))):
                words = [word.split("|")[0].removesuffix("...") for word in one.split()]
                found[" ".join(words)] = words
    return found


@pytest.mark.parametrize("line", _stated())
def test_the_commands_of_the_readme_are_valid(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Caller
) -> None:
    """Each is read, its files being there, up to the values that its function gets; nothing is run."""
    asked: list[str] = []

    def read(command: Command, given: dict[str, Any]) -> int:
        command.own(**{one.name: given[one.name] for one in dataclasses.fields(command.own)})
        asked.append(line)
        return 0

    monkeypatch.setattr("mlf_sdk.cli.command._invoke", read)
    monkeypatch.chdir(tmp_path)
    words = _stated()[line]
    for word in words:
        if re.fullmatch(r"[A-Z]+(\.[a-z]+)?", word):
            (tmp_path / word).touch()
    called = call(*("bash" if word == "SHELL" else word for word in words))
    assert (called.code, called.err) == (0, "")
    assert asked == ([] if words[0] in OF_THE_SHELL else [line])


def test_the_cache_is_shown_where_nothing_else_is_said(
    call: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shown = call("cache", "--json")
    assert shown.value["folder"] == str(tmp_path / "mlf-sdk")
    assert call("cache", "show", "--json").value == shown.value
    assert "is not one of 'show', 'clean'" in call("cache", "cleen").block()["what"]


def test_all_commands_are_listed_in_the_order_of_work(call: Caller) -> None:
    shown = call("--help")
    assert shown.code == 0
    listed = re.findall(r"^  ([a-z]+) {2,}\S", shown.out, re.MULTILINE)
    assert tuple(name for name in listed if name in COMMANDS) == COMMANDS
    assert set(ALL) == set(re.findall(r"^  ([a-z]+) {2,}\S", shown.out.split("Commands:")[1], re.MULTILINE))
    whole = [line for line in shown.out.splitlines() if line.strip().split(" ")[0] in COMMANDS]
    assert len(whole) == len(COMMANDS)
    assert not [line for line in whole if line.endswith("...")]


def test_without_a_command_the_help_is_shown_and_nothing_done(call: Caller) -> None:
    shown = call()
    assert shown.code == 2
    assert shown.out == call("--help").out


@pytest.mark.parametrize("command", LEAVES)
def test_help_of_a_command(command: str, call: Caller) -> None:
    shown = call(*command.split(), "--help-all" if is_long(command) else "--help")
    assert (shown.code, shown.err) == (0, "")
    text = " ".join(shown.out.split())
    examples = re.findall(
        rf"Example: (mlf-sdk {command}(?: [^\s:]+)*?)(?= Example:| Arguments:| [A-Z][a-z]+(?: and baselines| options)?:)",
        text,
    )
    assert examples, shown.out
    for parameter in LEAVES[command].params:
        assert parameter.help, parameter.name
        assert " ".join(parameter.help.split())[:40].rstrip() in text
        for name in parameter.opts:
            assert name.startswith("-") is False or name in text
    known = {name for p in LEAVES[command].params for name in p.opts} | {"-o", "-b"}
    for example in examples:
        assert {word for word in example.split() if word.startswith("-")} <= known


HELPS = {"--help", "--help-all"}


def listed(text: str) -> set[str]:
    """Long spellings of the options that a help has rows for."""
    return set(re.findall(r"^  (?:-\w, )?(--[a-z][a-z-]*)", text, re.MULTILINE))


@pytest.mark.parametrize("command", [one for one in LEAVES if is_long(one)])
def test_help_of_a_long_command_lists_what_most_people_need(command: str, call: Caller) -> None:
    short = call(*command.split(), "--help").out
    whole = call(*command.split(), "--help-all").out
    few, every = listed(short), listed(whole)
    assert {"--json"} <= few < every
    assert not few & HELPS
    assert len(few) <= 14
    options = [param for param in LEAVES[command].params if isinstance(param, click.Option)]
    spelled = {param: next(one for one in param.opts if one.startswith("--")) for param in options}
    assert every == {"--help", *spelled.values()}
    must = {spelled[param] for param in options if param.required}
    assert must <= few
    assert f"{len(every - few - HELPS)} more options: mlf-sdk {command} --help-all" in " ".join(short.split())
    assert "more options:" not in whole


def test_the_commands_that_people_call_long_have_a_short_help() -> None:
    assert {"run", "report", "generate", "test", "proof", "check"} <= {one for one in LEAVES if is_long(one)}
    assert not {"build", "flash", "boards", "monitor"} & {one for one in LEAVES if is_long(one)}


def test_help_of_run_lists_ten_options(call: Caller) -> None:
    assert listed(call("run", "--help").out) == {
        "--board",
        "--board-file",
        "--platform",
        "--chip",
        "--for",
        "--inputs",
        "--expect",
        "--port",
        "--output",
        "--json",
    }
    assert len(call("run", "--help").out.splitlines()) < 56


@pytest.mark.parametrize("command", LEAVES)
def test_every_command_takes_json_and_debug(command: str, call: Caller) -> None:
    text = call(*command.split(), "--help-all" if is_long(command) else "--help").out
    assert re.search(r"^  --json ", text, re.MULTILINE)
    assert re.search(r"^  --debug ", text, re.MULTILINE)


def test_version(call: Caller) -> None:
    assert call("--version").out == f"mlf-sdk {__version__}\n"


def completed(line: str, shell: str) -> list[str]:
    """Lines that a shell is given to complete the last word of ``line``."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "_MLF_SDK_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    program = "import sys; from mlf_sdk.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def complete(line: str) -> list[str]:
    """What bash would offer for the last word of ``line``."""
    return [found.partition(",")[2] for found in completed(line, "bash")]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("mlf-sdk ", set(ALL)),
        ("mlf-sdk d", {"debug", "doctor"}),
        ("mlf-sdk run x.tar --board mps2-an3", {"mps2-an385", "mps2-an386"}),
        ("mlf-sdk run x.tar --board ", set(load_boards())),
        ("mlf-sdk generate x.tar --app ", {"library", "mlperf", "rpc", "standalone"}),
        ("mlf-sdk generate x.tar --params r", {"ram"}),
        ("mlf-sdk run x.tar --exp", {"--expect"}),
    ],
)
def test_completion(line: str, offered: set[str]) -> None:
    assert set(complete(line)) == offered


def test_completion_of_zsh_describes_names() -> None:
    assert "Cortex-M4F" in "".join(completed("mlf-sdk run x.tar --board mps2-an386", "zsh"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(shell: str) -> None:
    program = "import sys; from mlf_sdk.cli.main import main; sys.exit(main())"
    environment = {**os.environ, "_MLF_SDK_COMPLETE": f"{shell}_source"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0
    assert f"{shell}_complete" in done.stdout
    assert "mlf-sdk" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_command_that_prints_the_script(shell: str, call: Caller) -> None:
    assert f"{shell}_complete" in call("completion", shell).out
