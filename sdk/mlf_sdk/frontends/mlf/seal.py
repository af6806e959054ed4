# SPDX-License-Identifier: Apache-2.0
"""The seal of an archive: a hash by which its reader sees that nothing was changed since it was written.

Facts about kernels hold for the code that they were stated about. A seal that fits says that facts, graph,
parameters and code are those that were written together; it does not say by whom. Facts of an archive
without one are a stranger's: `mlf_sdk.frontends.statedfacts` holds them against the code, and what can't be
held against it does not count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mlf_sdk.frontends.mlf.extension import KEY
from mlf_sdk.frontends.mlf.metadata_memory import MEMBER

_SEAL: Final = "seal"


def seal_of(files: Mapping[str, bytes]) -> str:
    """Hash of all members of an archive, in hex; the seal in its metadata is left out.

    Args:
        files: by member; the metadata is JSON that was read before.
    """
    digest = hashlib.sha256()
    for member in sorted(files):
        data = _without_seal(files[member]) if member == MEMBER else files[member]
        digest.update(msgspec.msgpack.encode((member.removeprefix("./"), data)))
    return digest.hexdigest()


def _without_seal(data: bytes) -> bytes:
    document: dict[str, Any] = msgspec.json.decode(data)
    modules = document.get("modules")
    for module in modules.values() if isinstance(modules, dict) else ():
        stated = module.get(KEY) if isinstance(module, dict) else None
        if isinstance(stated, dict):
            stated.pop(_SEAL, None)
    return msgspec.json.encode(document, order="deterministic")
