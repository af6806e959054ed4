# SPDX-License-Identifier: Apache-2.0
"""The data folders are found in an installed package and in a source checkout."""

from __future__ import annotations

import pytest

from mlf_sdk.errors import ToolError
from mlf_sdk.resources import data_dir


@pytest.mark.parametrize("name", ["board_templates", "crt", "qemu"])
def test_found_here(name):
    assert any(data_dir(name).iterdir())


def test_in_a_checkout(tmp_path):
    package = tmp_path / "sdk" / "mlf_sdk"
    package.mkdir(parents=True)
    (tmp_path / "crt").mkdir()
    with pytest.raises(ToolError, match="'crt' is missing"):  # a folder by chance, no checkout
        data_dir("crt", package=package)
    (tmp_path / "pyproject.toml").touch()
    assert data_dir("crt", package=package) == tmp_path / "crt"


def test_an_installed_one_goes_first(tmp_path):
    package = tmp_path / "sdk" / "mlf_sdk"
    (package / "_data" / "crt").mkdir(parents=True)
    (tmp_path / "crt").mkdir()
    (tmp_path / "pyproject.toml").touch()
    assert data_dir("crt", package=package) == package / "_data" / "crt"


def test_a_broken_installation(tmp_path):
    with pytest.raises(ToolError, match="'qemu' is missing") as caught:
        data_dir("qemu", package=tmp_path / "site" / "mlf_sdk")
    assert "Install mlf-sdk again" in caught.value.hint
