# SPDX-License-Identifier: Apache-2.0
"""Code beside an archive: functions that its code needs and that the user supplies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

from mlf_sdk.errors import FaultCollector, InputError
from mlf_sdk.frontends.code import KINDS, CodeFile, index_code
from mlf_sdk.ir.model import CodeUnit, Model
from mlf_sdk.ir.names import NameTable
from mlf_sdk.tools.files import read_bounded

_FOLDER: Final = "supplied"
_MAX_BYTES: Final = 64 << 20


def with_sources(model: Model, paths: Sequence[Path]) -> Model:
    """Add source, header and object files to the code of a model.

    Raises:
        InputError: a file can't be read, is of another kind, or two have one name.
        ArchiveError: the code is broken.
    """
    if not paths:
        return model
    names = NameTable()
    files = {}
    for path in paths:
        kind = KINDS.get(path.suffix)
        if kind is None:
            raise InputError(
                f"'{path.suffix}' is no kind of source", where=str(path), hint=f"Give: {', '.join(KINDS)}."
            )
        stem = path.stem if kind == "h" else names.unique(path.stem)
        files[f"{_FOLDER}/{stem}.{kind}"] = read_bounded(path, _MAX_BYTES)
    return dataclasses.replace(model, units=(*model.units, *units_of(files, "--source")))


def units_of(files: Mapping[str, bytes], flag: str) -> tuple[CodeUnit, ...]:
    """Units of code that the user gave, all of them linked.

    Args:
        files: contents by member.
        flag: by which they were given.

    Raises:
        ArchiveError: the code is broken.
    """
    faults = FaultCollector(flag)
    kinds = {member: KINDS[PurePath(member).suffix] for member in files}
    code = index_code((CodeFile(member=m, kind=kinds[m], data=files[m]) for m in files), faults)
    faults.raise_if_any()
    return code.units(code.files)
