# SPDX-License-Identifier: Apache-2.0
"""Compiled templates that are kept between runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest

from mlf_sdk.codegen.templates import environment

NAME = "common/needs.cmake.j2"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """Names of the templates that jinja2 compiles, with an empty cache."""
    names: list[str] = []
    real = jinja2.Environment.compile

    def compile_(self: jinja2.Environment, source: Any, name: str, *rest: Any) -> Any:
        names.append(name)
        return real(self, source, name, *rest)

    monkeypatch.setattr(jinja2.Environment, "compile", compile_)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    environment.cache_clear()
    yield names
    environment.cache_clear()


def get_in_another_run() -> jinja2.Template:
    environment.cache_clear()
    return environment().get_template(NAME)


def kept(folder: Path) -> Path:
    (found,) = (path for path in folder.rglob("*") if path.is_file())
    return found


def test_a_template_is_compiled_once(compiled: list[str]) -> None:
    get_in_another_run()
    get_in_another_run()
    assert compiled == [NAME]


def test_a_damaged_file_is_made_anew(compiled: list[str], tmp_path: Path) -> None:
    get_in_another_run()
    path = kept(tmp_path / "cache")
    whole = path.read_bytes()
    flipped = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
    for times, damaged in enumerate((b"", whole[:20], whole[:-1], flipped), 2):
        path.write_bytes(damaged)
        get_in_another_run()
        get_in_another_run()
        assert compiled == [NAME] * times


def test_nothing_is_kept_where_no_folder_can_be(compiled: list[str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    get_in_another_run()
    get_in_another_run()
    assert compiled == [NAME, NAME]
