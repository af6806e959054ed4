# SPDX-License-Identifier: Apache-2.0
"""Text and values of ``doctor``: missing tools, and findings in an archive."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from mlf_sdk.pipeline.doctor import ArchiveExamination, MachineExamination
from mlf_sdk.reporting.layout import Parts, counted, executor_text, line, lines, table, verdict
from mlf_sdk.reporting.values import Values, result_values
from mlf_sdk.targets.zephyr.doctor import ZephyrExamination, module_name
from mlf_sdk.tools.discovery import ToolStatus
from mlf_sdk.tools.programs import install_command

Examination = ArchiveExamination | MachineExamination


def doctor_parts(examination: Examination) -> Parts:
    """Lay out an examination."""
    return _machine(examination) if isinstance(examination, MachineExamination) else _archive(examination)


def doctor_values(examination: Examination) -> Values:
    """Examination as plain values."""
    if isinstance(examination, MachineExamination):
        return result_values(examination)
    origin, values = examination.model.provenance, result_values(examination)
    module = values.pop("model")
    return {**values, "archive": origin.source, "archive_sha256": origin.sha256, "module": module}


def _machine(machine_examination: MachineExamination) -> Parts:
    rows = [(s.tool.name, s.version or "-", _mark(s), s.tool.purpose) for s in machine_examination.tools]
    wanted = [s for s in machine_examination.tools if s.hint]
    missing = [s.tool.name for s in machine_examination.tools if not s.ok]
    replaced = [s for s in machine_examination.tools if s.tool.required and s.replaced_by and s.tool.lost]
    text = f"missing: {', '.join(missing)}" if missing else _complete(replaced)
    return [
        table(("=tool", "=version", "=", "what for"), rows),
        "",
        *lines("to get", [f"{s.tool.name}: {_remedy(s)}" for s in wanted]),
        *([""] if wanted else []),
        *lines(
            "used", [f"{title}: {' and '.join(names)}" for title, names in machine_examination.used.items()]
        ),
        *lines("better", [f"{s.tool.name}, for what {s.replaced_by} can't: {s.tool.lost}" for s in replaced]),
        "",
        *_zephyr(machine_examination.zephyr),
        line("verdict", text, verdict(machine_examination.ok)),
    ]


def _complete(replaced: Sequence[ToolStatus]) -> str:
    if not replaced:
        return "all tools for emulated boards are installed"
    others = " and ".join(dict.fromkeys(one.replaced_by for one in replaced))
    return f"emulated boards work, with {others}"


def _zephyr(zephyr_examination: ZephyrExamination) -> Parts:
    """Lay out trees, modules, toolchains and west."""
    trees = [f"{t.source}: {t.fault or t.version}, {t.path}" for t in zephyr_examination.trees]
    toolchains = [
        " ".join(filter(None, (t.variant, t.version, str(t.path)))) for t in zephyr_examination.toolchains
    ]
    west = f"workspace {zephyr_examination.topdir}" if zephyr_examination.topdir else "no workspace"
    modules = ", ".join(map(module_name, zephyr_examination.modules))
    return [
        line("Zephyr", zephyr_examination.builds),
        *lines("trees", trees),
        *([line("modules", modules)] if modules else []),
        *lines("toolchains", toolchains),
        line("west", f"{zephyr_examination.west or 'not installed'}, {west}"),
        "",
    ]


def _remedy(status: ToolStatus) -> str:
    """Command that installs a missing tool; the fault of one that does not run."""
    return (install_command(status.tool.name) if status.path is None else "") or status.hint


def _mark(status: ToolStatus) -> Text:
    if not status.ok:
        return Text("MISSING" if status.path is None else "BROKEN", style="bold red")
    if status.replaced_by and status.tool.required:
        return Text(status.replaced_by, style="yellow")
    return Text("ok", style="green") if status.path is not None else Text("optional")


def _archive(archive_examination: ArchiveExamination) -> Parts:
    model = archive_examination.model
    about = f"{model.provenance.format_text}, {executor_text(model.executor)}, module {model.name}"
    parts: Parts = [line("archive", f"{model.provenance.source}: {about}")]
    parts += [line("entry", model.entry)] if model.entry else []
    for finding in archive_examination.findings:
        parts += ["", line("where", finding.where), line("finding", finding.what)]
        parts.append(line("handled", finding.handled))
    on_board = f" on {archive_examination.board}" if archive_examination.board else ""
    if not archive_examination.findings:
        return [*parts, line("verdict", f"nothing odd; it can be deployed{on_board}")]
    can = "all handled: it can" if archive_examination.ok else "not all can be handled: it can't"
    text = f"{counted(len(archive_examination.findings), 'finding')}, {can} be deployed{on_board}"
    return [
        *parts,
        "",
        line("verdict", text, verdict(archive_examination.ok) if archive_examination.board else None),
    ]
