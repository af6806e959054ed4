# SPDX-License-Identifier: Apache-2.0
"""Archives that must be refused: broken by accident or made to do harm.

``HOSTILE`` maps a description to the bytes of an archive file. ``SAYS`` maps the same description to
what the error must say: the place, the reason, or both. These end in one InputError (exit code 2)
within seconds and in bounded memory. ``GOOD`` are the members of the archive that they are made from.
"""

from __future__ import annotations

from hostile_base import GOOD, HOSTILE, SAYS
from hostile_container import add_compressed, add_cuts, add_headers, add_kinds, add_paths
from hostile_graph import add_graph
from hostile_members import add_code, add_params, add_several
from hostile_metadata import add_metadata

__all__ = ["GOOD", "HOSTILE", "SAYS"]

for _section in (
    add_paths,
    add_kinds,
    add_headers,
    add_cuts,
    add_compressed,
    add_metadata,
    add_graph,
    add_params,
    add_code,
    add_several,
):
    _section()
