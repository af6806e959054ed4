# SPDX-License-Identifier: Apache-2.0
"""A package to many devices: lost ones are sent it again, each is asked at the end, refusals are of one device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dynamic_helpers import build_project
from mlf_sdk.cli.main import main
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.package import make_keys
from mlf_sdk.pipeline.request import Request
from mlf_sdk.sweep.fleet import parse_power_cuts, push_to_fleet

LAYERS = Path(__file__).parents[2] / "examples/layers/layers.tflite"

pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two devices of one list of keys, one of another, and packages 1 and 2."""
    if not Path("/usr/include/openssl/evp.h").exists():
        pytest.skip("OpenSSL's headers are not installed")
    folder = tmp_path_factory.mktemp("fleet")
    for name in ("release", "foreign"):
        make_keys(str(folder / name), str(folder / f"{name}.pem"), [])
    build_project(LAYERS, folder / "one", "host", trust=str(folder / "release.pem"))
    build_project(LAYERS, folder / "stranger", "host", trust=str(folder / "foreign.pem"))
    for version in (1, 2):
        command = ["package", str(LAYERS), "--project", str(folder / "one"), "--model-version", str(version)]
        own = ["--key", str(folder / "release.key"), "-o", str(folder / f"{version}.mlfp")]
        assert main([*command, *own]) == 0
    return folder


def fleet(
    folder: Path, package: str, *more: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[dict[str, Any]]]:
    capsys.readouterr()
    code = main(["sweep", "push", str(folder / package), *more, "--json"])
    return code, json.loads(capsys.readouterr().out)["devices"]


def test_one_that_loses_power_is_sent_it_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = str(folder / "one")
    code, (said,) = fleet(folder, "1.mlfp", one, "--cut-power", f"{one}:1000", capsys=capsys)
    assert code == 0
    assert (said["before"], said["version"], said["pushes"], said["ok"]) == (0, 1, 2, True)
    assert "power cut after" in said["losses"][0]
    code, (said,) = fleet(folder, "1.mlfp", one, capsys=capsys)
    assert (code, said["before"], said["version"], said["sent_bytes"]) == (0, 1, 1, 0)
    cut = ("--cut-power", f"{one}:1", "--tries", "1")
    code, (said,) = fleet(folder, "2.mlfp", one, *cut, capsys=capsys)
    assert (code, said["ok"], said["losses"]) == (1, False, [])
    assert "power cut after" in said["error"]
    code, (said,) = fleet(folder, "2.mlfp", one, capsys=capsys)
    assert (code, said["before"], said["version"]) == (0, 1, 2)  # the cut had left the old version


def test_a_refusal_is_that_of_one_device(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    devices = (str(folder / "stranger"), str(folder / "one"), str(folder / "no_port"))
    code, said = fleet(folder, "2.mlfp", *devices, "--jobs", "3", "--tries", "2", capsys=capsys)
    assert code == 1
    assert [one["ok"] for one in said] == [False, True, False]
    assert "KEY" in said[0]["error"]
    assert (said[0]["before"], said[0]["version"]) == (0, 0)
    assert said[2]["error"]
    code, (older,) = fleet(folder, "1.mlfp", str(folder / "one"), capsys=capsys)
    assert (code, older["error"]) == (1, "version 2 in force")


def test_arguments_that_make_no_sense(folder: Path) -> None:
    one = str(folder / "one")
    for text in ("2048", f"{one}:x", f"{one}:", "elsewhere:5"):
        with pytest.raises(InputError):
            parse_power_cuts([text], [one])
    assert parse_power_cuts([f"{one}:5"], [one]) == {one: 5}
    with pytest.raises(InputError, match="twice"):
        push_to_fleet(folder / "1.mlfp", [one, one], Request())
    assert main(["sweep", "push", str(folder / "1.mlfp")]) == 2
