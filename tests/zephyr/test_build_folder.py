# SPDX-License-Identifier: Apache-2.0
"""Build folders: those that a user configured stay as they are; what a build was given is remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mlf_sdk
from mlf_sdk.cli.main import main
from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from zephyr_bench import Bench, make_app, setup_of
from zephyr_trees import MakeTree, put, version_text, zephyr_options


@pytest.fixture
def base(make_tree: MakeTree) -> Path:
    return make_tree("4.1.0")


@pytest.fixture
def app(bench: Bench, base: Path, tiny: Path, tmp_path: Path) -> Path:
    return make_app(tiny, tmp_path / "app", base)


def build(app: Path, base: Path, **changes: Any) -> Path:
    return mlf_sdk.build(app, **zephyr_options(setup_of(base, **changes))).elf


def users_build(folder: Path, app: Path, board: str = "mps2/an385") -> Path:
    """A build folder as `west build -- -DEXTRA_CONF_FILE=mine.conf` leaves it."""
    text = f"BOARD:STRING={board}\nCMAKE_HOME_DIRECTORY:INTERNAL={app}\nEXTRA_CONF_FILE:STRING=mine.conf\n"
    put(folder / "CMakeCache.txt", text)
    put(folder / "zephyr/.config", "CONFIG_MLF=y\nCONFIG_MINE=y\n")
    put(folder / "zephyr/zephyr.elf")
    put(folder / "build.ninja")
    return folder


def test_a_folder_that_a_user_configured_is_built_as_it_is(bench: Bench, app: Path, base: Path) -> None:
    folder = users_build(app / "build", app)
    before = {path: path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert build(app, base) == folder / "zephyr/zephyr.elf"
    assert [call["argv"] for call in bench.calls] == [["cmake", "--build", str(folder)]]
    assert all(path.read_text() == text for path, text in before.items() if path.name != "CMakeCache.txt")
    assert "EXTRA_CONF_FILE:STRING=mine.conf" in (folder / "CMakeCache.txt").read_text()


def test_options_are_added_to_what_a_user_configured(bench: Bench, app: Path, base: Path) -> None:
    folder = users_build(app / "build", app)
    build(app, base, cmake_args=("-DSHIELD=x", "-DEXTRA_CONF_FILE=mine.conf"))
    build(app, base)
    assert [call["argv"] for call in bench.calls] == [
        ["cmake", "-DSHIELD=x", str(folder)],
        ["cmake", "--build", str(folder)],
        ["cmake", "--build", str(folder)],
    ]


def test_options_are_dropped_from_what_a_user_configured(bench: Bench, app: Path, base: Path) -> None:
    """Zephyr keeps an option of Kconfig that was given to CMake by another name; that is no new one."""
    folder = users_build(app / "build", app)
    cache = folder / "CMakeCache.txt"
    build(app, base, cmake_args=("-DCONFIG_LOG=y",))
    applied = cache.read_text().replace("CONFIG_LOG:STRING", "CLI_CONFIG_LOG:STRING")
    put(cache, applied)
    build(app, base)
    assert cache.read_text() == applied
    build(app, base, cmake_args=("-UCONFIG_LOG",))
    argv = [call["argv"] for call in bench.calls if "--build" not in call["argv"]]
    assert argv == [["cmake", "-DCONFIG_LOG=y", str(folder)], ["cmake", "-UCLI_CONFIG_LOG", str(folder)]]


def test_what_a_user_failed_to_configure_is_configured_with_his_options(
    bench: Bench, app: Path, base: Path
) -> None:
    folder = users_build(app / "build", app)
    (folder / "build.ninja").unlink()
    build(app, base)
    build(app, base)
    assert [call["argv"] for call in bench.calls] == [
        ["cmake", str(folder)],
        ["cmake", "--build", str(folder)],
        ["cmake", "--build", str(folder)],
    ]


@pytest.mark.parametrize("changed", ["CMakeCache.txt", "zephyr/.config"])
def test_a_folder_of_the_sdk_that_was_configured_further_is_kept(
    changed: str, bench: Bench, app: Path, base: Path, make_tree: MakeTree
) -> None:
    build(app, base)
    put(app / "build" / changed, (app / "build/CMakeCache.txt").read_text() + "SHIELD:STRING=x\n")
    put(app / "build/notes.txt", "mine")
    build(app, make_tree("4.2.0"))
    assert (app / "build/notes.txt").read_text() == "mine"
    assert "SHIELD:STRING=x" in (app / "build" / changed).read_text()


def test_the_folder_of_another_board_or_project_is_refused_not_deleted(
    bench: Bench, app: Path, base: Path, tmp_path: Path
) -> None:
    folder = users_build(app / "build", app, board="nrf52840dk/nrf52840")
    with pytest.raises(InputError, match=r"configured for the board nrf52840dk/nrf52840") as caught:
        build(app, base)
    assert "Nothing was deleted" in caught.value.hint and "--build-dir" in caught.value.hint
    users_build(folder, tmp_path / "other")
    with pytest.raises(InputError, match="the build folder is that of"):
        build(app, base)
    put(folder / "domains.yaml")
    with pytest.raises(InputError, match="built with sysbuild"):
        build(app, base)
    assert (folder / "zephyr/zephyr.elf").is_file()
    assert bench.calls == []


def test_a_folder_with_other_things_is_not_emptied(bench: Bench, app: Path, base: Path) -> None:
    put(app / "build/notes.txt", "mine")
    build(app, base)
    assert (app / "build/notes.txt").read_text() == "mine"
    assert "-GNinja" in bench.calls[0]["argv"]


def test_what_failed_half_way_is_configured_again(bench: Bench, app: Path, base: Path) -> None:
    bench.say("stopped")
    with pytest.raises(ToolError):
        build(app, base)
    put(app / "build/CMakeCache.txt", "BROKEN:STRING=x\n")
    (bench.folder / "says").unlink()
    build(app, base)
    assert "BROKEN" not in (app / "build/CMakeCache.txt").read_text()


def test_options_are_remembered(bench: Bench, app: Path, base: Path, tmp_path: Path) -> None:
    module = tmp_path / "cmsis"
    module.mkdir()
    build(app, base, cmake_args=("-DSHIELD=x", "-DCONFIG_LOG=y"), modules=(module,))
    build(app, base)
    assert len(bench.calls) == 3  # not configured again
    build(app, base, cmake_args=("-USHIELD", "-DCONFIG_LOG=n"))
    first, _, _, again, _ = (call["argv"] for call in bench.calls)
    assert first[-3:] == [f"-DZEPHYR_MODULES={module}", "-DSHIELD=x", "-DCONFIG_LOG=y"]
    assert again[-2:] == [f"-DZEPHYR_MODULES={module}", "-DCONFIG_LOG=n"]


def test_modules_given_to_generate_are_remembered(
    bench: Bench, base: Path, tiny: Path, tmp_path: Path
) -> None:
    module = tmp_path / "cmsis"
    module.mkdir()
    options = zephyr_options(setup_of(base, modules=(module,)))
    mlf_sdk.generate(tiny, tmp_path / "app", board="mps2_an385", platform="zephyr", **options)
    build(tmp_path / "app", base)
    assert f"-DZEPHYR_MODULES={module}" in bench.calls[0]["argv"]


def test_a_build_folder_elsewhere_is_remembered(bench: Bench, app: Path, base: Path) -> None:
    elf = build(app, base, build_dir=app / "out")
    assert elf == app / "out/zephyr/zephyr.elf"
    assert build(app, base) == elf
    assert not (app / "build").exists()
    assert '"build_dir": "out"' in (app / "mlf-local.json").read_text()


def test_what_was_remembered_can_be_damaged(bench: Bench, app: Path, base: Path) -> None:
    put(app / "mlf-local.json", "{")
    with pytest.raises(InputError, match="remembered build options") as caught:
        build(app, base)
    assert "Delete the file" in caught.value.hint


@pytest.mark.parametrize("place", ["build", "out/mps2/an385"])
def test_the_image_is_found_where_west_put_it(
    place: str, bench: Bench, app: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / ".west/config", "[build]\ndir-fmt = out/{board}\n" if place != "build" else "[build]\n")
    folder = users_build(tmp_path / place, app)
    monkeypatch.chdir(tmp_path)
    assert build(app, base) == folder / "zephyr/zephyr.elf"
    users_build(tmp_path / place, tmp_path / "other")
    assert build(app, base) == app / "build/zephyr/zephyr.elf"


def test_the_command_line_takes_arguments_for_cmake(
    bench: Bench, app: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", str(app), "--zephyr-base", str(base), "--", "-DEXTRA_CONF_FILE=debug.conf"]) == 0
    assert bench.calls[0]["argv"][-1] == "-DEXTRA_CONF_FILE=debug.conf"
    assert main(["build", str(app), "--zephyr-base", str(base), "--", "--fresh"]) == 2
    assert "no argument -DNAME=VALUE" in capsys.readouterr().err


def test_a_board_that_can_not_be_started_is_refused_before_the_build(
    bench: Bench, base: Path, tiny: Path
) -> None:
    options = zephyr_options(setup_of(base))
    with pytest.raises(InputError, match="not emulated") as caught:
        mlf_sdk.run(tiny, board="nrf52840dk_nrf52840", platform="zephyr", twin=False, **options)
    assert "--port" in caught.value.hint
    assert bench.calls == []


def test_the_tree_of_the_workspace_around_the_current_folder(
    bench: Bench, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "work"
    put(top / ".west/config", "[manifest]\npath = app\n[zephyr]\nbase = deps/zephyr\n")
    put(top / "deps/zephyr/VERSION", version_text("4.1.0"))
    put(top / "app/src/x.c")
    monkeypatch.chdir(top / "app/src")
    monkeypatch.delenv("ZEPHYR_BASE", raising=False)
    assert ZephyrSetup().tree().base == top / "deps/zephyr"
    assert ZephyrSetup(environ={}, home=tmp_path).tree().base == top / "deps/zephyr"
    bench.add("west")
    mlf_sdk.generate(tiny, tmp_path / "out", board="mps2_an385", platform="zephyr")
    mlf_sdk.build(tmp_path / "out")
    assert bench.calls[0]["argv"][0] == "west" and bench.calls[0]["cwd"] == str(top)


@pytest.mark.parametrize(
    ("include", "says", "module"),
    [
        ("nordic/nrf52840_qiaa.dtsi", "warning: HAS_NRFX has direct dependencies 0", "hal_nordic"),
        ("st/f4/stm32f401Xe.dtsi", "fatal error: st/f4/stm32f401r(d-e)tx-pinctrl.dtsi", "hal_stm32"),
        ("nxp/nxp_k6x.dtsi", "fatal error: nxp/kinetis/MK64FN1M0VLL12-pinctrl.h", "hal_nxp"),
        ("raspberrypi/rpi_pico/rp2040.dtsi", "error: pico/bootrom.h: No such file", "hal_rpi_pico"),
        ("espressif/esp32/esp32_wroom.dtsi", "warning: attempt to assign to HAS_ESP", "hal_espressif"),
    ],
)
def test_a_missing_hal_is_named_with_the_command_that_brings_it(
    include: str, says: str, module: str, bench: Bench, app: Path, base: Path
) -> None:
    dts = base / "boards/vendor/x/x.dts"
    put(dts, f"/dts-v1/;\n#include <{include}>\n")
    bench.say(
        f"-- Found BOARD.dts: {dts}\n{says}\nwarning: {says}\nerror: Aborting due to Kconfig warnings\n"
    )
    with pytest.raises(ToolError, match=f"module {module} is missing") as caught:
        build(app, base)
    assert f"west update {module}" in caught.value.hint
    assert "prj.conf" not in caught.value.hint
    put(app / "build/zephyr_modules.txt", f'"{module}":"/m":"/m"\n')
    (app / "build/build.ninja").touch()
    with pytest.raises(ToolError) as caught:
        build(app, base, build_dir=app / "build")
    assert module not in caught.value.hint


def test_a_hal_that_the_workspace_can_fetch(bench: Bench, app: Path, base: Path) -> None:
    put(base / ".west/config")
    bench.add("west")
    put(base / "boards/vendor/x/x.dts", "#include <nordic/nrf52840_qiaa.dtsi>\n")
    bench.say(f"{base}/boards/vendor/x/x.dts: error\n")
    with pytest.raises(ToolError) as caught:
        build(app, base)
    assert f"cd {base} && west update hal_nordic" in caught.value.hint


def test_an_architecture_without_a_compiler(bench: Bench, base: Path, tiny: Path, tmp_path: Path) -> None:
    put(base / "boards/qemu/riscv32/qemu_riscv32.yaml", "identifier: qemu_riscv32\narch: riscv\n")
    app = make_app(tiny, tmp_path / "riscv", base, board="qemu_riscv32")
    with pytest.raises(ToolError, match="no compiler for the architecture of the board, riscv") as caught:
        build(app, base)
    assert "west sdk install" in caught.value.hint and "gcc-riscv64-unknown-elf" in caught.value.hint
    bench.add("riscv64-unknown-elf-gcc")
    build(app, base)
    assert bench.calls[0]["env"]["ZEPHYR_TOOLCHAIN_VARIANT"] == "cross-compile"


def test_an_archive_on_a_board_by_zephyrs_name_of_it(bench: Bench, base: Path, tiny: Path) -> None:
    """Its project is named by the SDK's name, mps2-an385."""
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.pipeline.request import Request

    options = zephyr_options(setup_of(base))
    request = Request(source=(str(tiny),), board="mps2_an385", platform="zephyr", **options)
    assert Pipeline().project(request).target.board.name == "mps2-an385"
