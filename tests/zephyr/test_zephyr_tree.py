# SPDX-License-Identifier: Apache-2.0
"""Trees: where they are looked for, their versions, and what they call a board."""

from __future__ import annotations

from pathlib import Path

import pytest

import mlf_sdk
from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.pipeline.options import ProofOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from mlf_sdk.sweep.proof import emulated_boards, proof_boards
from mlf_sdk.targets.zephyr.files import map_regions, zephyr_board, zephyr_naming
from mlf_sdk.targets.zephyr.profile import profile_of
from mlf_sdk.targets.zephyr.tree import ZephyrVersion, board_in, find_tree, parse_version
from zephyr_trees import MakeTree, put, version_text


def test_a_version_is_no_float():
    assert parse_version(version_text("3.10.0"), "x") > parse_version(version_text("3.7.0"), "x")
    assert str(parse_version(version_text("3.10.2"), "x")) == "3.10.2"


@pytest.mark.parametrize(
    "text", ["", "VERSION_MAJOR = 3\n", "VERSION_MAJOR = three\nVERSION_MINOR = 1\nPATCHLEVEL = 0\n"]
)
def test_a_file_without_a_version_is_an_error(text: str):
    with pytest.raises(InputError, match="VERSION_MAJOR"):
        parse_version(text, "here")


def test_what_was_given_comes_before_the_environment_and_the_home(make_tree: MakeTree, tmp_path: Path):
    given, named = make_tree("4.1.0"), make_tree("3.2.0")
    home = tmp_path / "home"
    put(home / "zephyrproject/zephyr/VERSION", version_text("3.7.0"))
    environ = {"ZEPHYR_BASE": str(named)}
    assert find_tree(given, environ, home).version == ZephyrVersion(4, 1, 0)
    assert find_tree(None, environ, home).version == ZephyrVersion(3, 2, 0)
    assert find_tree(None, {}, home).version == ZephyrVersion(3, 7, 0)


def test_no_tree_is_one_error_that_says_what_to_do(tmp_path: Path):
    with pytest.raises(ToolError, match="no Zephyr tree on this machine") as caught:
        find_tree(None, {}, tmp_path)
    assert "ZEPHYR_BASE" in caught.value.hint


@pytest.mark.parametrize("given", [True, False])
def test_a_folder_that_is_no_tree(tmp_path: Path, given: bool):
    with pytest.raises(InputError, match="no Zephyr tree here") as caught:
        find_tree(tmp_path if given else None, {"ZEPHYR_BASE": str(tmp_path)}, tmp_path)
    assert caught.value.where.startswith("--zephyr-base" if given else "ZEPHYR_BASE")


def test_a_version_that_is_too_old(make_tree: MakeTree, tmp_path: Path):
    with pytest.raises(InputError, match=r"Zephyr 2\.6\.1 is too old"):
        find_tree(make_tree("2.6.1"), {}, tmp_path)


@pytest.mark.parametrize(
    ("version", "name", "expected"),
    [
        ("3.2.0", "mps2_an385", "mps2_an385"),
        ("3.2.0", "mps2/an385", "mps2_an385"),
        ("3.2.0", "mps2/an521/cpu0", "mps2_an521"),
        ("3.2.0", "nrf52840dk/nrf52840", "nrf52840dk_nrf52840"),
        ("3.2.0", "of/my/own", "of_my_own"),
        ("4.1.0", "mps2/an385", "mps2/an385"),
        ("4.1.0", "mps2_an385", "mps2/an385"),
        ("4.1.0", "mps2_an521_cpu0", "mps2/an521/cpu0"),
        ("3.7.0", "nrf52840dk_nrf52840", "nrf52840dk/nrf52840"),
        ("4.1.0", "native_sim", "native_sim"),
        ("4.1.0", "of_my_own", "of_my_own"),
        ("4.1.0", "mps3/an547", "mps3/corstone300/an547"),
        ("4.1.0", "mps3/an547/ns", "mps3/corstone300/an547/ns"),
        ("3.7.0", "mps3/corstone300/an547", "mps3/an547"),
        ("4.1.0", "mps3/an555", "mps3/an555"),
    ],
)
def test_old_and_new_names_are_mapped_by_the_tree(
    make_tree: MakeTree, tmp_path: Path, version: str, name: str, expected: str
):
    assert board_in(find_tree(make_tree(version), {}, tmp_path), name) == expected


@pytest.mark.parametrize("name", ["", "../x", "a/../b", "a b", "a;b", "/abs", "a//b", "a/", "-x", "$(x)"])
def test_what_is_no_name_of_a_board(name: str):
    with pytest.raises(InputError, match="not a name of a Zephyr board"):
        zephyr_board(name)


@pytest.mark.parametrize("name", ["mps2-an521", "mps2_an521", "mps2/an521/cpu0", "mps2_an521_cpu0"])
@pytest.mark.parametrize(("version", "expected"), [("3.2.0", "mps2_an521"), ("4.1.0", "mps2/an521/cpu0")])
def test_a_row_is_found_by_each_of_its_names(
    make_tree: MakeTree, tmp_path: Path, name: str, version: str, expected: str
):
    board = zephyr_board(name)
    assert (board.platform, board.name) == ("zephyr", "mps2-an521")
    assert board.qemu is not None
    assert zephyr_naming(board, find_tree(make_tree(version), {}, tmp_path)).board == expected


@pytest.mark.parametrize("name", ["mps3-an547", "mps3/an547", "mps3/corstone300/an547"])
@pytest.mark.parametrize(
    ("version", "expected"),
    [("3.2.0", "mps3_an547"), ("3.7.0", "mps3/an547"), ("4.1.0", "mps3/corstone300/an547")],
)
def test_a_board_that_was_renamed_twice(
    make_tree: MakeTree, tmp_path: Path, name: str, version: str, expected: str
):
    board = zephyr_board(name)
    assert board.name == "mps3-an547"
    assert zephyr_naming(board, find_tree(make_tree(version), {}, tmp_path)).board == expected


def test_a_board_needs_no_row(make_tree: MakeTree, tmp_path: Path):
    board = zephyr_board("nrf52840dk_nrf52840")
    assert (board.platform, board.qemu, board.memories) == ("zephyr", None, ())
    tree = find_tree(make_tree("4.1.0"), {}, tmp_path)
    assert zephyr_naming(board, tree).board == "nrf52840dk/nrf52840"


def test_a_row_that_zephyr_does_not_have():
    with pytest.raises(InputError, match="no name in Zephyr"):
        zephyr_board("host")


@pytest.mark.parametrize(
    ("version", "extra", "stdinout", "cpp"),
    [
        ((2, 7, 0), "ZEPHYR_EXTRA_MODULES", "CONFIG_NATIVE_UART_0_ON_STDINOUT", "CONFIG_CPLUSPLUS"),
        ((3, 2, 99), "ZEPHYR_EXTRA_MODULES", "CONFIG_NATIVE_UART_0_ON_STDINOUT", "CONFIG_CPLUSPLUS"),
        ((3, 3, 0), "EXTRA_ZEPHYR_MODULES", "CONFIG_NATIVE_UART_0_ON_STDINOUT", "CONFIG_CPP"),
        ((4, 1, 0), "EXTRA_ZEPHYR_MODULES", "CONFIG_NATIVE_UART_0_ON_STDINOUT", "CONFIG_CPP"),
        ((4, 10, 0), "EXTRA_ZEPHYR_MODULES", "CONFIG_UART_NATIVE_PTY_0_ON_STDINOUT", "CONFIG_CPP"),
    ],
)
def test_profiles(version: tuple[int, int, int], extra: str, stdinout: str, cpp: str):
    profile = profile_of(ZephyrVersion(*version))
    assert (profile.extra_modules, profile.stdinout, profile.cpp) == (extra, stdinout, cpp)


def test_the_memories_of_a_map(tmp_path: Path):
    text = (
        "junk 0x1 0x2\nMemory Configuration\n\nName             Origin             Length    Attributes\n"
        "FLASH            0x00000000         0x00400000         xr\n"
        "RAM              0x20000000         0x00400000         xw\n"
        "SSRAM1           0x00000000         0x00400000\n"
        "IDT_LIST         0xfffff7ff         0x00000800         xw\n"
        "*default*        0x00000000         0xffffffff\n\nLinker script and memory map\nX 0x1 0x2 x\n"
    )
    put(tmp_path / "zephyr.map", text)
    assert map_regions(tmp_path / "zephyr.map") == (("FLASH", 0, 4 << 20), ("RAM", 0x20000000, 4 << 20))
    assert map_regions(tmp_path / "none.map") == ()


@pytest.mark.parametrize("name", ["nrf52840dk_nrf52840", "mps2/an385", "qemu_cortex_m3", "qemu_riscv32"])
def test_a_board_that_zephyr_alone_has_needs_no_platform(
    name: str, make_tree: MakeTree, tiny: Path, tmp_path: Path
):
    project = mlf_sdk.generate(tiny, tmp_path / "app", board=name, zephyr_base=str(make_tree("4.1.0")))
    assert project.lock.platform == "zephyr"


@pytest.mark.parametrize("name", ["mps2-an386x", "../x"])
def test_a_board_that_nobody_knows_is_an_error(name: str, make_tree: MakeTree, tiny: Path):
    with pytest.raises(InputError) as caught:
        mlf_sdk.run(tiny, board=name, zephyr_base=str(make_tree("4.1.0")))
    assert f"zephyr:{name}" not in caught.value.hint
    assert "--platform zephyr" in caught.value.hint


def test_a_target_of_zephyr_by_its_scheme(make_tree: MakeTree, tiny: Path, tmp_path: Path):
    base = make_tree("4.1.0")
    project = mlf_sdk.generate(tiny, tmp_path / "app", board="zephyr:mps2_an385", zephyr_base=str(base))
    assert (project.lock.platform, project.lock.board) == ("zephyr", "mps2-an385")
    request = Request(source=(str(tmp_path / "app"),), board="zephyr:mps2_an385", zephyr_base=str(base))
    assert Pipeline().project(request).target.board.name == "mps2-an385"
    with pytest.raises(InputError, match="is for the board mps2-an385"):
        Pipeline().project(request.replace(board="zephyr:qemu_cortex_m3"))


def test_boards_of_a_proof():
    assert proof_boards(Request(), ProofOptions(boards=("zephyr:mps2_an385", "mps2-an386"))) == (
        "zephyr:mps2_an385",
        "mps2-an386",
    )
    every = proof_boards(Request(), ProofOptions(boards=("emulated", "zephyr:qemu_cortex_m3")))
    assert every == (*emulated_boards(), "zephyr:qemu_cortex_m3")
    assert proof_boards(Request(), ProofOptions()) == emulated_boards()
    on_zephyr = Request(platform="zephyr")
    assert proof_boards(on_zephyr, ProofOptions(boards=("mps2_an385",))) == ("zephyr:mps2_an385",)
    assert {"zephyr:mps2-an385", "zephyr:qemu_cortex_m3", "zephyr:qemu_riscv32"} <= set(
        proof_boards(on_zephyr, ProofOptions())
    )
