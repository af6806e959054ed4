# SPDX-License-Identifier: Apache-2.0
"""Calls of the command line, what they printed, and archives whose kernels misbehave."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from archives import Spec, build, edit_json, graph_member, write
from mlf_sdk.cli.main import main
from mlf_sdk.cli.output import SCHEMA

KERNEL_FILE = "codegen/host/src/tiny_lib1.c"
COMMANDS = ("inspect", "doctor", "boards", "generate", "build", "check", "run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """What one call did."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """Standard output as JSON: one object and nothing else, with its schema and the verdict of the exit code."""
        found = json.loads(self.out)
        assert found["schema"] == SCHEMA == 1
        assert found["ok"] is (self.code == 0)
        return found

    def block(self) -> dict[str, str]:
        """Standard error as one error block, and nothing else: what, where, do."""
        first, *rest = self.err.rstrip("\n").split("\n")
        assert first.startswith("error: "), self.err
        assert all(line.startswith("  ") for line in rest), self.err
        assert "Traceback" not in self.err
        found = {"what": first.removeprefix("error: ")}
        key = "what"
        for line in rest:
            label = re.fullmatch(r"  (where|do): (.*)", line)
            if label is not None:
                key = label[1]
                assert key not in found, self.err
                found[key] = label[2]
            else:
                found[key] += "\n" + line.strip()
        return found


class Caller:
    """Calls the command line in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *argv: str | Path) -> Called:
        self._capsys.readouterr()
        code = main([str(argument) for argument in argv])
        printed = self._capsys.readouterr()
        return Called(code=code, out=printed.out, err=printed.err)


def misbehaving(statement: str, *, kernel: str = "fused_add_relu") -> dict[str, bytes]:
    """The tiny archive with a statement at the beginning of a kernel."""
    files = build()
    text = files[KERNEL_FILE].decode()
    start = text.index(f"tvmgen_tiny_{kernel}(")
    marker = "(void)dev_id;\n"
    at = text.index(marker, start) + len(marker)
    return {**files, KERNEL_FILE: (text[:at] + statement + text[at:]).encode()}


def named_archive(path: Path, *, input_name: str) -> Path:
    """The tiny archive with another name of its input."""
    files = edit_json(
        build(), graph_member(Spec()), lambda graph: graph["nodes"][0].update(name=input_name) or None
    )
    return write(files, path)
