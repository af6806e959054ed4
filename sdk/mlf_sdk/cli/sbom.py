# SPDX-License-Identifier: Apache-2.0
"""The command ``sbom``: the software bill of materials of a project."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from mlf_sdk.cli import options as opt
from mlf_sdk.cli.output import show, status
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.sbom import make_sbom, write_sbom
from mlf_sdk.report.layout import Parts, counted, line, lines

_EPOCH = "SOURCE_DATE_EPOCH"


def sbom(
    folder: opt.Folder,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Write the SPDX document (JSON) there.")
    ],
    now: Annotated[
        bool,
        typer.Option("--now", help=f"Put the time of now in it, instead of {_EPOCH} or else none."),
    ] = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Write what a project is made of, as SPDX.

    The image is part of it once the project is built.

    Example: mlf-sdk sbom app -o app.spdx.json
    """
    created = datetime.now(timezone.utc) if now else _source_date(os.environ.get(_EPOCH))
    with status(as_json=json) as progress:
        progress.say(f"reading {folder}")
        found = make_sbom(folder, created=created)
        write_sbom(found, output)
    packages = [f"{p.name} {p.version_info}".strip() for p in found.packages]
    parts: Parts = [
        *lines("package", packages),
        line("written", f"{output}: {counted(len(found.files), 'file')}"),
    ]
    result = {
        "output": str(output),
        "packages": [{"name": p.name, "version": p.version_info or None} for p in found.packages],
        "files": len(found.files),
    }
    show(parts, result, as_json=json)


def _source_date(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromtimestamp(int(text), timezone.utc)
    except (ValueError, OverflowError, OSError) as error:
        raise InputError(
            f"no number of seconds since 1970: {text[:40]!r}",
            where=_EPOCH,
            hint=f"Unset {_EPOCH}, or mend it.",
        ) from error
