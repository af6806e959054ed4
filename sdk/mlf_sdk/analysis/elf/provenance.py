# SPDX-License-Identifier: Apache-2.0
"""Provenance note of a firmware: the archives and options it was generated from (``docs/provenance.md``).

An ELF note with the owner ``mlf-sdk`` and the type 1; its description is one JSON object.
"""

from __future__ import annotations

import msgspec

from mlf_sdk.errors import FaultCollector
from mlf_sdk.tools.jsontext import convert, load_json

SECTION = ".note.mlf"
OWNER = "mlf-sdk"
TYPE = 1
FORMAT = 1
MAX_BYTES = 64 << 10


class NoteModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the firmware, and the archive that it was generated from.

    Attributes:
        format: format of the archive and its version, e.g. ``MLF 7``.
        compiler: that made the archive, and its version, e.g. ``TVM 0.11.1``.
    """

    name: str
    archive_sha256: str = msgspec.field(name="sha256")
    format: str
    compiler: str


class Provenance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sources and options of a generated project.

    Attributes:
        format: of this note; a reader that does not know it reads no further.
        sdk: version of the SDK.
        zephyr: version of Zephyr that it was generated for (major.minor); empty: none.
        cflags: compiler flags of the models' code.
        cmsis_nn: CMSIS-NN is linked.
    """

    format: int
    sdk: str
    platform: str
    board: str
    zephyr: str = ""
    app: str
    executor: str
    params: str
    cflags: str
    keep_inputs: bool = False
    share_arena: bool = False
    trace: bool = False
    cmsis_nn: bool = False
    models: tuple[NoteModel, ...]


class ProvenanceError(ValueError):
    """Unreadable provenance note; the text gives the reason."""


def encode_provenance(provenance: Provenance) -> bytes:
    """The description of the note: JSON without spaces, keys in the order of the class."""
    return msgspec.json.encode(provenance)


def decode_provenance(description: bytes) -> Provenance:
    """The provenance in a note's description; keys that are not known are passed over.

    Raises:
        ProvenanceError: it is too large, no such JSON, or of a format that is not known.
    """
    if len(description) > MAX_BYTES:
        raise ProvenanceError(f"it has {len(description)} bytes; at most {MAX_BYTES} are read")
    faults = FaultCollector("")
    value = load_json(description, "note", faults)
    known = value.get("format") if isinstance(value, dict) else None
    if not faults.faults and known != FORMAT:
        raise ProvenanceError(f"it has the format {known!r}; this SDK reads {FORMAT}"[:200])
    result = None if faults.faults else convert(value, Provenance, "note", "$", faults)
    if result is None:
        fault = faults.faults[0]
        raise ProvenanceError(": ".join(filter(None, (fault.field, fault.what))))
    for index, model in enumerate(result.models):
        if len(model.archive_sha256) != 64 or set(model.archive_sha256) - set("0123456789abcdef"):
            raise ProvenanceError(f"$.models[{index}].sha256: not 64 hexadecimal digits")
    return result
