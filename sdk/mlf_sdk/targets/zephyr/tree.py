# SPDX-License-Identifier: Apache-2.0
"""Zephyr tree on this machine: path, version, and names of boards.

Nothing of the tree is run. Its version is read from ``VERSION``, its boards from the files that lie in
``boards``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.targets.zephyr.workspace import tree_of, west_topdir
from mlf_sdk.tools.files import file_text

HOME_TREE = "zephyrproject/zephyr"  # where Zephyr's own guide puts it
_FIELD = re.compile(r"^\s*([A-Z_]+)\s*=\s*(\S*)\s*$", re.MULTILINE)
_BOARD = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_@.-]|/(?=[A-Za-z0-9])){0,99}")
_IDENTIFIER = re.compile(r"^identifier:\s*['\"]?([A-Za-z0-9_/@.-]+)", re.MULTILINE)
_ARCH = re.compile(r"^arch:\s*['\"]?([a-z0-9_]+)", re.MULTILINE)


class ZephyrVersion(NamedTuple):
    """A version of Zephyr; ``3.2.99`` is what becomes 3.3."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def series(self) -> str:
        """The version without its patch level."""
        return f"{self.major}.{self.minor}"


OLDEST = ZephyrVersion(2, 7, 0)
HARDWARE_MODEL_V2 = ZephyrVersion(3, 6, 99)  # boards are called <board>/<soc>/<cpu>


class ZephyrTree(msgspec.Struct, frozen=True, kw_only=True):
    """A tree: its folder (``ZEPHYR_BASE``) and version."""

    base: Path
    version: ZephyrVersion

    @property
    def has_qualifiers(self) -> bool:
        """Return True when board names have the form ``<board>/<soc>/<cpu>``."""
        return self.version >= HARDWARE_MODEL_V2


def find_tree(
    given: Path | None, environ: Mapping[str, str], home: Path, here: Path | None = None
) -> ZephyrTree:
    """Return the tree to use.

    The given one, else ``$ZEPHYR_BASE``, else that of the west workspace which ``here`` lies in, else
    ``~/zephyrproject/zephyr``.

    Raises:
        ToolError: there is none.
        InputError: what was given is none, or it is older than can be used.
    """
    hint = (
        "Get one as Zephyr's Getting Started guide says (west init ~/zephyrproject); then work inside "
        "of that workspace, set ZEPHYR_BASE to its folder 'zephyr', or pass --zephyr-base."
    )
    if given is not None:
        base, where = given, "--zephyr-base"
    elif environ.get("ZEPHYR_BASE"):
        base, where = Path(environ["ZEPHYR_BASE"]), "ZEPHYR_BASE"
    elif (topdir := west_topdir(here) if here else None) and (tree := tree_of(topdir)):
        base, where = tree, f"west workspace {topdir}"
    else:
        base, where = home / HOME_TREE, ""
        if not base.is_dir():
            raise ToolError("there is no Zephyr tree on this machine", where=str(base), hint=hint)
    try:
        text = (base / "VERSION").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"no Zephyr tree here: its file VERSION can't be read ({error.strerror})",
            where=f"{where} {base}".strip(),
            hint=hint,
        ) from error
    version = parse_version(text, str(base / "VERSION"))
    if version < OLDEST:
        raise InputError(
            f"Zephyr {version} is too old: {OLDEST.series} is the oldest that can be used",
            where=str(base),
            hint="Use a newer tree: set ZEPHYR_BASE or pass --zephyr-base.",
        )
    return ZephyrTree(base=base.resolve(), version=version)


def parse_version(text: str, where: str) -> ZephyrVersion:
    """Return the version in the text of a tree's file ``VERSION``.

    Raises:
        InputError: it holds none.
    """
    fields = dict(_FIELD.findall(text))
    try:
        return ZephyrVersion(
            int(fields["VERSION_MAJOR"]), int(fields["VERSION_MINOR"]), int(fields["PATCHLEVEL"])
        )
    except (KeyError, ValueError) as error:
        raise InputError(
            "the file has no VERSION_MAJOR, VERSION_MINOR and PATCHLEVEL with numbers",
            where=where,
            hint="Give the folder 'zephyr' of a Zephyr tree.",
        ) from error


def check_board_name(name: str) -> None:
    """Validate the name of a Zephyr board.

    Raises:
        InputError: it holds characters that no board's name has.
    """
    if not _BOARD.fullmatch(name):
        raise InputError(
            f"not a name of a Zephyr board: {name!r}",
            where="--board",
            hint="Names look like nrf52840dk_nrf52840 (before 3.7) or nrf52840dk/nrf52840.",
        )


def board_in(tree: ZephyrTree, name: str) -> str:
    """Return the tree's name of a board, given by an old or a new name.

    A name that the tree does not know is returned as it is: the board may lie elsewhere (BOARD_ROOT).
    """
    check_board_name(name)
    boards = tree.base / "boards"
    if tree.has_qualifiers:
        return _renamed(boards, name) if "/" in name else _with_qualifiers(boards, name)
    plain = name.replace("/", "_")
    known = "/" not in name or any(boards.glob(f"*/{plain}/{plain}_defconfig"))
    return plain if known else _without_qualifiers(boards, name, plain)


def _renamed(boards: Path, name: str) -> str:
    """Match a board renamed between versions: ``mps3/an547`` became ``mps3/corstone300/an547``."""
    parts = name.split("/")
    known = {result for path in boards.glob(f"*/{parts[0]}/*.yaml") if (result := _identifier(path))}
    alike = []
    for other in known:
        theirs = other.split("/")
        if theirs[-1] == parts[-1] and (set(parts) <= set(theirs) or set(theirs) <= set(parts)):
            alike.append(other)
    return alike[0] if name not in known and len(alike) == 1 else name


def has_board(tree: ZephyrTree, board: str) -> bool:
    """Return True when the tree has a board of this name, the one of :func:`board_in`."""
    boards, name = tree.base / "boards", board.partition("/")[0]
    if not tree.has_qualifiers:
        return any(boards.glob(f"*/{board}/{board}_defconfig"))
    named = re.compile(rf"^\s*(?:- )?name: {re.escape(name)}$", re.MULTILINE)
    files = [*boards.glob("*/*/board.yml"), *boards.glob(f"*/*/{name}*.yaml")]
    return any(_identifier(path) == board or named.search(file_text(path)) for path in files)


def board_arch(tree: ZephyrTree, board: str) -> str:
    """Return Zephyr's name of the architecture of a board (``arm``, ``riscv``); empty: not known.

    Args:
        board: the tree's name of the board.
    """
    name = board.partition("/")[0]
    files = (tree.base / "boards").glob(f"*/*/{name}*.yaml")
    result = [file_text(path) for path in sorted(files)]
    named = [text for text in result if (said := _IDENTIFIER.search(text)) and said[1] == board]
    archs = {said[1] for text in named or result if (said := _ARCH.search(text))}
    return archs.pop() if len(archs) == 1 else ""


def _identifier(path: Path) -> str:
    match = _IDENTIFIER.search(file_text(path))
    return match[1] if match else ""


def _with_qualifiers(boards: Path, name: str) -> str:
    """Match a former name: the file of a board or variant still bears it."""
    if any(boards.glob(f"*/{name}/board.yml")) or any(boards.glob(f"*/*/{name}/board.yml")):
        return name
    identifiers = (_identifier(path) for path in sorted(boards.glob(f"*/*/{name}.yaml")))
    return next(filter(None, identifiers), name)


def _without_qualifiers(boards: Path, name: str, plain: str) -> str:
    """Match an old name without qualifiers (``mps2/an521/cpu0`` was ``mps2_an521``)."""
    parts = name.split("/")
    for count in range(len(parts), 0, -1):
        shorter = "_".join(parts[:count])
        if any(boards.glob(f"*/{shorter}/{shorter}_defconfig")):
            return shorter
    return plain
