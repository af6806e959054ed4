# SPDX-License-Identifier: Apache-2.0
"""Build systems that a model is exported to: one TOML row each, in ``board_templates/exports``."""

from __future__ import annotations

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.resources import data_dir
from mlf_sdk.tools.checks import name_hint
from mlf_sdk.tools.rowfile import read_row


class ExportFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A build system, and the files that it wants beside C sources; ``{name}`` in texts is the export's name.

    Attributes:
        title: noun phrase for people.
        sources: folder of sources and headers: the one include folder.
        example: folder of the example.
        how: text for the README: the way into an application.
        files: path -> template of the manifests, and of the example's entry.
    """

    name: str
    title: str
    sources: str
    example: str
    how: str
    files: dict[str, str]


def export_formats() -> dict[str, ExportFormat]:
    """All formats by name, sorted."""
    folder = data_dir("board_templates") / "exports"
    rows = [read_row(path, ExportFormat) for path in sorted(folder.glob("*.toml"))]
    return {row.name: row for row in rows}


def export_format(name: str) -> ExportFormat:
    """Format of that name.

    Raises:
        InputError: there is none.
    """
    known = export_formats()
    if name not in known:
        raise InputError(f"unknown format '{name}'", where="--as", hint=name_hint(name, known))
    return known[name]
