# SPDX-License-Identifier: Apache-2.0
"""Errors of Zephyr's build: the lines that matter, and the command that brings what is missing."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from mlf_sdk.errors import DoesNotFitError, MlfError, ToolError
from mlf_sdk.targets.cmake import build_error
from mlf_sdk.targets.zephyr.buildfolder import BuildFolder
from mlf_sdk.tools.files import file_text
from mlf_sdk.tools.process import ProcessResult

_LONGEST_LINE = 500  # the command of a link is longer, and says nothing
_KCONFIG = "Aborting due to Kconfig warnings"
_WARNING = re.compile(r"^(?:(\S+): )?warning: (.+)$", re.MULTILINE)
_GENERATED = "/zephyr/misc/generated/"  # in a build folder; options of the command line are written there
_BOARD_DTS = re.compile(r"(/\S+/boards/\S+\.dts)\b")
_DEFINED = re.compile(r"\bdefined at ([^\s,):]+)")  # where Kconfig has an option that it warns of
_GLUE = re.compile(r"modules/([A-Za-z0-9_-]+)/Kconfig\b")  # options of a module in Zephyr's own tree
_MODULE = re.compile(r'^"([^"]+)":', re.MULTILINE)
_INCLUDE = re.compile(r'#include [<"](?:arm/|arm64/|riscv/|xtensa/)?([a-z0-9_-]+)/')
_CMSIS = re.compile(
    r"(core_cm|cmsis_core)\S*\.h: No such file|HAS_CMSIS_CORE .* has direct dependencies|"
    r"undefined symbol \S*CMSIS_CORE|cmsis_compiler\.h: No such file"
)

# Folder of a vendor in dts -> Zephyr's module with its headers and drivers.
_HALS = {
    "nordic": "hal_nordic",
    "st": "hal_stm32",
    "nxp": "hal_nxp",
    "rpi_pico": "hal_rpi_pico",
    "raspberrypi": "hal_rpi_pico",
    "espressif": "hal_espressif",
    "atmel": "hal_atmel",
    "silabs": "hal_silabs",
    "renesas": "hal_renesas",
    "infineon": "hal_infineon",
    "gigadevice": "hal_gigadevice",
    "gd": "hal_gigadevice",
}
_MORE = {"hal_espressif": "; then its binary parts: west blobs fetch hal_espressif"}

_CORRECT = "Correct prj.conf, or move it away and generate the project again for this version."
_RENEW = (
    "No option of the project is the cause: the tree {tree} is not whole, or its modules are of another "
    "version (in a workspace: west update)."
)

_CONF_ENTRIES = ("CONF_FILE", "EXTRA_CONF_FILE", "OVERLAY_CONFIG")  # of CMake's cache

# Output of Zephyr's build -> hint.
_HINTS = (
    (
        r"No module named",
        "Install what Zephyr's scripts need: pip install -r $ZEPHYR_BASE/scripts/requirements.txt",
    ),
    (
        r"No board named|Invalid BOARD|Board qualifiers",
        "See the boards of this tree: west boards, or the folders in $ZEPHYR_BASE/boards.",
    ),
    (
        r"ZEPHYR_TOOLCHAIN_VARIANT|Could not find a package configuration file provided by \"Zephyr-sdk\"",
        "Install the Zephyr SDK (in a workspace: west sdk install), or set ZEPHYR_TOOLCHAIN_VARIANT as "
        "Zephyr documents it.",
    ),
    (
        r"libc-header-start\.h: No such file|skipping incompatible",
        "A 32-bit program needs gcc-multilib; or choose the 64-bit board, native_sim_64.",
    ),
    (
        r"cannot find -lm|ABI is incompatible with that of the selected emulation",
        "The compiler has no libraries for the CPU as Zephyr names it: install the Zephyr SDK "
        "(in a workspace: west sdk install).",
    ),
)


def explain_build(
    argv: list[str], folder: Path, result: ProcessResult, *, build: Path, tree: Path, topdir: Path | None
) -> MlfError:
    """Return the error of a failed command of a build.

    Args:
        argv: the command.
        folder: of the project.
        result: of the command.
        build: the build folder.
        tree: the Zephyr tree.
        topdir: the west workspace that the command ran in; None: there was none.
    """
    output = result.stdout + result.stderr
    shown = "\n".join(line for line in output.splitlines() if len(line) <= _LONGEST_LINE)
    error = build_error(argv, folder, dataclasses.replace(result, stdout=shown, stderr=""))
    if isinstance(error, DoesNotFitError):
        return error
    hints = [hint for words, hint in _HINTS if re.search(words, shown)]
    missing = _missing_module(output, build, tree)
    if missing:
        return ToolError(
            f"Zephyr's module {missing} is missing, which the board needs; the build said:\n  "
            + "\n  ".join(error.what.splitlines()[1:] or [error.what]),
            where=str(folder),
            hint=_bring(missing, topdir),
        )
    if _KCONFIG in output and (warnings := _WARNING.findall(output)):
        place, warning = warnings[0]
        of_file = place and _GENERATED not in place
        correct = f"Correct {place}." if of_file else _correction(warning, folder, build)
        return ToolError(
            f"Zephyr refuses the options: {warning}",
            where=place if of_file else str(folder),
            hint=hints[0] if hints else correct or _RENEW.format(tree=tree),
        )
    if hints:
        error.hint = hints[0]
    return error


def _correction(warning: str, folder: Path, build: Path) -> str:
    """Say what sets, or defines, the option that Kconfig warns of; empty: nothing of the project.

    Args:
        folder: of the project.
        build: the build folder; its cache holds options of the command line, and names files of options.
    """
    cache = BuildFolder(path=build).cache()
    named = {name for name in re.findall(r"\b[A-Z][A-Z0-9_]+\b", warning) if len(name) > 1}
    for name in sorted(named):
        for entry in (f"CONFIG_{name}", f"CLI_CONFIG_{name}"):
            if entry in cache:
                given = f"-DCONFIG_{name}={cache[entry]}"
                return f"{given} was given to this build or an earlier one; drop it: -- -UCONFIG_{name}"
    more = re.split(r"[; ]", ";".join(cache.get(entry, "") for entry in _CONF_ENTRIES))
    files = [folder / "prj.conf", *sorted(folder.glob("boards/*.conf")), *(folder / p for p in more if p)]
    setting = re.compile(rf"^CONFIG_({'|'.join(sorted(named))})=", re.MULTILINE)
    owner = next((path for path in files if setting.search(file_text(path))), None) if named else None
    places = _DEFINED.findall(warning)
    if owner is None and places and not any((folder / place).is_file() for place in places):
        return ""
    return _CORRECT if owner in (None, folder / "prj.conf") else f"Correct {owner}."


def _missing_module(output: str, build: Path, tree: Path) -> str:
    """Name the module that the board needs and the build does not see; empty: none."""
    present = _MODULE.findall(file_text(build / "zephyr_modules.txt"))
    dts = _BOARD_DTS.search(output)
    vendors = _INCLUDE.findall(file_text(Path(dts[1]))) if dts else []
    needed = [_HALS[vendor] for vendor in vendors if vendor in _HALS]
    if _KCONFIG in output:
        for _, warning in _WARNING.findall(output):
            needed += [glue[1] for place in _DEFINED.findall(warning) if (glue := _GLUE.match(place))]
    if _CMSIS.search(output):
        needed += ["cmsis", *(["cmsis_6"] if (tree / "modules" / "cmsis_6").is_dir() else [])]
    return next((name for name in needed if name not in present), "")


def _bring(module: str, topdir: Path | None) -> str:
    more = _MORE.get(module, "")
    if topdir is not None:
        return f"Fetch it in the workspace: cd {topdir} && west update {module}{more}"
    repository = {"cmsis_6": "CMSIS_6"}.get(module, module)
    return (
        f"Fetch https://github.com/zephyrproject-rtos/{repository} with git clone, at the revision in the "
        f"tree's west.yml, and pass --zephyr-module {module}; or build in a west workspace, after: "
        f"west update {module}{more}"
    )
