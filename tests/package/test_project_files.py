# SPDX-License-Identifier: Apache-2.0
"""Files that services and editors read: whole, consistent, and their scripts do what they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlf_sdk.version import __version__

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def loaded(path: str) -> Any:
    """A YAML file of the project."""
    return yaml.safe_load((ROOT / path).read_text())


def test_all_state_one_version() -> None:
    sections = re.findall(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == __version__
    assert str(loaded("CITATION.cff")["version"]) == __version__


def test_sections_of_the_changelog_have_the_kinds_of_their_format() -> None:
    kinds = re.findall(r"^### (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert kinds
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


@pytest.mark.parametrize("path", [t for t in TEMPLATES if t.name != "config.yml"], ids=lambda p: p.stem)
def test_an_issue_form_is_whole(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    assert form["name"]
    assert form["description"]
    ids = [item["id"] for item in form["body"]]
    assert len(ids) == len(set(ids))
    assert all(item["attributes"]["label"] for item in form["body"])
    assert {item["type"] for item in form["body"]} <= {
        "textarea",
        "input",
        "dropdown",
        "markdown",
        "checkboxes",
    }


def test_hooks_run_the_checks_of_make_lint() -> None:
    hooks = [hook for repo in loaded(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    lint = (ROOT / "Makefile").read_text().split("\nlint:")[1].split("\n\n")[0]
    programs = {hook["entry"].split()[0].rpartition("/")[2] for hook in hooks}
    assert {"ruff", "mypy", "clang-format"} <= programs
    assert all(program in lint for program in programs - {"python"})
    assert all(hook["language"] == "system" for hook in hooks)  # versions are those of pyproject.toml


def test_commands_of_containers_are_in_the_checkout() -> None:
    containers = (ROOT / "Dockerfile").read_text() + (ROOT / ".devcontainer/devcontainer.json").read_text()
    scripts = re.findall(r"sh (\.ci/[\w.-]+)", containers)
    assert len(scripts) == 2
    assert all((ROOT / script).is_file() for script in scripts)
    assert json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())["image"].startswith("debian:")
    targets = re.findall(r"make (dev|runtime)\b", containers)
    assert {f"\n{target}:" in (ROOT / "Makefile").read_text() for target in targets} == {True}


# ---- the GitHub action ----


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    """A program that writes its arguments to calls.txt, and fails for the command that FAIL names."""
    program = tmp_path / "mlf-sdk"
    program.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$*" >>"$CALLS"\necho "verdict    $1"\n[ "$1" != "${FAIL:-}" ] || exit 1\n'
    )
    program.chmod(0o755)
    return program


def act(stub: Path, **inputs: str) -> tuple[int, list[str], str]:
    """Run the action's script with inputs; its exit code, the commands it called, and the job's summary."""
    folder = stub.parent
    given = {
        f"MLF_{name.upper().replace('-', '_')}": str(
            inputs.get(name.replace("-", "_"), of.get("default", ""))
        )
        for name, of in loaded("action.yml")["inputs"].items()
    }
    environment = {
        "PATH": os.environ["PATH"],
        "RUNNER_TEMP": str(folder),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "CALLS": str(folder / "calls.txt"),
        "FAIL": inputs.get("fail", ""),
        "MLF_SDK": str(stub),
        **given,
    }
    done = subprocess.run(["sh", ROOT / ".ci/action.sh"], env=environment, check=False, timeout=60)
    return (
        done.returncode,
        (folder / "calls.txt").read_text().splitlines(),
        (folder / "summary.md").read_text(),
    )


def test_every_input_of_the_action_reaches_its_script() -> None:
    action = loaded("action.yml")
    (step,) = action["runs"]["steps"]
    assert step["env"] == {
        f"MLF_{name.upper().replace('-', '_')}": f"${{{{ inputs.{name} }}}}" for name in action["inputs"]
    }
    script = (ROOT / ".ci/action.sh").read_text()
    assert all(f"${name}" in script or f"${{{name}:" in script for name in step["env"])


def test_a_model_alone_is_run(stub: Path) -> None:
    code, calls, summary = act(stub, model="my model.tflite")
    assert (code, calls) == (0, ["run my model.tflite --board mps2-an386 --strict"])
    assert "verdict    run" in summary


def test_cases_and_limits(stub: Path) -> None:
    code, calls, _ = act(
        stub,
        model="m.onnx",
        board="host",
        cases="c.npz",
        min_accuracy="0.9",
        budget="b.toml",
        baseline="s.json",
    )
    project = stub.parent / "mlf-sdk-action/project"
    assert code == 0
    assert calls == [
        "test m.onnx --board host --cases c.npz --junit mlf-sdk-results.xml --min-accuracy 0.9",
        f"generate m.onnx -o {project} --board host",
        f"build {project}",
        f"check {project} --budget b.toml --baseline s.json --tolerance 1%",
    ]


def test_what_fails_ends_the_step(stub: Path) -> None:
    code, calls, summary = act(stub, model="m.onnx", budget="b.toml", fail="run")
    assert (code, len(calls)) == (1, 1)
    assert "verdict    run" in summary


# ---- a release ----


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with what the release script reads, of a version that may be released."""
    for name in (".ci/release.sh", "CHANGELOG.md", "CITATION.cff", "sdk/mlf_sdk/version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(
        re.sub(r"^(## \[\S+\]) - .*", r"\1 - 2026-01-01", changelog.read_text(), count=1, flags=re.MULTILINE)
    )
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "m"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def refusal(checkout: Path, program: str = "") -> str:
    """The release's reason to refuse a checkout."""
    if program:
        text = (checkout / program.split(":")[0]).read_text()
        old, new = program.split(":")[1:]
        (checkout / program.split(":")[0]).write_text(text.replace(old, new))
        commit = ["git", "-c", "user.name=n", "-c", "user.email=e", "commit", "-qam", "m"]
        subprocess.run(commit, cwd=checkout, check=True)
    done = subprocess.run(
        ["sh", ".ci/release.sh", "venv"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert not (checkout / "dist").exists()
    return done.stderr


def test_a_release_is_of_a_commit(checkout: Path) -> None:
    (checkout / "more.txt").write_text("new")
    assert "files are changed or new" in refusal(checkout)


def test_a_release_has_a_dated_section(checkout: Path) -> None:
    assert "no dated section" in refusal(checkout, "CHANGELOG.md:2026-01-01:unreleased")


def test_a_release_is_made_once(checkout: Path) -> None:
    subprocess.run(["git", "tag", f"v{__version__}"], cwd=checkout, check=True)
    assert "is tagged already" in refusal(checkout)


def test_a_release_is_cited_by_its_version(checkout: Path) -> None:
    assert "CITATION.cff" in refusal(checkout, f"CITATION.cff:{__version__}:0.0.1")


def test_a_release_states_its_api(checkout: Path) -> None:
    assert "api.json" in refusal(checkout)  # no Python there that could say the same
