# SPDX-License-Identifier: Apache-2.0
"""Origin of a compiled model in a comment of a bundle's header: compiler, its options, the model file."""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec

from mlf_sdk.errors import FaultCollector
from mlf_sdk.ir.model import FileDigest, Provenance
from mlf_sdk.tools.rowfile import described

_LINE: Final = re.compile(r"^// Origin: (\{.{1,16384}\})$", re.MULTILINE)
_Text = Annotated[str, msgspec.Meta(max_length=4096)]


class Origin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Origin of a model that was compiled before it became a bundle.

    Attributes:
        options: of the compiler.
        made_from: the model file that was compiled.
    """

    compiler: _Text
    compiler_version: _Text
    options: dict[_Text, _Text]
    made_from: FileDigest


def origin_text(provenance: Provenance) -> str:
    """JSON of a model's origin, in ASCII, for one line of a comment; empty: its model file is not known."""
    if provenance.made_from is None:
        return ""
    result = Origin(
        compiler=provenance.compiler,
        compiler_version=provenance.compiler_version,
        options=dict(sorted(provenance.options.items())),
        made_from=provenance.made_from,
    )
    text = msgspec.json.encode(result).decode()
    # Nothing that ends a line of C, or begins a trigraph; JSON has an escape for each.
    return re.sub(r"[^\x20-\x3e\x40-\x7e]|(?<=/)[*/]", _escaped, text)


def parse_origin(text: str, member: str, faults: FaultCollector) -> Origin | None:
    """Read the origin that a header states; None: it states none, or it is broken, and ``faults`` say why."""
    line = _LINE.search(text)
    if line is None:
        return None
    try:
        result = msgspec.json.decode(line[1], type=described(Origin))
    except msgspec.MsgspecError as error:
        faults.add(member, f"the origin is broken: {error}")
        return None
    if not re.fullmatch(r"[0-9a-f]{64}", result.made_from.sha256):
        faults.add(member, "the origin has no SHA-256 of the model file")
        return None
    return result


def _escaped(result: re.Match[str]) -> str:
    units = result[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
