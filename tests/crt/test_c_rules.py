# SPDX-License-Identifier: Apache-2.0
"""Rules of C: cppcheck's MISRA addon finds no rule broken that docs/c-rules.md does not give a reason for; clang-tidy."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import mlf_sdk

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "c-rules.md"
ADDONS = (Path("/usr/lib/x86_64-linux-gnu/cppcheck/addons"), Path("/usr/share/cppcheck/addons"))
_ROW = re.compile(r"^\| ([\d.]+) \| (mandatory|required|advisory) \| (.+) \|$", re.MULTILINE)
_BROKEN = re.compile(r"^(\S+?):(\d+):\d+: .*\[misra-c2012-([\d.]+)\]$", re.MULTILINE)
_OTHER = re.compile(r"^\S+?:\d+:\d+: (?:error|warning): .*$", re.MULTILINE)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated project with the RPC server: application, model, kernels and the runtime as it is built."""
    folder = tmp_path_factory.mktemp("rules") / "app"
    mlf_sdk.generate(ROOT / "examples" / "layers" / "layers.tflite", folder, board="mps2-an386")
    return folder


def _includes(project: Path) -> list[str]:
    model = next(p for p in (project / "model").iterdir() if p.is_dir())
    folders = (project / "crt/include", project / "crt/rpc", project / "board", model, model / "kernels")
    return [f"-I{folder}" for folder in folders]


@pytest.fixture(scope="module")
def findings(project: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What cppcheck says of the project."""
    if shutil.which("cppcheck") is None:
        pytest.skip("cppcheck is not installed (apt-get install cppcheck)")
    addon = next((folder / "misra.py" for folder in ADDONS if (folder / "misra.py").is_file()), None)
    if addon is None:
        pytest.skip("cppcheck has no MISRA addon here")
    command = [
        "cppcheck",
        "--std=c99",
        f"--addon={addon}",
        "--platform=unix32",
        "--enable=style",
        "--suppress=missingIncludeSystem",
        "--template={file}:{line}:{column}: {severity}: {message} [{id}]",
        "-j2",
        "-q",
        "-U__riscv",
        "-UMLF_RPC_SECURE",  # whose headers are in projects with a lock alone
        *_includes(project),
        *(str(project / name) for name in ("crt", "model", "src")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stderr


def _deviations() -> dict[str, str]:
    return {rule: reason for rule, _, reason in _ROW.findall(PAGE.read_text(encoding="utf-8"))}


def _broken(text: str) -> Iterator[tuple[str, str]]:
    for path, line, rule in _BROKEN.findall(text):
        yield rule, f"{path}:{line}"


def test_each_rule_that_is_broken_has_a_reason(findings: str) -> None:
    allowed = _deviations()
    without = [f"{rule} at {place}" for rule, place in _broken(findings) if rule not in allowed]
    assert without == []
    assert len(list(_broken(findings))) > 100, "the addon has not run"


def test_no_reason_is_left_over(findings: str) -> None:
    found = {rule for rule, _ in _broken(findings)}
    assert sorted(set(_deviations()) - found) == []
    assert all(len(reason) > 20 for reason in _deviations().values())


def test_cppcheck_itself_warns_of_nothing(findings: str) -> None:
    assert [line for line in _OTHER.findall(findings) if "misra" not in line] == []


def test_clang_tidy(project: Path) -> None:
    """The analyzer and the checks of .clang-tidy, on each source as the project's build compiles it."""
    if shutil.which("clang-tidy") is None:
        pytest.skip("clang-tidy is not installed (apt-get install clang-tidy)")
    headers = Path("/usr/lib/arm-none-eabi/include")
    if not headers.is_dir():
        pytest.skip("newlib's headers are not installed")
    mlf_sdk.build(project)
    entries = json.loads((project / "build" / "compile_commands.json").read_text())
    sources = [entry["file"] for entry in entries if entry["file"].endswith(".c")]
    assert len(sources) > 10
    done = subprocess.run(
        [
            "clang-tidy",
            "--quiet",
            f"--config-file={ROOT / '.clang-tidy'}",
            f"-p={project / 'build'}",
            "--extra-arg=--target=arm-none-eabi",
            f"--extra-arg=-isystem{headers}",
            "--extra-arg=-Wno-unknown-warning-option",
            *sources,
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    complaints = [line for line in done.stdout.splitlines() if "warning:" in line or "error:" in line]
    assert complaints == []
    assert done.returncode == 0, done.stderr[-1500:]
