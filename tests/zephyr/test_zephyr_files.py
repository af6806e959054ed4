# SPDX-License-Identifier: Apache-2.0
"""What is generated for each version of Zephyr: golden files, and what a user keeps.

After a change that is meant: MLF_UPDATE_GOLDEN=1 pytest tests/zephyr/test_zephyr_files.py, and read the diff.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import mlf_sdk
from mlf_sdk.codegen.writer import ChangedFilesError
from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.pipeline.api import GeneratedProject
from mlf_sdk.version import __version__
from zephyr_trees import MakeTree

GOLDEN = Path(__file__).parent / "golden"
SHOWN = ("CMakeLists.txt", "Kconfig", "README.md", "app.cmake", "prj.conf", "sample.yaml", "src/main.c")


def generate(
    tiny: Path, folder: Path, base: Path, board: str = "mps2_an385", **options: object
) -> GeneratedProject:
    return mlf_sdk.generate(
        tiny,
        folder,
        board=board,
        platform="zephyr",
        **options,  # type: ignore[arg-type]
        zephyr_base=str(base),
    )


def shown(folder: Path) -> dict[str, str]:
    """The files that a Zephyr developer would have written."""
    paths = [folder / name for name in SHOWN]
    paths += [*folder.glob("zephyr/*"), *folder.glob("boards/*"), *folder.glob("model/*/CMakeLists.txt")]
    return {
        p.relative_to(folder).as_posix(): p.read_text().replace(__version__, "VERSION")
        for p in sorted(paths)
        if p.is_file()
    }


CASES = {
    "2.7-rpc": ("2.7.0", "mps2_an385", "rpc"),
    "3.2-rpc": ("3.2.0", "mps2_an385", "rpc"),
    "3.2-native": ("3.2.0", "native_sim", "rpc"),
    "3.7-rpc": ("3.7.0", "mps2_an385", "rpc"),
    "3.7-standalone": ("3.7.0", "nrf52840dk_nrf52840", "standalone"),
    "4.1-rpc": ("4.1.0", "mps2_an385", "rpc"),
    "4.1-native": ("4.1.99", "native_sim_64", "rpc"),
    "4.1-library": ("4.1.0", "any", "library"),
}


@pytest.mark.parametrize("case", CASES)
def test_golden_files(case: str, make_tree: MakeTree, tiny: Path, tmp_path: Path):
    version, board, app = CASES[case]
    generate(tiny, tmp_path / "app", make_tree(version), board, app=app)
    found = shown(tmp_path / "app")
    golden = GOLDEN / f"{case}.txt"
    text = "".join(f"==== {name}\n{content}" for name, content in found.items())
    if os.environ.get("MLF_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("version", ["2.7.0", "3.2.0", "3.7.0", "4.1.0"])
def test_options_are_only_those_that_every_module_or_version_has(
    version: str, make_tree: MakeTree, tiny: Path, tmp_path: Path
):
    """An unknown symbol in prj.conf ends Zephyr's build."""
    generate(tiny, tmp_path / "app", make_tree(version))
    known = {"SERIAL", "UART_CONSOLE", "PRINTK", "BOOT_BANNER"}
    own = set(re.findall(r"config (\w+)", (tmp_path / "app/crt/zephyr/Kconfig").read_text()))
    named = set(re.findall(r"^CONFIG_(\w+)=", (tmp_path / "app/prj.conf").read_text(), re.MULTILINE))
    assert {"MLF", "MLF_RPC"} <= named <= known | own


def test_the_same_for_the_same(make_tree: MakeTree, tiny: Path, tmp_path: Path):
    base = make_tree("4.1.0")
    for name in ("one", "two"):
        generate(tiny, tmp_path / name, base)
    one, two = (
        {p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()}
        for f in (tmp_path / "one", tmp_path / "two")
    )
    assert one == two


def test_what_the_user_edited_is_kept(make_tree: MakeTree, tiny: Path, tmp_path: Path):
    folder, base = tmp_path / "app", make_tree("4.1.0")
    generate(tiny, folder, base)
    own = ("src/main.c", "prj.conf", "app.cmake", "app.Kconfig", "boards/mine.overlay", "zephyr/mine.txt")
    for name in own:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("mine\n")
    again = generate(tiny, folder, base)
    assert again.kept == ("app.cmake", "prj.conf", "src/main.c")
    (folder / "Kconfig").write_text("x")
    with pytest.raises(
        ChangedFilesError, match="1 file was changed since the project was generated: Kconfig"
    ):
        generate(tiny, folder, base)
    assert (folder / "Kconfig").read_text() == "x"
    again = generate(tiny, folder, base, force=True)
    assert again.backups == ("Kconfig.orig",)
    assert "mainmenu" in (folder / "Kconfig").read_text()
    assert all((folder / name).read_text() == "mine\n" for name in own)


def test_a_stack_of_the_users(make_tree: MakeTree, tiny: Path, tmp_path: Path):
    generate(tiny, tmp_path / "app", make_tree("4.1.0"), stack="3K")
    assert "config MAIN_STACK_SIZE\n\tdefault 3072\n" in (tmp_path / "app/Kconfig").read_text()


def test_the_lock_names_version_and_board(make_tree: MakeTree, tiny: Path, tmp_path: Path):
    lock = generate(tiny, tmp_path / "app", make_tree("4.1.0")).lock
    assert (lock.platform, lock.board) == ("zephyr", "mps2-an385")
    assert lock.zephyr is not None
    assert (lock.zephyr.series, lock.zephyr.board) == ("4.1", "mps2/an385")


def test_no_tree_writes_nothing(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ZEPHYR_BASE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ToolError, match="no Zephyr tree"):
        mlf_sdk.generate(tiny, tmp_path / "app", board="mps2_an385", platform="zephyr")
    assert not (tmp_path / "app").exists()


def test_a_platform_that_the_board_has_not(tiny: Path, tmp_path: Path):
    with pytest.raises(InputError, match="is for the platform baremetal"):
        mlf_sdk.generate(tiny, tmp_path / "app", board="mps2-an385", platform="host")


def test_too_little_memory_is_refused_before_anything_is_written(
    make_tree: MakeTree, tmp_path: Path, tiny: Path
):
    row = (
        'name = "small"\ntitle = "small"\nplatform = "zephyr"\ncpu = "cortex-m3"\n'
        '[[memories]]\nname = "flash"\nkind = "flash"\norigin = 0\nsize_bytes = 1024\n'
        '[[memories]]\nname = "ram"\nkind = "ram"\norigin = 0x2000_0000\nsize_bytes = 1024\n'
        '[zephyr]\nold = "small"\nnew = "small"\n'
    )
    (tmp_path / "small.toml").write_text(row)
    base = make_tree("4.1.0")
    with pytest.raises(InputError, match="does not fit"):
        mlf_sdk.generate(
            tiny,
            tmp_path / "app",
            board="small",
            board_file=tmp_path / "small.toml",
            platform="zephyr",
            zephyr_base=str(base),
        )
    assert not (tmp_path / "app").exists()
