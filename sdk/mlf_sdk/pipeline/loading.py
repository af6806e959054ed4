# SPDX-License-Identifier: Apache-2.0
"""Stage load, separate from the others because it is light to import."""

from __future__ import annotations

from pathlib import Path

from mlf_sdk import frontends
from mlf_sdk.frontends.sources import with_sources
from mlf_sdk.frontends.stated import Stated
from mlf_sdk.ir.model import Model
from mlf_sdk.pipeline.request import Request


def load(request: Request) -> tuple[Model, ...]:
    """Read each archive of the request.

    Raises:
        ArchiveError: an archive is broken or hostile: all of its faults at once.
        InputError: no such file, an unknown format, or a module must be chosen.
    """
    sources = tuple(Path(path) for path in request.more_sources)
    return tuple(
        with_sources(frontends.load(Path(source), request.module, stated_in(request)), sources)
        for source in request.source
    )


def stated_in(request: Request) -> Stated:
    """Facts about the archive that the request states."""
    return Stated(outputs=request.output_names, types=request.tensor_types)
