# SPDX-License-Identifier: Apache-2.0
"""The reader of Thumb code for ``analysis.machine.registry``; the disassembler is loaded when needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlf_sdk.analysis.thumb.attributes import read_attributes
from mlf_sdk.analysis.thumb.doubles import computes_in_double

if TYPE_CHECKING:
    from mlf_sdk.analysis.elf.image import Image
    from mlf_sdk.analysis.elf.raw import RawElf
    from mlf_sdk.analysis.machine.registry import ObjectWorkspace
    from mlf_sdk.analysis.thumb.code import ThumbCode

__all__ = [
    "code_of",
    "computes_in_double",
    "kernel_workspaces",
    "read_attributes",
]


def code_of(image: Image) -> ThumbCode:
    """Return the machine code of an image."""
    from mlf_sdk.analysis.thumb.code import ThumbCode

    return ThumbCode(image)


def kernel_workspaces(elf: RawElf, names: Sequence[str]) -> dict[str, ObjectWorkspace]:
    """Return the workspace that functions of an object ask for, by following its flow of control."""
    from mlf_sdk.analysis.thumb import workspaces

    return workspaces.kernel_workspaces(elf, names)
