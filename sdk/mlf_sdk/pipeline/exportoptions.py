# SPDX-License-Identifier: Apache-2.0
"""Options of ``export`` beside those of the request; light to import, for the command line's help."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.declare import Options, option

FORMATS = (
    "cmake",
    "make",
    "zephyr",
    "cmsis-pack",
    "platformio",
    "arduino",
    "esp-idf",
    "stm32cubeide",
    "keil",
    "iar",
)
_VERSION = re.compile(r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})")


def version_number(value: str, flag: str) -> None:
    """Check a version: three numbers."""
    if not _VERSION.fullmatch(value):
        raise InputError(f"invalid value {value!r}", where=flag, hint="Give three numbers, such as 1.0.2.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions(Options):
    """Options of ``export`` beside those of the request."""

    output: str = option(
        "",
        "Folder of the export: new, or one to renew.",
        flags=("--output", "-o"),
        metavar="DIR",
        required=True,
    )
    to: str = option(
        "cmake",
        "Build system or development environment that it is for.",
        flags=("--as",),
        choices=FORMATS,
        metavar="FORMAT",
        group="Build",
    )
    version: str = option(
        "1.0.0",
        "Version of the package, where a manifest states one.",
        flags=("--package-version",),
        metavar="N.N.N",
        check=version_number,
        group="Build",
    )
    sample_outputs: bool = option(
        False,
        "The example compares its outputs with those of the model on this machine, where it is built and run "
        "for that.",
        group="Build",
    )
    force: bool = option(False, "Replace generated files that you edited; each is kept as NAME.orig.")
