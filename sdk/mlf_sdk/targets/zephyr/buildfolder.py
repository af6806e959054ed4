# SPDX-License-Identifier: Apache-2.0
"""Build folder of a Zephyr application: its place, its owner, and the options that it was made with.

A folder is the SDK's own as long as its CMake cache and Kconfig options are as the SDK left them. Only such
a folder is ever removed; one that a user configured is built as it is.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.targets.zephyr.workspace import west_options, west_topdir
from mlf_sdk.tools.files import file_text, write_whole
from mlf_sdk.tools.rowfile import described

BUILD = "build"
NATIVE_IMAGE = "zephyr.exe"  # a program of this machine
DOMAINS = "domains.yaml"  # written by sysbuild
REMEMBERED = "mlf-local.json"  # in the project: options of its builds on this machine
_STAMP = "mlf-build.json"  # in the build folder
_CACHE = "CMakeCache.txt"
_ENTRY = re.compile(r"^([A-Za-z0-9_.-]+):[A-Z]+=(.*)$", re.MULTILINE)
_DEFINE = re.compile(r"-[DU]\s*([A-Za-z0-9_.-]+)")


class BuildOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a project's builds.

    Attributes:
        build_dir: the build folder; relative: to the project.
        cmake_args: arguments for CMake, such as ``-DEXTRA_CONF_FILE=debug.conf``.
        zephyr_modules: folders of Zephyr modules.
    """

    build_dir: str | None = None
    cmake_args: tuple[str, ...] = ()
    zephyr_modules: tuple[str, ...] = ()

    def over(self, earlier: BuildOptions) -> BuildOptions:
        """These options, with the earlier ones where these say nothing; ``-UNAME`` drops a ``-DNAME=``."""
        mine = {variable_of(arg) for arg in self.cmake_args}
        kept = tuple(arg for arg in earlier.cmake_args if variable_of(arg) not in mine)
        return BuildOptions(
            build_dir=self.build_dir or earlier.build_dir,
            cmake_args=(*kept, *(arg for arg in self.cmake_args if not arg.startswith("-U"))),
            zephyr_modules=self.zephyr_modules or earlier.zephyr_modules,
        )

    def below(self, folder: Path) -> BuildOptions:
        """These options with paths inside of ``folder`` relative to it."""

        def relative(path: str) -> str:
            inside = Path(path).is_relative_to(folder.resolve())
            return str(Path(path).relative_to(folder.resolve())) if inside else path

        return BuildOptions(
            build_dir=relative(self.build_dir) if self.build_dir else None,
            cmake_args=self.cmake_args,
            zephyr_modules=tuple(map(relative, self.zephyr_modules)),
        )


def variable_of(arg: str) -> str:
    """Name the variable that an argument of CMake, ``-DNAME[:TYPE]=VALUE`` or ``-UNAME``, is about."""
    match = _DEFINE.match(arg)
    return match[1] if match else arg


def recall_options(folder: Path) -> BuildOptions:
    """Options that the project in ``folder`` was built with last.

    Raises:
        InputError: the file is damaged.
    """
    path = folder / REMEMBERED
    if not path.is_file():
        return BuildOptions()
    try:
        return msgspec.json.decode(path.read_bytes(), type=described(BuildOptions))
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(
            f"the remembered build options can't be read: {error}",
            where=str(path),
            hint="Delete the file, and give the options again.",
        ) from error


def remember_options(folder: Path, options: BuildOptions) -> None:
    """Keep options for the next build of the project in ``folder``."""
    path = folder / REMEMBERED
    if options == BuildOptions() and not path.is_file():
        return
    if not path.is_file() or recall_options(folder) != options:
        write_whole(path, msgspec.json.format(msgspec.json.encode(options)) + b"\n")


class _Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration by the SDK; ``state`` is a hash of what it left behind, empty until then."""

    configured: tuple[str, ...]
    state: str = ""


class BuildFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A build folder, which may not exist yet."""

    path: Path

    @property
    def is_configured(self) -> bool:
        """True when CMake has written a build system."""
        return (self.path / "build.ninja").is_file() or (self.path / "Makefile").is_file()

    @property
    def is_ours(self) -> bool:
        """True when the SDK configured it, and nobody changed its cache or options since."""
        stamp = self._stamp()
        if stamp is None:
            return False
        return stamp.state == self._state() if stamp.state else not self.is_configured

    @property
    def is_foreign(self) -> bool:
        """True when a user configured it, or changed the configuration of the SDK."""
        return (self.path / _CACHE).is_file() and not self.is_ours

    def matches(self, configured: Sequence[str]) -> bool:
        """Return True when the SDK configured it in exactly this way, whatever was changed since."""
        stamp = self._stamp()
        return stamp is not None and stamp.configured == tuple(configured) and self.is_configured

    def start(self, configured: Sequence[str]) -> None:
        """Note that the SDK configures it now; what it had left there before is removed."""
        if self.is_ours:
            shutil.rmtree(self.path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._write(_Stamp(configured=tuple(configured)))

    def finish(self) -> None:
        """Note the state that the SDK leaves behind."""
        stamp = self._stamp()
        if stamp is not None:
            self._write(_Stamp(configured=stamp.configured, state=self._state()))

    def cache(self) -> dict[str, str]:
        """Entries of CMake's cache."""
        return dict(_ENTRY.findall(file_text(self.path / _CACHE)))

    def _write(self, stamp: _Stamp) -> None:
        write_whole(self.path / _STAMP, msgspec.json.encode(stamp))

    def _stamp(self) -> _Stamp | None:
        try:
            return msgspec.json.decode((self.path / _STAMP).read_bytes(), type=described(_Stamp))
        except (OSError, msgspec.MsgspecError):
            return None

    def _state(self) -> str:
        digest = hashlib.sha256()
        for name in (_CACHE, "zephyr/.config"):
            digest.update(file_text(self.path / name).encode())
        return digest.hexdigest()


def find_build(folder: Path, given: Path | None, here: Path, board: str) -> BuildFolder:
    """The build folder of the project in ``folder``.

    That is the given one, else ``build`` in the project, else where ``west build`` puts it by default when
    it is called from the current folder or the top of the workspace.

    Args:
        given: stated by the user, or remembered.
        here: the current folder.
        board: Zephyr's name of the board.
    """
    folder = folder.resolve()
    if given is not None:
        return BuildFolder(path=given.resolve())
    own = BuildFolder(path=folder / BUILD)
    if not own.path.is_dir():
        for path in _defaults_of_west(folder, here, board):
            result = BuildFolder(path=path)
            sources = {result.cache().get(name) for name in ("APPLICATION_SOURCE_DIR", "APP_DIR")}
            if str(folder) in sources | {result.cache().get("CMAKE_HOME_DIRECTORY")}:
                return result
    return own


def _defaults_of_west(folder: Path, here: Path, board: str) -> Iterator[Path]:
    topdirs = [top for place in (here, folder) if (top := west_topdir(place)) is not None]
    places = dict.fromkeys([folder, here.resolve(), *topdirs])
    for topdir in topdirs:
        pattern = west_options(topdir, "build").get("dir-fmt", "")
        source = "" if here.resolve().is_relative_to(folder) else os.path.relpath(folder, here)
        names = {"board": board, "source_dir": source, "app": folder.name}
        try:
            relative = pattern.format(**names)
        except (KeyError, IndexError, ValueError, AttributeError):
            continue
        if relative:
            yield from (place / relative for place in places)
    yield from (place / BUILD for place in places)


def image_in(build: Path, project: Path) -> Path:
    """The linked image in a build folder of Zephyr.

    Raises:
        InputError: there are the images of sysbuild, which is west's own way to several of them.
    """
    if (build / DOMAINS).is_file():
        raise InputError(
            "the project was built with sysbuild: only west can flash its images",
            where=str(build),
            hint="Flash them with west flash; or build the project's own image in another folder: "
            f"mlf-sdk build {project} --build-dir {project}/build-mlf",
        )
    native = build / "zephyr" / NATIVE_IMAGE
    return native if native.is_file() else native.with_name("zephyr.elf")
