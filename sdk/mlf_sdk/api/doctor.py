# SPDX-License-Identifier: Apache-2.0
"""Examinations: of this machine's tools, and of an archive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.formats.mlf import load_mlf
from mlf_sdk.model.build import build_model, choose_module
from mlf_sdk.model.oddities import Oddity, find_oddities
from mlf_sdk.model.types import Model
from mlf_sdk.tools.discovery import ToolStatus, find_tools
from mlf_sdk.tools.west import ZephyrSetup
from mlf_sdk.tools.zephyrdoctor import ZephyrExamination, examine_zephyr


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineExamination:
    """The tools of this machine, and what of Zephyr is here (only its users need it)."""

    tools: tuple[ToolStatus, ...]
    zephyr: ZephyrExamination

    @property
    def ok(self) -> bool:
        """Whether all tools are here that emulated boards need."""
        return all(status.ok for status in self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveExamination:
    """What is odd in one module of an archive that can be deployed."""

    model: Model
    oddities: tuple[Oddity, ...]


def examine_machine(zephyr: ZephyrSetup | None = None) -> MachineExamination:
    """Look for every tool that the SDK runs, and for Zephyr."""
    found = examine_zephyr(zephyr or ZephyrSetup(), here=Path.cwd())
    return MachineExamination(tools=find_tools(), zephyr=found)


def examine_archive(path: Path, module: str | None = None) -> ArchiveExamination:
    """Read an archive and say what is odd in it.

    Raises:
        ArchiveError: it is broken; all of its faults at once.
    """
    archive = load_mlf(path)
    model = build_model(archive, module=module)
    raw = choose_module(archive, module)
    return ArchiveExamination(model=model, oddities=find_oddities(archive, raw, model))
