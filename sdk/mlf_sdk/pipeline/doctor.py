# SPDX-License-Identifier: Apache-2.0
"""Examinations: of this machine's tools, and of an archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlf_sdk.errors import InputError
from mlf_sdk.frontends import examine
from mlf_sdk.frontends.sources import with_sources
from mlf_sdk.ir.model import Finding, Model
from mlf_sdk.pipeline import stages
from mlf_sdk.pipeline.loading import stated_in
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.stages import for_core
from mlf_sdk.targets.boards import DEFAULT_BOARD
from mlf_sdk.targets.boards.findings import board_findings
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.compilers import source_compiler
from mlf_sdk.targets.target import ZEPHYR
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.targets.zephyr.doctor import ZephyrExamination, examine_zephyr
from mlf_sdk.tools.discovery import ToolStatus, find_tools
from mlf_sdk.tools.isas import load_isas


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineExamination:
    """Tools of this machine, and its Zephyr installation (optional).

    Attributes:
        used: by kind of emulated boards, the compiler and the emulator that are used for them; those that
            can't be built or started here are left out.
    """

    tools: tuple[ToolStatus, ...]
    zephyr: ZephyrExamination
    used: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Return whether all tools that emulated boards need are installed."""
        return all(status.ok for status in self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveExamination:
    """Findings about one module of an archive."""

    model: Model
    findings: tuple[Finding, ...]
    board: str | None = None

    @property
    def ok(self) -> bool:
        """Return whether the module can be deployed (on the board, if one was named)."""
        return not any(finding.blocks for finding in self.findings)


def examine_machine(request: Request | None = None) -> MachineExamination:
    """Look for every tool that the SDK runs, and for Zephyr.

    Args:
        request: its Zephyr options.
    """
    asked = request or Request()
    setup = ZephyrSetup(base=Path(asked.zephyr_base) if asked.zephyr_base else None)
    tools = find_tools()
    return MachineExamination(tools=tools, zephyr=examine_zephyr(setup), used=_used(tools))


def _used(tools: Sequence[ToolStatus]) -> dict[str, tuple[str, ...]]:
    """Compiler and emulator by title of an architecture."""
    by_name = {one.tool.name: one for one in tools}
    result = {}
    for isa in load_isas().values():
        needed = [by_name[name] for name in (isa.tools.c, isa.tools.emulator) if name in by_name]
        names = [one.tool.name if one.runs else one.replaced_by for one in needed]
        if all(names):
            result[isa.title] = tuple(f"{name} {by_name[name].version or ''}".strip() for name in names)
    return result


def examine_request(request: Request, pipeline: Pipeline) -> ArchiveExamination:
    """Examine an archive for unusual properties, also for the request's board if it names one.

    Raises:
        ArchiveError: it is broken; all of its faults at once.
        InputError: there is no such board.
    """
    request = for_core(request)
    board = None
    if request.board is not None and request.platform != ZEPHYR:
        board = stages.board_of(request)
    options = stages.project_options(request)
    compiler = source_compiler(board or find_board(DEFAULT_BOARD), options)
    result = examine(Path(request.source[0]), request.module, stated_in(request), compiler)
    model = with_sources(result.model, [Path(path) for path in request.more_sources])
    findings = result.findings
    if board is not None:
        findings += board_findings(model, board)
        if not any(o.blocks for o in findings) and not model.external_headers:
            findings += _misfit(request, pipeline)
    return ArchiveExamination(model=model, findings=findings, board=board.name if board else None)


def _misfit(request: Request, pipeline: Pipeline) -> tuple[Finding, ...]:
    """Finding that the board's memories are too small."""
    try:
        pipeline.plan(request.replace(port=None))
    except InputError as error:
        where = f"board {request.board}"
        return (Finding(where=where, what=error.what, handled=error.hint, blocks=True),)
    return ()
