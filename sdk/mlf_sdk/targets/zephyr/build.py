# SPDX-License-Identifier: Apache-2.0
"""Builds a Zephyr application: with ``west build`` in a west workspace, else with CMake and Ninja."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from mlf_sdk.errors import InputError, MlfError, ToolError
from mlf_sdk.targets.cmake import BuildResult, build_error
from mlf_sdk.targets.zephyr.tree import ZephyrTree, find_tree
from mlf_sdk.tools.process import ProcessResult, ProcessRunner, run_process
from mlf_sdk.tools.programs import install_hint

Which = Callable[[str], str | None]
NATIVE_IMAGE = "zephyr.exe"  # a program of this machine
_DOMAINS = "domains.yaml"  # what sysbuild leaves behind
_STAMP = "mlf-build.json"  # in the build folder: how it was configured
_SDK_FOLDERS = ("", ".local", ".local/opt", "bin")  # below the home folder, where Zephyr looks for its SDK

_LONGEST_LINE = 500  # the command of a link is longer, and says nothing
_KCONFIG = "Aborting due to Kconfig warnings"
_WARNING = re.compile(r"^warning: (.+)$", re.MULTILINE)

# What Zephyr's build says, and what helps.
_SEE_BOARDS = "See the boards of this tree: west boards, or the folders in $ZEPHYR_BASE/boards."
_HINTS = (
    (
        r"No module named",
        "Install what Zephyr's scripts need: pip install -r $ZEPHYR_BASE/scripts/requirements.txt",
    ),
    (r"No board named|Invalid BOARD|Board qualifiers", _SEE_BOARDS),
    (
        r"(core_cm|cmsis_core)\S*\.h: No such file|HAS_CMSIS_CORE .* has direct dependencies",
        "Zephyr's CMSIS modules (hal/cmsis, since 4.1 also hal/cmsis_6) are missing: pass --zephyr-module "
        "DIR for each, or build in a west workspace.",
    ),
    (
        r"ZEPHYR_TOOLCHAIN_VARIANT",
        "Install the Zephyr SDK, or set ZEPHYR_TOOLCHAIN_VARIANT as Zephyr documents it.",
    ),
    (
        r"libc-header-start\.h: No such file|skipping incompatible",
        "A 32-bit program needs gcc-multilib; or choose the 64-bit board, native_sim_64.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZephyrSetup:
    """Zephyr on this machine: tree, modules, west, environment.

    Attributes:
        base: the tree; None: ``$ZEPHYR_BASE`` or ``~/zephyrproject/zephyr``.
        modules: folders of Zephyr modules beside those of a west workspace.
        use_west: build with west; None: when the tree or the project lies in a west workspace.
        environ: the environment variables.
        home: the user's home folder.
    """

    base: Path | None = None
    modules: tuple[Path, ...] = ()
    use_west: bool | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    home: Path = field(default_factory=Path.home)

    def tree(self) -> ZephyrTree:
        """The tree to use; see :func:`find_tree`."""
        return find_tree(self.base, self.environ, self.home)

    def module_paths(self) -> tuple[str, ...]:
        """Modules that were given, and those of ``$ZEPHYR_MODULES``, as CMake takes them.

        Raises:
            InputError: a folder that was given does not exist.
        """
        for path in self.modules:
            if not path.is_dir():
                raise InputError("there is no such folder", where=f"--zephyr-module {path}")
        named = self.environ.get("ZEPHYR_MODULES", "").replace(" ", ";").split(";")
        return tuple(dict.fromkeys([*(p.resolve().as_posix() for p in self.modules), *filter(None, named)]))


def west_topdir(start: Path) -> Path | None:
    """The west workspace that ``start`` lies in: the nearest folder above with ``.west``; None: none."""
    path = start.resolve()
    return next((p for p in (path, *path.parents) if (p / ".west" / "config").is_file()), None)


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

    Args:
        extra_modules: the CMake variable that takes more modules in this version.
        is_native: the image is a program of this machine.
        watch: called with each line of the build's output.

    Raises:
        DoesNotFitError: the image needs more memory than the board has.
        ToolError: no tree, a tool is missing, or the build failed; its output ends the message.
    """
    start = time.monotonic()
    tree = setup.tree()
    build = folder / "build"
    topdir = _workspace(folder, tree, setup, which)
    environment = build_environment(tree, setup, is_native=is_native, which=which)
    modules = setup.module_paths()
    defines = [f"-DUSER_CACHE_DIR={build / 'cache'}"]
    if topdir is None:
        defines.append(f"-DZEPHYR_MODULES={';'.join(modules or [folder.as_posix()])}")
        configure = ["cmake", "-GNinja", "-S", str(folder), "-B", str(build), f"-DBOARD={board}", *defines]
        make = ["cmake", "--build", str(build)]
    else:
        if modules:
            defines.append(f"-D{extra_modules}={';'.join(modules)}")
        configure = [
            "west",
            "build",
            "--cmake-only",
            *_no_sysbuild(tree),
            "-d",
            str(build),
            "-b",
            board,
            str(folder),
            "--",
            *defines,
        ]
        make = ["west", "build", "-d", str(build)]

    def step(argv: list[str]) -> str:
        left_s = max(1.0, timeout_s - (time.monotonic() - start))
        result = runner(
            argv, cwd=topdir or folder, env=environment, timeout_s=left_s, check=False, watch=watch
        )
        if result.returncode != 0:
            raise _explain(argv, folder, result)
        return result.stdout

    log = ""
    stamp = msgspec.json.encode([configure, str(tree.base), str(tree.version), _toolchain_of(environment)])
    if not _is_configured(build, stamp):
        shutil.rmtree(build, ignore_errors=True)
        (build / "cache").mkdir(parents=True)
        log += step(configure)
        (build / _STAMP).write_bytes(stamp)
    log += step(make)
    return BuildResult(elf=built_image(folder), seconds=time.monotonic() - start, log=log)


def _no_sysbuild(tree: ZephyrTree) -> list[str]:
    """Return the option that disables sysbuild, if the tree has it: a workspace may enable it by default."""
    return ["--no-sysbuild"] if (tree.base / "share" / "sysbuild").is_dir() else []


def built_image(folder: Path) -> Path:
    """The linked image of a Zephyr application that was built in ``folder/build``.

    Raises:
        InputError: there are the images of sysbuild, which is west's own way to several of them.
    """
    if (folder / "build" / _DOMAINS).is_file():
        raise InputError(
            "the project was built with sysbuild: only west can flash its images",
            where=str(folder / "build"),
            hint=f"Flash them with west flash; or build the project's own image: mlf-sdk build {folder}",
        )
    native = folder / "build" / "zephyr" / NATIVE_IMAGE
    return native if native.is_file() else native.with_name("zephyr.elf")


def build_environment(
    tree: ZephyrTree, setup: ZephyrSetup, *, is_native: bool, which: Which = shutil.which
) -> dict[str, str]:
    """The environment of a build: the tree, the toolchain, and nothing that writes to the user's home.

    The toolchain is what the user's variables say, else the Zephyr SDK where Zephyr finds it, else the
    system's compilers.
    """
    environment = {**setup.environ, "ZEPHYR_BASE": str(tree.base), "CCACHE_DISABLE": "1"}
    environment.pop("ZEPHYR_MODULES", None)
    chosen = {"ZEPHYR_TOOLCHAIN_VARIANT", "ZEPHYR_SDK_INSTALL_DIR"} & {k for k, v in environment.items() if v}
    if chosen or _has_zephyr_sdk(setup.home):
        return environment
    compiler = which("arm-none-eabi-gcc")
    if is_native:
        environment["ZEPHYR_TOOLCHAIN_VARIANT"] = "host"
    elif compiler is not None:
        environment["ZEPHYR_TOOLCHAIN_VARIANT"] = "gnuarmemb"
        environment["GNUARMEMB_TOOLCHAIN_PATH"] = str(Path(compiler).parent.parent)
    return environment


def _has_zephyr_sdk(home: Path) -> bool:
    if any((home / ".cmake" / "packages" / "Zephyr-sdk").glob("*")):
        return True
    parents = [*(home / name for name in _SDK_FOLDERS), Path("/opt"), Path("/usr/local")]
    return any(any(parent.glob("zephyr-sdk*")) for parent in parents)


def _toolchain_of(environment: Mapping[str, str]) -> list[str]:
    names = ("ZEPHYR_TOOLCHAIN_VARIANT", "ZEPHYR_SDK_INSTALL_DIR", "GNUARMEMB_TOOLCHAIN_PATH")
    return [environment.get(name, "") for name in names]


def _workspace(folder: Path, tree: ZephyrTree, setup: ZephyrSetup, which: Which) -> Path | None:
    """The west workspace to build in; None: build with CMake alone."""
    if setup.use_west is False:
        return None
    topdir = west_topdir(folder) or west_topdir(tree.base)
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


def _is_configured(build: Path, stamp: bytes) -> bool:
    written = build / _STAMP
    return (build / "build.ninja").is_file() and written.is_file() and written.read_bytes() == stamp


def _explain(argv: list[str], folder: Path, result: ProcessResult) -> MlfError:
    output = result.stdout + result.stderr
    shown = "\n".join(line for line in output.splitlines() if len(line) <= _LONGEST_LINE)
    error = build_error(argv, folder, dataclasses.replace(result, stdout=shown, stderr=""))
    hints = [hint for words, hint in _HINTS if re.search(words, shown)]
    if hints:
        error.hint = hints[0]
    if _KCONFIG in output and (warnings := _WARNING.findall(output)):
        hints.append("Correct prj.conf, or move it away and generate the project again for this version.")
        return ToolError(f"Zephyr refuses the options: {warnings[0]}", where=str(folder), hint=hints[0])
    return error
