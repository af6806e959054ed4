# SPDX-License-Identifier: Apache-2.0
"""Stage load, separate from the others because it is light to import."""

from __future__ import annotations

from pathlib import Path

from mlf_sdk import frontends
from mlf_sdk.ir.model import Model
from mlf_sdk.pipeline.request import Request


def load(request: Request) -> tuple[Model, ...]:
    """Read each archive of the request.

    Raises:
        ArchiveError: an archive is broken or hostile: all of its faults at once.
        InputError: no such file, an unknown format, or a module must be chosen.
    """
    return tuple(frontends.load(Path(source), request.module) for source in request.source)
