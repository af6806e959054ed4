# SPDX-License-Identifier: Apache-2.0
"""How a project is built: cmake and west are stand-ins on PATH that record how they were called."""

from __future__ import annotations

from pathlib import Path

import pytest

import mlf_sdk
from mlf_sdk.errors import InputError, MlfError, ToolError
from mlf_sdk.targets.zephyr.build import ZephyrSetup, build_environment
from zephyr_bench import Bench, make_app, setup_of
from zephyr_trees import MakeTree, put, zephyr_options


def test_plain_cmake(
    bench: Bench, make_tree: MakeTree, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    base = make_tree("4.1.0")
    app = make_app(tiny, tmp_path / "app", base)
    module = tmp_path / "cmsis"
    module.mkdir()
    setup = setup_of(base, modules=(module,))
    monkeypatch.setenv("ZEPHYR_MODULES", "/m/one;/m/two")
    built = mlf_sdk.build(app, **zephyr_options(setup))
    assert built.elf == app / "build/zephyr/zephyr.elf"
    configure, make = bench.calls
    assert configure["argv"] == [
        "cmake", "-GNinja", "-S", str(app), "-B", f"{app}/build", "-DBOARD=mps2/an385",
        f"-DUSER_CACHE_DIR={app}/build/cache", f"-DZEPHYR_MODULES={module};/m/one;/m/two",
    ]  # fmt: skip
    assert configure["env"] == {
        "ZEPHYR_BASE": str(base),
        "ZEPHYR_TOOLCHAIN_VARIANT": "gnuarmemb",
        "GNUARMEMB_TOOLCHAIN_PATH": str(bench.folder),
        "CCACHE_DISABLE": "1",
    }
    assert make["argv"] == ["cmake", "--build", f"{app}/build"]


def test_without_modules_the_project_is_the_only_one(
    bench: Bench, make_tree: MakeTree, tiny: Path, tmp_path: Path
):
    base = make_tree("3.2.0")
    app = make_app(tiny, tmp_path / "app", base)
    mlf_sdk.build(app, **zephyr_options(setup_of(base)))
    assert f"-DZEPHYR_MODULES={app}" in bench.calls[0]["argv"]
    assert "-DBOARD=mps2_an385" in bench.calls[0]["argv"]


def test_it_is_configured_once_and_again_when_the_tree_changes(
    bench: Bench, make_tree: MakeTree, tiny: Path, tmp_path: Path
):
    old, new = make_tree("3.2.0"), make_tree("4.1.0")
    app = make_app(tiny, tmp_path / "app", new)
    for base in (new, new, old):
        mlf_sdk.build(app, **zephyr_options(setup_of(base)))
    configured = [call["argv"] for call in bench.calls if "-GNinja" in call["argv"]]
    assert len(bench.calls) == 5
    assert ["-DBOARD=mps2/an385" in argv for argv in configured] == [True, False]


@pytest.mark.parametrize("place", ["project", "tree"])
def test_west_in_a_workspace(place: str, bench: Bench, make_tree: MakeTree, tiny: Path, tmp_path: Path):
    base = make_tree("4.1.0")
    top = tmp_path / "work" if place == "project" else base
    put(top / ".west/config")
    app = make_app(tiny, (tmp_path / "work" / "app"), base)
    bench.add("west")
    module = tmp_path / "more"
    module.mkdir()
    mlf_sdk.build(app, **zephyr_options(setup_of(base, modules=(module,))))
    configure, make = bench.calls
    assert configure["argv"] == [
        "west", "build", "--cmake-only", "-d", f"{app}/build", "-b", "mps2/an385", str(app), "--",
        f"-DUSER_CACHE_DIR={app}/build/cache", f"-DEXTRA_ZEPHYR_MODULES={module}",
    ]  # fmt: skip
    assert make["argv"] == ["west", "build", "-d", f"{app}/build"]
    assert configure["cwd"] == str(top)


def test_the_projects_own_image_where_sysbuild_is_the_default(
    bench: Bench, make_tree: MakeTree, tiny: Path, tmp_path: Path
):
    base = make_tree("4.1.0")
    put(base / ".west/config")
    put(base / "share/sysbuild/Kconfig")
    app = make_app(tiny, tmp_path / "app", base)
    bench.add("west")
    mlf_sdk.build(app, **zephyr_options(setup_of(base)))
    assert bench.calls[0]["argv"][:4] == ["west", "build", "--cmake-only", "--no-sysbuild"]


def test_images_of_sysbuild_are_left_to_west(make_tree: MakeTree, tiny: Path, tmp_path: Path):
    app = make_app(tiny, tmp_path / "app", make_tree("4.1.0"))
    put(app / "build/domains.yaml")
    with pytest.raises(InputError, match="built with sysbuild") as caught:
        mlf_sdk.check(app)
    assert "west flash" in caught.value.hint


def test_no_west_when_it_is_not_wanted_or_not_there(
    bench: Bench, make_tree: MakeTree, tiny: Path, tmp_path: Path
):
    base = make_tree("4.1.0")
    put(tmp_path / ".west/config")
    app = make_app(tiny, tmp_path / "app", base)
    mlf_sdk.build(app, **zephyr_options(setup_of(base)))
    bench.add("west")
    mlf_sdk.build(app, **zephyr_options(setup_of(base, use_west=False)))
    assert {call["argv"][0] for call in bench.calls} == {"cmake"}


def test_west_is_wanted_and_there_is_no_workspace(
    bench: Bench, make_tree: MakeTree, tiny: Path, tmp_path: Path
):
    base = make_tree("4.1.0")
    bench.add("west")
    app = make_app(tiny, tmp_path / "app", base)
    with pytest.raises(InputError, match="west workspace") as caught:
        mlf_sdk.build(app, **zephyr_options(setup_of(base, use_west=True)))
    assert caught.value.where == "--west"


def test_west_is_wanted_and_not_installed(bench: Bench, make_tree: MakeTree, tiny: Path, tmp_path: Path):
    base = make_tree("4.1.0")
    put(tmp_path / ".west/config")
    app = make_app(tiny, tmp_path / "app", base)
    with pytest.raises(ToolError, match="'west' is not installed"):
        mlf_sdk.build(app, **zephyr_options(setup_of(base, use_west=True)))


def test_a_module_that_is_not_there(bench: Bench, make_tree: MakeTree, tiny: Path, tmp_path: Path):
    base = make_tree("4.1.0")
    app = make_app(tiny, tmp_path / "app", base)
    with pytest.raises(InputError, match="no such folder"):
        mlf_sdk.build(app, **zephyr_options(setup_of(base, modules=(tmp_path / "none",))))


def test_a_library_is_not_built(bench: Bench, make_tree: MakeTree, tiny: Path, tmp_path: Path):
    base = make_tree("4.1.0")
    app = make_app(tiny, tmp_path / "lib", base, board="any", app="library")
    with pytest.raises(InputError, match="nothing to build"):
        mlf_sdk.build(app, **zephyr_options(setup_of(base)))
    assert bench.calls == []


@pytest.mark.parametrize(
    ("says", "what", "hint"),
    [
        ("ModuleNotFoundError: No module named 'elftools'", "failed with exit code", "requirements.txt"),
        ("No board named 'x' found.", "failed with exit code", "west boards"),
        ("fatal error: core_cm3.h: No such file or directory", "core_cm3.h", "--zephyr-module"),
        ("CMake Error: ZEPHYR_TOOLCHAIN_VARIANT not set", "failed", "Zephyr SDK"),
        (
            "bin/ld.bfd: cannot find -lm: No such file or directory",
            "cannot find -lm",
            "no libraries for the CPU",
        ),
        (
            "warning: attempt to assign to FOO\n\nerror: Aborting due to Kconfig warnings",
            "refuses the options: attempt to assign to FOO",
            "prj.conf",
        ),
        (
            "warning: HAS_RPI_PICO (defined at modules/hal_rpi_pico/Kconfig:4) has direct dependencies 0 with "
            "value n, but is currently being y-selected\n\nerror: Aborting due to Kconfig warnings",
            "Zephyr's module hal_rpi_pico is missing",
            "west update hal_rpi_pico",
        ),
        (
            "warning: SWO_FREQ (defined at soc/st/Kconfig:39) defined without a type\n\n"
            "error: Aborting due to Kconfig warnings",
            "refuses the options: SWO_FREQ",
            "No option of the project is the cause",
        ),
        (
            "warning: UART_CONSOLE (defined at drivers/console/Kconfig:40) was assigned the value y but got n"
            "\n\nerror: Aborting due to Kconfig warnings",
            "refuses the options: UART_CONSOLE",
            "Correct prj.conf",
        ),
        ("region `RAM' overflowed by 1234 bytes", "does not fit: RAM overflows by 1,234", "more memory"),
        ("error: x.c: wrong\n" + "x" * 9000, "x.c: wrong", "kept"),
    ],
)
def test_what_a_failed_build_says(
    says: str, what: str, hint: str, bench: Bench, make_tree: MakeTree, tiny: Path, tmp_path: Path
):
    base = make_tree("4.1.0")
    app = make_app(tiny, tmp_path / "app", base)
    bench.say(says)
    with pytest.raises(MlfError) as caught:
        mlf_sdk.build(app, **zephyr_options(setup_of(base)))
    assert what in caught.value.what
    assert hint in caught.value.hint
    assert len(caught.value.what) < 3000


@pytest.mark.parametrize("place", ["prj.conf", "mine.conf", "boards/mps2_an385.conf"])
@pytest.mark.parametrize("is_told", [True, False])
def test_a_refused_option_is_corrected_where_it_is_set(
    place: str, is_told: bool, bench: Bench, make_tree: MakeTree, tiny: Path, tmp_path: Path
):
    """Kconfig names the file of an option that does not exist, not that of one that can not be set."""
    base = make_tree("4.1.0")
    app = make_app(tiny, tmp_path / "app", base)
    put(app / place, "CONFIG_SERIAL=y\nCONFIG_NO_SUCH=y\n")
    put(app / "build/CMakeCache.txt", "EXTRA_CONF_FILE:UNINITIALIZED=mine.conf\n")
    symbol = f"{app}/{place}:2: warning: attempt to assign the value 'y' to the undefined symbol NO_SUCH"
    unmet = "warning: NO_SUCH (defined at drivers/Kconfig:4) was assigned the value y but got n"
    bench.say(f"{symbol if is_told else unmet}\n\nerror: Aborting due to Kconfig warnings\n")
    with pytest.raises(ToolError) as caught:
        mlf_sdk.build(app, **zephyr_options(setup_of(base)))
    where = f"{app}/{place}:2" if is_told else f"{app}/{place}"
    short = "Correct prj.conf, or move it away"
    assert caught.value.hint.startswith(short if place == "prj.conf" and not is_told else f"Correct {where}.")
    assert not is_told or caught.value.where == where


def test_a_refused_option_of_the_command_line(bench: Bench, make_tree: MakeTree, tiny: Path, tmp_path: Path):
    base = make_tree("4.1.0")
    app = make_app(tiny, tmp_path / "app", base)
    put(app / "build/CMakeCache.txt", "CONFIG_NO_SUCH:UNINITIALIZED=y\n")
    place = f"{app}/build/zephyr/misc/generated/extra_kconfig_options.conf:3"
    symbol = f"{place}: warning: attempt to assign the value 'y' to the undefined symbol NO_SUCH"
    bench.say(f"{symbol}\n\nerror: Aborting due to Kconfig warnings\n")
    with pytest.raises(ToolError) as caught:
        mlf_sdk.build(app, **zephyr_options(setup_of(base)))
    assert "-DCONFIG_NO_SUCH=y was given" in caught.value.hint and "-UCONFIG_NO_SUCH" in caught.value.hint
    assert caught.value.where == str(app)


@pytest.mark.parametrize(
    ("environ", "native", "sdk", "expected"),
    [
        ({}, False, False, {"ZEPHYR_TOOLCHAIN_VARIANT": "gnuarmemb", "GNUARMEMB_TOOLCHAIN_PATH": "/opt/arm"}),
        ({}, True, False, {"ZEPHYR_TOOLCHAIN_VARIANT": "host"}),
        ({}, False, True, {}),
        ({"ZEPHYR_TOOLCHAIN_VARIANT": "llvm"}, False, False, {"ZEPHYR_TOOLCHAIN_VARIANT": "llvm"}),
        ({"ZEPHYR_SDK_INSTALL_DIR": "/sdk"}, False, False, {"ZEPHYR_SDK_INSTALL_DIR": "/sdk"}),
    ],
)
def test_toolchains(
    environ: dict[str, str],
    native: bool,
    sdk: bool,
    expected: dict[str, str],
    make_tree: MakeTree,
    tmp_path: Path,
):
    home = tmp_path / "home"
    (home / ("zephyr-sdk-0.17.0" if sdk else "other")).mkdir(parents=True)
    setup = ZephyrSetup(base=make_tree("4.1.0"), environ=environ, home=home)
    found = build_environment(
        setup.tree(), setup, is_native=native, which=lambda _: "/opt/arm/bin/arm-none-eabi-gcc"
    )
    names = ("ZEPHYR_TOOLCHAIN_VARIANT", "GNUARMEMB_TOOLCHAIN_PATH", "ZEPHYR_SDK_INSTALL_DIR")
    assert {name: found[name] for name in names if name in found} == expected
