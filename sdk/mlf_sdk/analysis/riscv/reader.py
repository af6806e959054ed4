# SPDX-License-Identifier: Apache-2.0
"""The reader of RISC-V code for ``analysis.machine.registry``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlf_sdk.analysis.machine.registry import ObjectWorkspace
from mlf_sdk.analysis.riscv.attributes import read_attributes

if TYPE_CHECKING:
    from mlf_sdk.analysis.elf.image import Image
    from mlf_sdk.analysis.elf.raw import RawElf
    from mlf_sdk.analysis.riscv.code import RiscvCode

__all__ = [
    "code_of",
    "computes_in_double",
    "kernel_workspaces",
    "read_attributes",
]


def code_of(image: Image) -> RiscvCode:
    """Return the machine code of an image."""
    from mlf_sdk.analysis.riscv.code import RiscvCode  # needed for linked images only

    return RiscvCode(image)


def computes_in_double(elf: RawElf) -> bool:
    """Return whether the code of an object may compute in double: its attributes say that it may."""
    return True


def kernel_workspaces(elf: RawElf, names: Sequence[str]) -> dict[str, ObjectWorkspace]:
    """Return the workspace that functions of an object ask for: none is followed, so it is not known."""
    reason = "requests in machine code for RISC-V are not followed"
    return {name: ObjectWorkspace(slots=(), exact=False, reason=reason) for name in names}
