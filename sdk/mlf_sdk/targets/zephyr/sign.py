# SPDX-License-Identifier: Apache-2.0
"""Signs a build for MCUboot: ``west sign`` with imgtool."""

from __future__ import annotations

import re
from pathlib import Path

from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.targets.zephyr.output import SIGNED, has_option, signed_images
from mlf_sdk.targets.zephyr.west import West
from mlf_sdk.tools.process import ProcessError

_NO_SLOTS = re.compile(r"has no (chosen|partitions|slot0_partition)|no slot0_partition|write-block-size")


class SigningError(ToolError):
    """The image could not be signed."""


def check_key(key: Path) -> Path:
    """The key's absolute path.

    Raises:
        InputError: it is no file.
    """
    if not key.is_file():
        raise InputError(
            "there is no such key",
            where=f"--sign {key}",
            hint="Make one: imgtool keygen -k KEY.pem -t rsa-2048",
        )
    return key.resolve()


def sign_build(build: Path, key: Path, west: West, *, timeout_s: float) -> tuple[Path, ...]:
    """Sign the images in ``build`` with the key in the file ``key``: the paths of the signed ones.

    Raises:
        InputError: no such key, or the image is not linked for MCUboot.
        SigningError: imgtool is missing or failed, or the board has no slots.
    """
    key = check_key(key)
    where = f"--sign {key}"
    if not has_option(build, "BOOTLOADER_MCUBOOT"):
        raise InputError(
            "the image is not linked for the bootloader MCUboot: signed, it would not start",
            where=where,
            hint="Set CONFIG_BOOTLOADER_MCUBOOT=y in prj.conf and build again.",
        )
    for name in SIGNED:
        (build / "zephyr" / name).unlink(missing_ok=True)
    args = ["sign", "-t", "imgtool", "-d", str(build.resolve()), "--", "--key", str(key)]
    try:
        result = west.run(args, timeout_s=timeout_s)
    except ProcessError as error:
        raise SigningError(error.what, where=error.where, hint=error.hint) from error
    output = result.stdout + result.stderr
    if result.returncode != 0:
        raise _explained(output, result.tail(), result.returncode, where)
    images = signed_images(build)
    if not images:
        raise SigningError(
            f"west sign ended with exit code 0 but wrote no {' and no '.join(SIGNED)}; it said:\n"
            f"{_indented(result.tail())}",
            where=where,
            hint="Set CONFIG_BUILD_OUTPUT_HEX=y or CONFIG_BUILD_OUTPUT_BIN=y in prj.conf and build again.",
        )
    return images


def _explained(output: str, tail: str, code: int, where: str) -> SigningError:
    if "imgtool not found" in output:
        return SigningError("'imgtool' is not installed", where=where, hint="Install it: pip install imgtool")
    hint = "See its output for what it says."
    if _NO_SLOTS.search(output):
        hint = (
            "The board's devicetree must have flash partitions for MCUboot (slot0_partition): add an overlay."
        )
    return SigningError(
        f"west sign failed with exit code {code}; it said:\n{_indented(tail)}", where=where, hint=hint
    )


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
