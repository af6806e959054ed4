# SPDX-License-Identifier: Apache-2.0
"""Builds a Zephyr application: with ``west build`` in a west workspace, else with CMake and Ninja."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.targets.cmake import BuildResult
from mlf_sdk.targets.zephyr.buildfolder import (
    BuildFolder,
    BuildOptions,
    find_build,
    image_in,
    recall_options,
    variable_of,
)
from mlf_sdk.targets.zephyr.explain import explain_build
from mlf_sdk.targets.zephyr.tree import ZephyrTree, board_arch, board_in, find_tree
from mlf_sdk.targets.zephyr.workspace import workspace_of
from mlf_sdk.tools.isas import fallback_isa
from mlf_sdk.tools.process import ProcessRunner, run_process
from mlf_sdk.tools.programs import install_hint

Which = Callable[[str], str | None]
_MODULE_LISTS = ("ZEPHYR_MODULES", "EXTRA_ZEPHYR_MODULES", "ZEPHYR_EXTRA_MODULES")
_KCONFIG_VALUE = "CLI_"  # before the name of an option of Kconfig in the cache, once it was applied
_OTHER_GCC = {"riscv": ("riscv64-unknown-elf", "riscv32-unknown-elf")}  # by Zephyr's architecture
_SDK_FOLDERS = ("", ".local", ".local/opt", "bin")  # below the home folder, where Zephyr looks for its SDK


@dataclass(frozen=True, slots=True, kw_only=True)
class ZephyrSetup:
    """Zephyr on this machine: tree, modules, west, environment.

    Attributes:
        base: the tree; None: ``$ZEPHYR_BASE``, that of the workspace, or ``~/zephyrproject/zephyr``.
        modules: folders of Zephyr modules beside those of a west workspace.
        use_west: build with west; None: when the project, the tree or the current folder is in a workspace.
        build_dir: the build folder; None: ``build`` in the project, or where west's default put it.
        cmake_args: more arguments for CMake.
        dropped: variables of CMake that were given to an earlier build, and are not any more.
        environ: the environment variables.
        home: the user's home folder.
        here: the current folder.
    """

    base: Path | None = None
    modules: tuple[Path, ...] = ()
    use_west: bool | None = None
    build_dir: Path | None = None
    cmake_args: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    home: Path = field(default_factory=Path.home)
    here: Path = field(default_factory=Path.cwd)

    def tree(self) -> ZephyrTree:
        """The tree to use; see :func:`find_tree`."""
        return find_tree(self.base, self.environ, self.home, self.here)

    @property
    def options(self) -> BuildOptions:
        """Options of a build that can be remembered; paths are absolute."""
        return BuildOptions(
            build_dir=str(self.build_dir.resolve()) if self.build_dir else None,
            cmake_args=self.cmake_args,
            zephyr_modules=tuple(str(path.resolve()) for path in self.modules),
        )

    def recalled(self, folder: Path) -> ZephyrSetup:
        """This set-up, with what the project in ``folder`` was built with last where it says nothing."""
        options = self.options.over(recall_options(folder))
        return dataclasses.replace(
            self,
            modules=tuple(folder / path for path in options.zephyr_modules),
            build_dir=folder / options.build_dir if options.build_dir else None,
            cmake_args=options.cmake_args,
            dropped=tuple(variable_of(arg) for arg in self.cmake_args if arg.startswith("-U")),
        )

    def module_paths(self) -> tuple[str, ...]:
        """Modules that were given, and those of ``$ZEPHYR_MODULES``, as CMake takes them.

        Raises:
            InputError: a folder that was given does not exist.
        """
        for path in self.modules:
            if not path.is_dir():
                raise InputError("there is no such folder", where=f"--zephyr-module {path}")
        given = (path.resolve().as_posix() for path in self.modules)
        return tuple(dict.fromkeys([*given, *self.named_modules()]))

    def named_modules(self) -> list[str]:
        """Modules of ``$ZEPHYR_MODULES``."""
        return self.environ.get("ZEPHYR_MODULES", "").replace(";", " ").split()


def build_zephyr(
    folder: Path,
    board: str,
    setup: ZephyrSetup,
    *,
    extra_modules: str,
    is_native: bool = False,
    timeout_s: float = 600.0,
    runner: ProcessRunner = run_process,
    which: Which = shutil.which,
    watch: Callable[[str], None] | None = None,
) -> BuildResult:
    """Configure (when needed) and build the application in ``folder`` for ``board``, the tree's name of it.

    A build folder that a user configured is built as it is; arguments for CMake are applied to it.

    Args:
        extra_modules: the CMake variable that takes more modules in this version.
        is_native: the image is a program of this machine.
        watch: called with each line of the build's output.

    Raises:
        DoesNotFitError: the image needs more memory than the board has.
        InputError: the build folder is another project's, another board's, or sysbuild's.
        ToolError: no tree, a tool is missing, or the build failed; its output ends the message.
    """
    start = time.monotonic()
    tree = setup.tree()
    build = find_build(folder, setup.build_dir, setup.here, board)
    job = _Job(folder=folder, board=board, setup=setup, tree=tree, build=build, extra_modules=extra_modules)
    topdir = _workspace(folder, tree, setup, which)
    environment = build_environment(
        tree, setup, is_native=is_native, arch=board_arch(tree, board), which=which
    )

    def step(argv: list[str]) -> str:
        left_s = max(1.0, timeout_s - (time.monotonic() - start))
        result = runner(
            argv, cwd=topdir or folder, env=environment, timeout_s=left_s, check=False, watch=watch
        )
        if result.returncode != 0:
            raise explain_build(argv, folder, result, build=build.path, tree=tree.base, topdir=topdir)
        return result.stdout

    log = ""
    configure = job.configure(topdir)
    configured = [*configure, str(tree.base), str(tree.version), *_toolchain_of(environment)]
    make = ["cmake", "--build"] if topdir is None else ["west", "build", "-d"]
    was_ours = build.is_ours
    if build.is_foreign and not build.matches(configured):
        make = ["cmake", "--build"]
        environment["ZEPHYR_BASE"] = job.check_foreign()
        changes = job.cache_changes()
        if changes or not build.is_configured:  # west's configuration may have failed
            log += step(["cmake", *changes, str(build.path)])
    elif not build.matches(configured):
        build.start(configured)
        log += step(configure)
        was_ours = True
    log += step([*make, str(build.path)])
    if was_ours:
        build.finish()
    return BuildResult(elf=image_in(build.path, folder), seconds=time.monotonic() - start, log=log)


class _Job(msgspec.Struct, frozen=True, kw_only=True):
    """One build: what is built, with what, and where."""

    folder: Path
    board: str
    setup: ZephyrSetup
    tree: ZephyrTree
    build: BuildFolder
    extra_modules: str

    def configure(self, topdir: Path | None) -> list[str]:
        """Return the command that configures a new build folder."""
        build, modules = str(self.build.path), self.setup.module_paths()
        defines = [f"-DUSER_CACHE_DIR={build}/cache"]
        if topdir is None:
            defines.append(f"-DZEPHYR_MODULES={';'.join(modules or [self.folder.as_posix()])}")
            head = ["cmake", "-GNinja", "-S", str(self.folder), "-B", build, f"-DBOARD={self.board}"]
            return [*head, *defines, *self.setup.cmake_args]
        if modules:
            defines.append(f"-D{self.extra_modules}={';'.join(modules)}")
        head = ["west", "build", "--cmake-only", *_no_sysbuild(self.tree), "-d", build, "-b", self.board]
        return [*head, str(self.folder), "--", *defines, *self.setup.cmake_args]

    def check_foreign(self) -> str:
        """Check that a folder that a user configured is one of this project; return its Zephyr tree.

        Raises:
            InputError: it is sysbuild's, another project's, or for another board.
        """
        image_in(self.build.path, self.folder)
        cache = self.build.cache()
        hint = (
            f"Nothing was deleted. Build in another folder (--build-dir {self.folder}/build-mlf), or remove "
            "this one yourself."
        )
        source = cache.get("APPLICATION_SOURCE_DIR") or cache.get("CMAKE_HOME_DIRECTORY", "")
        if source and Path(source).resolve() != self.folder.resolve():
            raise InputError(f"the build folder is that of {source}", where=str(self.build.path), hint=hint)
        board = cache.get("CACHED_BOARD") or cache.get("BOARD", "")
        if board and board_in(self.tree, board) != self.board:
            what = f"the build folder was configured for the board {board}, the project is for {self.board}"
            raise InputError(what, where=str(self.build.path), hint=hint)
        return cache.get("ZEPHYR_BASE") or str(self.tree.base)

    def cache_changes(self) -> list[str]:
        """Return the arguments for CMake that make the folder's cache what is wanted."""
        cache, result = self.build.cache(), list(self.setup.cmake_args)
        kept = {name for dropped in self.setup.dropped for name in (dropped, _KCONFIG_VALUE + dropped)}
        result += [f"-U{name}" for name in sorted(kept & {*cache})]
        modules = [str(path.resolve()) for path in self.setup.modules]
        if not {*modules} <= {*";".join(cache.get(name, "") for name in _MODULE_LISTS).split(";")}:
            result.append(f"-D{self.extra_modules}={';'.join(modules)}")
        return [arg for arg in result if not _is_set(arg, cache)]


def find_module(name: str, tree: Path, setup: ZephyrSetup) -> Path | None:
    """Return the folder of a module that builds with ``tree`` see; None: there is none.

    Args:
        name: of the module, which is that of its folder as well.
    """
    topdir = None if setup.use_west is False else workspace_of(tree, (setup.here,))
    below = [topdir / "modules" / group / name for group in ("lib", "hal")] if topdir else []
    named = [path for text in setup.module_paths() if (path := Path(text)).name == name]
    return next((path.resolve() for path in (*named, *below) if path.is_dir()), None)


def _is_set(arg: str, cache: Mapping[str, str]) -> bool:
    """Return True when an argument ``-DNAME[:TYPE]=VALUE`` changes nothing."""
    name, value = variable_of(arg), arg.partition("=")[2]
    return arg.startswith("-D") and cache.get(name, cache.get(_KCONFIG_VALUE + name)) == value


def _no_sysbuild(tree: ZephyrTree) -> list[str]:
    """Return the option that disables sysbuild, if the tree has it: a workspace may enable it by default."""
    return ["--no-sysbuild"] if (tree.base / "share" / "sysbuild").is_dir() else []


def build_environment(
    tree: ZephyrTree,
    setup: ZephyrSetup,
    *,
    is_native: bool,
    arch: str = "",
    which: Which = shutil.which,
) -> dict[str, str]:
    """The environment of a build: the tree, the toolchain, and nothing that writes to the user's home.

    The toolchain is what the user's variables say, else the Zephyr SDK where Zephyr finds it, else the
    system's compilers.

    Args:
        arch: Zephyr's name of the board's architecture; empty: not known, the usual one.

    Raises:
        ToolError: there is no compiler for the architecture.
    """
    environment = {**setup.environ, "ZEPHYR_BASE": str(tree.base), "CCACHE_DISABLE": "1"}
    environment.pop("ZEPHYR_MODULES", None)
    chosen = {"ZEPHYR_TOOLCHAIN_VARIANT", "ZEPHYR_SDK_INSTALL_DIR"} & {k for k, v in environment.items() if v}
    if chosen or _has_zephyr_sdk(setup.home):
        return environment
    if is_native:
        return environment | {"ZEPHYR_TOOLCHAIN_VARIANT": "host"}
    isa = fallback_isa()
    if arch in ("", isa.zephyr):
        compiler = which(isa.tools.c)
        if compiler is None:
            return environment
        result = {"GNUARMEMB_TOOLCHAIN_PATH": str(Path(compiler).parent.parent)}
        return environment | {"ZEPHYR_TOOLCHAIN_VARIANT": "gnuarmemb", **result}
    for name in _OTHER_GCC.get(arch, ()):
        if (compiler := which(f"{name}-gcc")) is not None:
            result = {"CROSS_COMPILE": compiler.removesuffix("gcc")}
            return environment | {"ZEPHYR_TOOLCHAIN_VARIANT": "cross-compile", **result}
    packages = f", or apt install gcc-{_OTHER_GCC[arch][0]}" if arch in _OTHER_GCC else ""
    raise ToolError(
        f"there is no compiler for the architecture of the board, {arch}",
        where=str(tree.base),
        hint=f"Install the Zephyr SDK for {arch} (in a workspace: west sdk install){packages}.",
    )


def _has_zephyr_sdk(home: Path) -> bool:
    if any((home / ".cmake" / "packages" / "Zephyr-sdk").glob("*")):
        return True
    return bool(installed_sdks(home))


def installed_sdks(home: Path) -> list[Path]:
    """Folders of Zephyr SDKs where Zephyr looks for them."""
    parents = [*(home / name for name in _SDK_FOLDERS), Path("/opt"), Path("/usr/local")]
    return [path for parent in parents for path in sorted(parent.glob("zephyr-sdk*")) if path.is_dir()]


def _toolchain_of(environment: Mapping[str, str]) -> list[str]:
    names = ("ZEPHYR_TOOLCHAIN_VARIANT", "ZEPHYR_SDK_INSTALL_DIR", "GNUARMEMB_TOOLCHAIN_PATH")
    return [environment.get(name, "") for name in names]


def _workspace(folder: Path, tree: ZephyrTree, setup: ZephyrSetup, which: Which) -> Path | None:
    """The west workspace to build in; None: build with CMake alone."""
    if setup.use_west is False:
        return None
    topdir = workspace_of(tree.base, (setup.here, folder))
    has_west = which("west") is not None
    if setup.use_west is None:
        return topdir if has_west else None
    if topdir is None:
        raise InputError(
            "neither the project nor the Zephyr tree lies in a west workspace",
            where="--west",
            hint="Leave out --west to build with CMake alone, or make a workspace: west init.",
        )
    if not has_west:
        raise ToolError("'west' is not installed", where="--west", hint=install_hint("west"))
    return topdir
