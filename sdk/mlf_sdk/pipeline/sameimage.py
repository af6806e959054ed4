# SPDX-License-Identifier: Apache-2.0
"""Guard of results: a board on a port must run the image that its results are attributed to."""

from __future__ import annotations

from pathlib import Path

from mlf_sdk.analysis.elf.info import read_firmware_info
from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.pipeline.project import TargetProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.triage import find_firmware
from mlf_sdk.wire.device import DeviceInfo


def expected_image(request: Request, project: TargetProject | None, elf: Path | None) -> Path | None:
    """Return the image that a board on a port must run; None: any image that holds the model.

    Args:
        request: its option ``image`` names an ELF file or a built project.
        project: a project that the user named stands for its own image; one made from an archive does not.
        elf: the project's linked image.

    Raises:
        InputError: the option names no image, or a project that is not built.
    """
    if request.image is None:
        return elf if project is not None and project.is_given else None
    return find_firmware(request.image).elf


def check_same_image(device: DeviceInfo, elf: Path, port: str) -> None:
    """Refuse a board whose build id is not that of an image.

    Raises:
        InputError: the image has no build id.
        TargetError: the board reports another build id, or none.
    """
    built = read_firmware_info(elf.read_bytes(), str(elf)).build_id
    if not built:
        raise InputError(
            "the image has no build id: nothing can show that the board runs it",
            where=str(elf),
            hint="Link it with --build-id=sha1, as the generated build does.",
        )
    if not device.build_id:
        raise TargetError(
            f"the board does not tell its build id; the image has {built}",
            where=port,
            hint="Is src/main.c yours? Its mlf_rpc_config_t needs .build_id = mlf_build_id.",
        )
    if device.build_id != built:
        raise TargetError(
            f"the board runs another image of the same model: build id {device.build_id}; "
            f"the expected image has {built} ({elf})",
            where=port,
            hint="Flash the project; or give the archive without --image, to run the model that the board "
            "holds.",
        )
