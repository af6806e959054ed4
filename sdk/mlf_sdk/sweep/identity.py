# SPDX-License-Identifier: Apache-2.0
"""Identities of everything that decides a result: files, boards, the SDK, compilers and emulator."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mlf_sdk.compiler.cores import core_of
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.registry import files_of
from mlf_sdk.pipeline import stages
from mlf_sdk.pipeline.request import Request
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.isa import isa_of
from mlf_sdk.targets.boards.load import load_board, load_boards
from mlf_sdk.targets.compilers import native_toolchain
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.targets.target import ZEPHYR, BoardTarget
from mlf_sdk.tools.discovery import UNICORN, find_tools, known_tools
from mlf_sdk.tools.isas import fallback_isa, load_isas
from mlf_sdk.tools.rtlmodels import VERILATOR, find_model, load_models
from mlf_sdk.tools.serial import encode
from mlf_sdk.tools.toolchains import choose_toolchain, load_toolchains
from mlf_sdk.version import __version__

HOST = "host"
NATIVE = "cc"
SDK = "mlf-sdk"
PLACE_SCHEME = "labgrid"
PLACES_OR = "|"
_DATA = ("board_templates", "crt", "qemu")
_CHUNK = 1 << 20


@cache
def sdk_version() -> str:
    """Version of the SDK with a digest of its own files, so that two checkouts differ."""
    digest = hashlib.sha256()
    roots = [Path(__file__).resolve().parents[1], *(data_dir(name) for name in _DATA)]  # type: ignore[arg-type]
    for root in roots:
        _add_tree(digest, root)
    return f"{__version__}+{digest.hexdigest()[:12]}"


@cache
def tool_versions() -> Mapping[str, str]:
    """Versions of the compilers and emulators of this machine, by program; missing ones are left out.

    Where an emulator is missing and Unicorn takes its place, that one's name and version stand for it.
    """
    emulators = {isa.tools.emulator for isa in load_isas().values()}
    deciding = {NATIVE, *emulators, *(isa.tools.c for isa in load_isas().values()), UNICORN}
    deciding |= {name for row in load_toolchains().values() for name in row.programs}
    deciding |= {VERILATOR, *(model.package for model in load_models().values())}
    statuses = find_tools(tuple(tool for tool in known_tools() if tool.name in deciding))
    versions = {one.tool.name: one.version for one in statuses if one.version}
    unicorn = versions.pop(UNICORN, "")
    stands = {one.tool.name for one in statuses if one.tool.name in emulators and one.replaced_by}
    return {**versions, **dict.fromkeys(stands, f"{UNICORN} {unicorn}")}


def toolchain_used(board: str, wanted: str | None) -> str:
    """Toolchain that builds for a board use here: what was asked for, else what is installed.

    Empty where something else chooses it: Zephyr, a place.
    """
    if board == HOST:
        return native_toolchain(wanted, tool_versions().get)
    if ":" in board:
        return ""
    row = load_boards().get(board)
    isa = (isa_of(row) if row is not None else None) or fallback_isa()
    return choose_toolchain(isa, wanted, tool_versions().get)


def tool_resource(program: str, version: str) -> str:
    """Name of the resource that a worker with this version of a program has."""
    return f"{program}={version}"


def files_in(path: str | Path) -> tuple[tuple[str, Path], ...]:
    """Files that an input consists of, with the names under which they travel.

    Args:
        path: a file (with those that belong to it, such as the object of a header), or a folder.

    Raises:
        InputError: there is no such file.
    """
    place = Path(path)
    if place.is_dir():
        return tuple((files.relative_to(place).as_posix(), files) for files in _tree(place))
    if not place.is_file():
        raise InputError("there is no such file", where=str(path))
    if place.suffix == ".toml":
        row = load_board(place)
        return ((place.name, place), *((name, place.parent / name) for name in row.sources))
    files = files_of(place) if place.suffix != ".npz" else (place,)
    return tuple((one.name, one) for one in files)


def digest_of(path: str | Path) -> str:
    """SHA-256 of an input: its content, or names and contents where it is several files.

    Raises:
        InputError: it can't be read.
    """
    files = files_in(path)
    digest = hashlib.sha256()
    try:
        if len(files) == 1 and not Path(path).is_dir():
            _add_file(digest, files[0][1])
        else:
            for name, file in files:
                digest.update(f"\0{name}\0{file.stat().st_size}\0".encode())
                _add_file(digest, file)
    except OSError as error:
        raise InputError(f"can't read: {error.strerror}", where=str(path)) from error
    return digest.hexdigest()


def digest_of_value(value: Any) -> str:  # noqa: ANN401
    """SHA-256 of a value of a request, arrays included."""
    return hashlib.sha256(encode(value)).hexdigest()


def name_of(parts: Iterable[tuple[str, str]]) -> str:
    """Name of a job: hash of fields and their identities, whatever their order."""
    text = "\n".join(f"{field}={identity}" for field, identity in sorted(parts))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def board_identity(request: Request) -> str:
    """Identity of a request's board: its row, and its own sources; of a place its name.

    Raises:
        InputError: an unknown board.
    """
    board = request.board or ""
    if board.startswith(f"{PLACE_SCHEME}:"):
        return board
    target = resolve_target(stages.target_choice(request))
    own = target.own_files() if isinstance(target, BoardTarget) else {}
    sources = {name: hashlib.sha256(content).hexdigest() for name, content in own.items()}
    return digest_of_value([board, target.board, target.lock_zephyr(), sources])


def core_for(request: Request) -> str:
    """Core that a model is compiled for on a request's board; of a place, which is not asked, empty."""
    if (request.board or "").startswith(f"{PLACE_SCHEME}:"):
        return ""
    row = stages.board_of(request)
    return core_of(row.cpu, dsp=row.dsp).name


def resources_for(board: str, toolchain: str | None = None) -> tuple[str, ...]:
    """Resources that a cell on a board needs, one of each; of programs in the versions of this machine.

    Args:
        toolchain: as it was asked for; None: it was not.
    """
    scheme, colon, _ = board.partition(":")
    native = _compilers(toolchain_used(HOST, toolchain), NATIVE)
    if board == HOST:
        programs = native
    elif colon and scheme not in (ZEPHYR, PLACE_SCHEME):
        programs = ()
    else:
        row = load_boards().get(board)
        tools = ((isa_of(row) if row is not None else None) or fallback_isa()).tools
        cross = _compilers(toolchain_used(board, toolchain), tools.c)
        simulated = row.rtl if row is not None else None
        runs = (VERILATOR, find_model(simulated.model).package) if simulated else (tools.emulator,)
        programs = (*cross, *native) if scheme == PLACE_SCHEME else (*cross, *native, *runs)
    versions = tool_versions()
    programs = tuple(dict.fromkeys(programs))
    result = [tool_resource(name, versions[name]) for name in programs if name in versions]
    zephyr = [ZEPHYR] if scheme == ZEPHYR else []
    return (tool_resource(SDK, sdk_version()), *result, *zephyr)


def _compilers(toolchain: str, own: str) -> tuple[str, ...]:
    """Programs of a toolchain; ``own`` is that of the row, which also links what another one compiled."""
    row = load_toolchains().get(toolchain)
    if row is None:
        return (own,)
    return row.programs[:1] if row.links else (row.programs[0], own)


def places_of(board: str) -> tuple[str, ...]:
    """Boards of which a cell holds one alone: ``labgrid:A|B`` is either of two; none if emulated."""
    scheme, _, rest = board.partition(":")
    if scheme != PLACE_SCHEME:
        return ()
    return tuple(f"{scheme}:{name.removeprefix(scheme + ':')}" for name in rest.split(PLACES_OR))


def place_resource(place: str) -> str:
    """Name of the resource, of which there is one, for a place or port."""
    return f"board {place}"


def _tree(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in parts):
            yield path


def _add_tree(digest: Any, root: Path) -> None:  # noqa: ANN401 (hashlib's type has no public name)
    for path in _tree(root):
        digest.update(f"\0{path.relative_to(root).as_posix()}\0{path.stat().st_size}\0".encode())
        _add_file(digest, path)


def _add_file(digest: Any, path: Path) -> None:  # noqa: ANN401
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
