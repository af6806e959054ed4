# SPDX-License-Identifier: Apache-2.0
"""A compiled graph as an archive in the Model Library Format."""

from __future__ import annotations

from mlf_sdk.compiler.build import CompiledGraph
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.frontends.mlf.graphcontent import content_of
from mlf_sdk.frontends.mlf.writer import archive_files
from mlf_sdk.ir.model import FileDigest


def archive_of(
    compiled: CompiledGraph, options: CompileOptions | None = None, made_from: FileDigest | None = None
) -> dict[str, bytes]:
    """Members of the archive, by name; it keeps the options, and which file it was made from."""
    return archive_files(content_of(compiled, options, made_from))
