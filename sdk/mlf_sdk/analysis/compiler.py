# SPDX-License-Identifier: Apache-2.0
"""The compiler that a build runs on the sources of an archive."""

from __future__ import annotations

import msgspec


class Compiler(msgspec.Struct, frozen=True, kw_only=True):
    """A compiler, as the build runs it on an archive's sources.

    Attributes:
        argv: program and flags.
        include_dirs: folders of headers that are searched before those of the archive.
        library_dirs: folders that are searched after them.
        is_builds: the build uses this compiler; another one may decide conditions differently.
    """

    argv: tuple[str, ...]
    include_dirs: tuple[str, ...] = ()
    library_dirs: tuple[str, ...] = ()
    is_builds: bool = True
