# SPDX-License-Identifier: Apache-2.0
"""Inputs on their way to a worker: they keep their names, and their content is checked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="sweeps over processes need distributed")

from mlf_sdk.sweep.identity import digest_of
from mlf_sdk.sweep.travel import pack, unpack


def folder_of(path: Path) -> Path:
    (path / "include").mkdir(parents=True)
    (path / "model.weights.bin").write_bytes(bytes(range(64)))
    (path / "include" / "model.h").write_text("int model(void);\n")
    return path


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_an_input_keeps_its_name(tmp_path: Path, kind: str) -> None:
    """Tables and journals name an archive by the end of its path, wherever a cell ran."""
    source = folder_of(tmp_path / "my-bundle")
    if kind == "file":
        source = source / "model.weights.bin"
    digest = digest_of(source)
    found = Path(unpack(digest, pack(str(source)), tmp_path / "store"))
    assert (found.name, digest_of(found)) == (source.name, digest)


def test_equal_inputs_with_other_names_lie_beside_each_other(tmp_path: Path) -> None:
    one = folder_of(tmp_path / "one")
    two = Path(shutil.copytree(one, tmp_path / "two"))
    store = tmp_path / "store"
    found = [Path(unpack(digest_of(path), pack(str(path)), store)) for path in (one, two, one)]
    assert [path.name for path in found] == ["one", "two", "one"]
    assert all(digest_of(path) == digest_of(one) for path in found)


def test_a_damaged_copy_is_made_anew(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "my-bundle")
    digest, store = digest_of(source), tmp_path / "store"
    found = Path(unpack(digest, pack(str(source)), store))
    (found / "model.weights.bin").write_bytes(b"cut")
    assert digest_of(unpack(digest, pack(str(source)), store)) == digest
