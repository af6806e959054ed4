# SPDX-License-Identifier: Apache-2.0
"""Flashing and signing of Zephyr projects: a stand-in for west records how it is called, and fails in every way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mlf_sdk
from mlf_sdk.cli.main import main
from mlf_sdk.errors import InputError, MlfError, ToolError
from mlf_sdk.pipeline.flash import FlashReport, flash
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.targets.flashers.errors import (
    NoProbeError,
    NoRunnerError,
    RunnerFailedError,
    RunnerMissingError,
)
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.targets.zephyr.output import read_runners
from mlf_sdk.targets.zephyr.sign import SigningError
from zephyr_flash_helpers import DATA, RUNNERS, FakeWest, fake_build, touch_later
from zephyr_trees import MakeTree, put, zephyr_options

MCUBOOT = "CONFIG_BOOTLOADER_MCUBOOT=y\n"


class Bench:
    """A project that claims to be built, and a stand-in for west."""

    def __init__(self, tmp_path: Path, tiny: Path, make_tree: MakeTree, patch: pytest.MonkeyPatch) -> None:
        self.west = FakeWest(tmp_path / "bench")
        self.base = make_tree("4.1.0")
        self.home = tmp_path / "home"
        self.app = (tmp_path / "app").resolve()
        patch.setenv("PATH", str(self.west.bin))
        options: dict[str, Any] = {"app": "standalone"}
        name = "nrf52840dk_nrf52840"
        mlf_sdk.generate(
            tiny, self.app, board=name, platform="zephyr", **options, **zephyr_options(self.setup())
        )
        self.build = fake_build(self.app)

    def setup(self, **changes: Any) -> ZephyrSetup:
        environ = {"PATH": str(self.west.bin)}
        return ZephyrSetup(base=self.base, environ=environ, home=self.home, **changes)

    def flash(self, **options: Any) -> FlashReport:
        return flash(self.app, **zephyr_options(self.setup()), unproven_ok=True, **options)

    def fails(self, kind: type[MlfError], match: str | None, **options: Any) -> MlfError:
        with pytest.raises(kind, match=match) as caught:
            self.flash(**options)
        return caught.value

    def key(self) -> Path:
        put(self.app.parent / "key.pem", "key")
        return self.app.parent / "key.pem"


@pytest.fixture
def bench(tmp_path: Path, tiny: Path, make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, tiny, make_tree, monkeypatch)


# ---- how west is called ----


def test_outside_a_workspace_west_gets_one_of_the_moment(bench: Bench):
    report = bench.flash()
    (call,) = bench.west.calls
    assert call["argv"] == ["flash", "--skip-rebuild", "-d", str(bench.build)]
    assert call["base"] == call["links"] == str(bench.base)
    assert "path = zephyr" in call["config"]
    assert not Path(call["cwd"]).exists()
    assert (report.runner.name, report.run.image_bytes) == ("nrfjprog", len(DATA))
    assert not report.proven
    assert "answers no requests" in report.unproven


def test_a_chosen_runner_and_its_arguments(bench: Bench):
    bench.flash(runner="jlink", extra=("--reset", "--speed=1000"))
    assert bench.west.calls[0]["argv"][2:] == [
        "-d", str(bench.build), "-r", "jlink", "--reset", "--speed=1000",
    ]  # fmt: skip


def test_in_a_workspace_west_runs_there(bench: Bench):
    put(bench.app.parent / ".west/config", "[manifest]\n")
    bench.flash()
    assert bench.west.calls[0]["cwd"] == str(bench.app.parent)


def test_a_workspace_that_does_not_know_flash(bench: Bench):
    """Its manifest lacks Zephyr's commands: the tree's own are taken."""
    put(bench.app.parent / ".west/config", "[manifest]\n")
    bench.west.plan(flash={"err": 'west: unknown command "flash"', "code": 1})
    bench.fails(RunnerFailedError, "exit code 1")
    assert [Path(c["cwd"]) == bench.app.parent for c in bench.west.calls] == [True, False]


def test_the_output_is_told_line_by_line(bench: Bench, tmp_path: Path):
    """The tool ends only after somebody has seen what it says first."""
    seen = tmp_path / "seen"
    bench.west.plan(flash={"out": "erasing\nwriting 50 %", "until": str(seen), "err": "done"})
    told: list[str] = []

    class Watch(Progress):
        shows_log = True

        def log(self, line: str) -> None:
            told.append(line)
            seen.touch()

    bench.flash(progress=Watch())
    assert told == ["erasing", "writing 50 %", "done"]


def test_the_command_line(bench: Bench, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(bench.home))
    bench.west.plan(flash={"out": "Flashing [bold]"})
    argv = ["flash", str(bench.app), "--zephyr-base", str(bench.base), "--runner", "jlink"]
    assert main([*argv, "--", "--reset"]) == 2
    assert "nothing can prove that the board will run the image" in capfd.readouterr().err
    assert bench.west.calls == []
    assert main([*argv, "--unproven-ok", "--", "--reset"]) == 0
    shown = capfd.readouterr()
    assert "Flashing [bold]" in shown.err
    assert "8 B to nrf52840dk_nrf52840 with jlink" in shown.out
    assert bench.west.calls[0]["argv"][-3:] == ["-r", "jlink", "--reset"]
    assert main([*argv[:4], "--unproven-ok", "--json"]) == 0
    shown = capfd.readouterr()
    assert shown.err == ""
    assert '"runner": "nrfjprog"' in shown.out


# ---- what can be wrong before it starts ----


def test_no_runner_for_the_board(bench: Bench):
    fake_build(bench.app).joinpath("zephyr/runners.yaml").unlink()
    error = bench.fails(NoRunnerError, "Zephyr has no flash runner for this board")
    assert error.exit_code == 2
    assert "gdb_runner.cmake" in error.hint
    put(bench.build / "zephyr/runners.yaml", RUNNERS.replace("flash-runner: nrfjprog", ""))
    assert "--runner NAME" in bench.fails(NoRunnerError, "no flash runner").hint
    assert bench.west.calls == []


def test_a_runner_that_the_board_has_not(bench: Bench):
    error = bench.fails(NoRunnerError, "the board has no runner 'openocd'", runner="openocd")
    assert "nrfjprog, jlink, misc-flasher" in error.hint


def test_an_argument_that_is_a_number(bench: Bench):
    error = bench.fails(InputError, "west fails on the argument '3333'", runner="misc-flasher")
    assert "localhost:3333" in error.hint


def test_it_is_not_built(bench: Bench):
    (bench.build / "zephyr/zephyr.elf").unlink()
    bench.fails(InputError, "not built")


def test_a_program_of_this_machine(bench: Bench, tiny: Path):
    mlf_sdk.generate(
        tiny,
        bench.app.parent / "native",
        board="native_sim",
        platform="zephyr",
        **zephyr_options(bench.setup()),
    )
    with pytest.raises(InputError, match="nothing has to be flashed"):
        flash(bench.app.parent / "native", **zephyr_options(bench.setup()))


def test_a_row_of_a_runner_is_for_bare_metal(bench: Bench):
    bench.fails(InputError, "runners of its own", runner_file="x.toml")


def test_west_is_not_installed(bench: Bench):
    (bench.west.bin / "west").unlink()
    error = bench.fails(RunnerMissingError, "'west' is not installed")
    assert "pip install west" in error.hint
    assert error.exit_code == 3


# ---- what can go wrong ----


def test_the_program_of_the_runner_is_missing(bench: Bench):
    err = "FATAL ERROR: required program nrfjprog not found; install it or add its location to PATH"
    bench.west.plan(flash={"err": err, "code": 1})
    assert bench.fails(RunnerMissingError, "'nrfjprog' is not installed").exit_code == 3


@pytest.mark.parametrize(
    ("runner", "said"),
    [
        (None, "ERROR: There is no debugger connected to the PC."),
        (None, "Error: Unable to connect to a debugger"),
        ("jlink", "FATAL ERROR: Connecting to J-Link via USB...FAILED: Cannot connect to J-Link."),
        (None, "Waiting for a debug probe to be connected..."),
        (None, "dfu-util: No DFU capable USB device available"),
    ],
)
@pytest.mark.parametrize("code", [0, 1])
def test_no_probe(bench: Bench, runner: str | None, said: str, code: int):
    bench.west.plan(flash={"out": "-- west flash: using runner", "err": said, "code": code})
    error = bench.fails(NoProbeError, None, runner=runner)
    assert error.exit_code == 4
    assert said in error.what
    assert ("although the exit code is 0" in error.what) == (code == 0)


def test_a_runner_that_waits_for_a_probe_for_ever(bench: Bench):
    bench.west.plan(flash={"out": "Waiting for a debug probe to be connected...", "seconds": 86_400})
    bench.fails(NoProbeError, "did not end within", timeout_s=1.5)


def test_a_runner_that_hangs(bench: Bench):
    bench.west.plan(flash={"out": "Programming...", "seconds": 60})
    error = bench.fails(RunnerFailedError, "did not end within", timeout_s=1.5)
    assert "Programming..." in error.what
    assert error.exit_code == 3


def test_a_runner_that_fails(bench: Bench):
    bench.west.plan(flash={"err": "something odd", "code": 7})
    error = bench.fails(RunnerFailedError, "failed with exit code 7")
    assert "something odd" in error.what
    assert "west flash --skip-rebuild" in error.where


@pytest.mark.parametrize(
    "said",
    [
        "Error erasing flash with vFlashErase packet",
        "Load failed",
        "ERROR: flash write failed",
        "MIS-MATCHED!",
    ],
)
def test_a_runner_that_fails_with_exit_code_0(bench: Bench, said: str):
    bench.west.plan(flash={"out": said})
    error = bench.fails(RunnerFailedError, "although the exit code is 0")
    assert said in error.what


def test_an_output_that_was_watched_is_not_shown_again(bench: Bench):
    bench.west.plan(flash={"err": "something odd", "code": 7})
    watched = Progress()
    watched.shows_log = True
    assert "something odd" not in bench.fails(RunnerFailedError, "code 7", progress=watched).what


def test_wests_python_lacks_a_package(bench: Bench):
    bench.west.plan(flash={"err": "ModuleNotFoundError: No module named 'elftools'", "code": 1})
    assert "scripts/requirements.txt" in bench.fails(ToolError, "lacks the package 'elftools'").hint


def test_an_argument_that_the_runner_does_not_know(bench: Bench):
    err = "FATAL ERROR: runner nrfjprog received unknown arguments: ['--x']"
    bench.west.plan(flash={"err": err, "code": 1})
    bench.fails(RunnerFailedError, "does not know the arguments", extra=("--x",))


# ---- signing ----


def sign(bench: Bench, key: Path, **plan: Any) -> FlashReport:
    fake_build(bench.app, config=MCUBOOT)
    plan.setdefault("writes", ["zephyr.signed.hex", "zephyr.signed.bin"])
    bench.west.plan(sign=plan)
    return bench.flash(sign=key)


def test_the_signed_image_is_flashed(bench: Bench):
    key = bench.key()
    sign(bench, key)
    signing, flashing = (call["argv"] for call in bench.west.calls)
    assert signing == ["sign", "-t", "imgtool", "-d", str(bench.build), "--", "--key", str(key)]
    assert flashing[4:] == [
        f"--hex-file={bench.build}/zephyr/zephyr.signed.hex",
        f"--bin-file={bench.build}/zephyr/zephyr.signed.bin",
    ]
    bench.flash()  # signed still
    assert bench.west.calls[2]["argv"] == flashing


def test_an_image_that_must_be_signed_and_is_not(bench: Bench):
    fake_build(bench.app, config=MCUBOOT)
    assert "--sign KEY" in bench.fails(InputError, "not signed: it would not start").hint
    assert bench.west.calls == []


def test_an_image_that_was_built_again(bench: Bench):
    sign(bench, bench.key())
    touch_later(bench.build / "zephyr/zephyr.hex")
    bench.fails(InputError, "built again after it was signed")
    assert len(bench.west.calls) == 2


def test_no_such_key(bench: Bench):
    assert "imgtool keygen" in bench.fails(InputError, "no such key", sign=bench.app / "none.pem").hint


def test_an_image_that_is_not_for_mcuboot(bench: Bench):
    error = bench.fails(InputError, "not linked for the bootloader MCUboot", sign=bench.key())
    assert "CONFIG_BOOTLOADER_MCUBOOT=y" in error.hint


def test_a_runner_that_takes_no_signed_image(bench: Bench):
    put(bench.build / "zephyr/runners.yaml", RUNNERS.replace("    - 3333\n", ""))
    put(bench.build / "zephyr/.config", MCUBOOT)
    bench.west.plan(sign={"writes": ["zephyr.signed.bin"]})
    bench.fails(InputError, "flashes the image that is not signed", sign=bench.key(), runner="misc-flasher")
    assert [call["argv"][0] for call in bench.west.calls] == ["sign"]


@pytest.mark.parametrize(
    ("plan", "match", "hint"),
    [
        (
            {"err": "FATAL ERROR: imgtool not found; either install it", "code": 1},
            "'imgtool' is not installed",
            "pip",
        ),
        (
            {"err": "FATAL ERROR: DT zephyr,flash chosen node has no partitions,", "code": 1},
            "exit code 1",
            "overlay",
        ),
        ({"writes": []}, "wrote no zephyr.signed.hex", "CONFIG_BUILD_OUTPUT_HEX"),
        ({"err": "Invalid key", "code": 2}, "Invalid key", ""),
    ],
)
def test_signing_fails(bench: Bench, plan: dict[str, Any], match: str, hint: str):
    with pytest.raises(SigningError, match=match) as caught:
        sign(bench, bench.key(), **plan)
    assert hint in caught.value.hint
    assert caught.value.exit_code == 3
    assert len(bench.west.calls) == 1


def test_only_zephyr_projects_are_signed(bench: Bench, tiny: Path, tmp_path: Path):
    mlf_sdk.generate(tiny, tmp_path / "bare", board="mps2-an386")
    with pytest.raises(InputError, match="only the images of Zephyr"):
        flash(tmp_path / "bare", sign=bench.key(), runner="gdb", port="x")
    for name in ("cmake", "ninja", "arm-none-eabi-gcc", "arm-none-eabi-objcopy"):
        (bench.west.bin / name).write_text("#!/bin/sh\n")
        (bench.west.bin / name).chmod(0o755)
    with pytest.raises(InputError, match="only the images of Zephyr"):
        mlf_sdk.build(tmp_path / "bare", sign=bench.key())


def test_build_signs(bench: Bench):
    """cmake is a stand-in that succeeds; what it would have built is there already."""
    for name in ("cmake", "ninja", "arm-none-eabi-gcc", "arm-none-eabi-objcopy"):
        (bench.west.bin / name).write_text("#!/bin/sh\n")
        (bench.west.bin / name).chmod(0o755)
    fake_build(bench.app, config=MCUBOOT)
    stub = f"#!/bin/sh\nprintf '{MCUBOOT.strip()}\\n' > {bench.build}/zephyr/.config\n"
    (bench.west.bin / "cmake").write_text(
        f"#!/bin/sh\n[ -d {bench.build}/zephyr ] || PATH=/bin:/usr/bin mkdir -p {bench.build}/zephyr\n" + stub
    )
    bench.west.plan(sign={"writes": ["zephyr.signed.hex"]})
    key = bench.key()
    built = mlf_sdk.build(bench.app, sign=key, **zephyr_options(bench.setup(use_west=False)))
    assert [path.name for path in built.signed] == ["zephyr.signed.hex"]
    (call,) = bench.west.calls
    assert call["argv"][:3] == ["sign", "-t", "imgtool"]
    with pytest.raises(InputError, match="no such key"):
        mlf_sdk.build(bench.app, sign=bench.app / "none.pem", **zephyr_options(bench.setup()))


# ---- runners.yaml ----


def test_runners_of_a_build(bench: Bench, tmp_path: Path):
    found = read_runners(bench.build)
    assert found.names == ("nrfjprog", "jlink", "misc-flasher")
    assert found.default == "nrfjprog"
    assert found.config["hex_file"] == "zephyr.hex"
    assert found.args["jlink"] == ("--dt-flash=y", "--device=nRF52840_xxAA", "--speed=4000")
    assert found.args["nrfjprog"] == ()
    assert read_runners(tmp_path / "none").names == ()
