# SPDX-License-Identifier: Apache-2.0
"""Zephyr: any board that Zephyr knows, as an application or as a module of an application."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec

from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.render import PlatformFiles
from mlf_sdk.codegen.templates import template_text
from mlf_sdk.errors import InputError, MlfError
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.load import load_board, load_boards
from mlf_sdk.targets.boards.requirements import store_values
from mlf_sdk.targets.boards.row import Board, Rpc, ZephyrNames
from mlf_sdk.targets.host import crt_folders
from mlf_sdk.targets.launch import slots_memory
from mlf_sdk.targets.target import ZEPHYR
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.targets.zephyr.profile import ZephyrProfile, profile_of
from mlf_sdk.targets.zephyr.tree import ZephyrTree, ZephyrVersion, board_in, check_board_name, has_board
from mlf_sdk.tools.files import file_text

_MODULE = {
    "zephyr/module.yml": "zephyr/module.yml.j2",
    "zephyr/CMakeLists.txt": "zephyr/module_CMakeLists.txt.j2",
    "zephyr/Kconfig": "zephyr/module_Kconfig.j2",
}
_MODEL = {"CMakeLists.txt": "zephyr/model_CMakeLists.txt.j2"}
_REGION = re.compile(r"^(\S+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)(?:\s+[a-z]*)?$", re.MULTILINE)
_NO_MEMORY = frozenset({"IDT_LIST", "*default*"})  # regions of the link that the target does not have


class ZephyrNaming(msgspec.Struct, frozen=True, kw_only=True):
    """Zephyr's version for which a project is generated, and its name of the board."""

    version: ZephyrVersion
    board: str

    @property
    def profile(self) -> ZephyrProfile:
        """The version's names."""
        return profile_of(self.version)


def zephyr_board(name: str, extra_file: Path | None = None) -> Board:
    """Return the board ``name`` on Zephyr: a row (by its own or Zephyr's name), or any board of Zephyr.

    Raises:
        InputError: Zephyr does not have the row's board, or the name is invalid.
    """
    check_board_name(name)
    row = _row(name, extra_file)
    if row is None:
        names = ZephyrNames(old=name, new=name)
        return Board(name=name, title="a board of Zephyr", platform="zephyr", zephyr=names, rpc=Rpc())
    if not row.zephyr.old and not row.zephyr.new:
        raise InputError(
            "the board has no name in Zephyr",
            where=f"board {row.name}",
            hint="Give its row a table [zephyr], pass Zephyr's name of it, or choose --platform baremetal.",
        )
    return msgspec.structs.replace(row, platform="zephyr")


def _row(name: str, extra_file: Path | None) -> Board | None:
    rows = {**load_boards(extra_file), **_own_rows()}
    if name in rows:
        return rows[name]
    plain = name.replace("/", "_")
    named = {n.replace("/", "_"): row for row in rows.values() for n in (row.zephyr.old, row.zephyr.new) if n}
    return named.get(plain)


def zephyr_has(name: str, setup: ZephyrSetup) -> bool:
    """Return True when Zephyr has a board of this name: by the SDK's rows, or by the tree of this machine."""
    try:
        check_board_name(name)
        row = _row(name, None)
        if row is not None:
            return bool(row.zephyr.new)
        tree = setup.tree()
    except MlfError:
        return False
    return has_board(tree, board_in(tree, name))


def emulated_zephyr_boards() -> tuple[str, ...]:
    """Boards that both QEMU and Zephyr have, as targets such as ``zephyr:mps2-an385``."""
    rows = {**load_boards(), **_own_rows()}
    return tuple(f"{ZEPHYR}:{name}" for name, row in rows.items() if row.qemu is not None and row.zephyr.new)


@cache
def _own_rows() -> dict[str, Board]:
    """Boards that are on Zephyr only."""
    folder = data_dir("board_templates") / "zephyr" / "boards"
    return {row.name: row for row in map(load_board, sorted(folder.glob("*.toml")))}


def zephyr_naming(board: Board, tree: ZephyrTree) -> ZephyrNaming:
    """Return the tree's version and name of ``board``."""
    names = board.zephyr
    new, old = names.new or names.old, names.old or names.new
    return ZephyrNaming(version=tree.version, board=board_in(tree, new if tree.has_qualifiers else old))


def zephyr_files(board: Board, options: ProjectOptions, target: ZephyrNaming) -> PlatformFiles:
    """Return the files of a Zephyr application, or with the option ``library`` of a module only."""
    if options.executor == "graph" and options.app == "library":
        raise InputError(
            "a library has the static executor",
            where="--executor",
            hint="Leave out --library or --executor.",
        )
    profile = target.profile
    regions, code = _placed(board, options)
    simulated = board.zephyr.simulated_flash if options.executor == "graph" else ""
    slots = slots_memory(board) if simulated else None
    values = {
        "z": {
            "series": profile.series,
            "extra_modules": profile.extra_modules,
            "cpp": profile.cpp,
            "stdinout": profile.stdinout,
            "board": target.board,
            "stack_bytes": options.stack_of(board.stack_bytes),
            "rpc_max_payload": board.rpc.max_payload,
            "regions": regions,
            "code_region": code,
            "slots": slots,
            "smp_shell": board.uart is not None and board.uart.driver == "cmsdk",
            "simulated_flash": simulated,
        },
        **store_values(board, 0),
    }
    files = {}
    templates = dict(_MODULE)
    if regions:
        templates |= {f"zephyr/{name}": f"zephyr/{name}.j2" for name in ("memories.ld", "memories.c")}
    if options.app == "library":
        templates["README.md"] = "zephyr/README_library.md.j2"
    else:
        templates |= {
            name: f"zephyr/{name}.j2"
            for name in ("CMakeLists.txt", "Kconfig", "app.cmake", "prj.conf", "README.md")
        }
        templates["sample.yaml"] = "zephyr/sample.yaml.j2"
        folder = "common" if options.app == "mlperf" else "zephyr"
        templates["src/main.c"] = f"{folder}/main_{options.app}.c.j2"
        if options.app == "rpc" and profile.smp:
            templates["smp.conf"] = "zephyr/smp.conf.j2"
        name = target.board.replace("/", "_")
        if board.zephyr.native and options.app in ("rpc", "mlperf"):
            files[f"boards/{name}.conf"] = template_text("zephyr/native.conf.j2", values)
        if slots is not None:
            templates[f"boards/{name}.overlay"] = "zephyr/slots.overlay.j2"
    folders = dict.fromkeys(("include", "src", "rpc", "platform", "zephyr", *crt_folders(options)))
    return PlatformFiles(
        board=board.name,
        title=board.title,
        is_host=False,
        files=files,
        runtime_sources=(),
        crt_folders=tuple(folders),
        templates=templates,
        model_templates=_MODEL,
        values=values,
    )


def _placed(board: Board, options: ProjectOptions) -> tuple[dict[str, str], str]:
    """Regions beside FLASH and RAM by the row's name, and the one that kernels are copied to; empty: none."""
    if not options.place:
        return {}, ""
    from mlf_sdk.targets.boards.banks import code_memory, more_regions  # few projects use several memories

    regions = more_regions(board)
    code = code_memory(board, options.place)
    return regions, regions.get(code.name, "") if code is not None else ""


def map_regions(path: Path) -> tuple[tuple[str, int, int], ...]:
    """The memories (name, origin, size in bytes) in the linker's map of an image; none without a map."""
    head = file_text(path).partition("Memory Configuration")[2].partition("Linker script and memory map")[0]
    result = ((name, int(origin, 16), int(size, 16)) for name, origin, size in _REGION.findall(head))
    memories: dict[tuple[int, int], str] = {}  # a memory may be named again, by its node of the devicetree
    for name, origin, size in result:
        if name not in _NO_MEMORY and size:
            memories.setdefault((origin, size), name)
    return tuple((name, *place) for place, name in memories.items())
