# SPDX-License-Identifier: Apache-2.0
"""Parameters from a file beside the library: TVM's ``.params``, or arrays by name in an ``.npz``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mlf_sdk.errors import FaultCollector, InputError
from mlf_sdk.frontends.mlf.params import LIST_MAGIC, NamedTensor, parse_params
from mlf_sdk.ir.dtype import DType
from mlf_sdk.tools.arrays import read_npz

_MAX_BYTES: Final = 256 << 20


def read_parameters(path: Path) -> tuple[NamedTensor, ...]:
    """Read the parameters in a file, whose format is recognised by content.

    Raises:
        InputError: it can't be read, is damaged, or is too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be read: {what}", where=f"{path}, --params-file") from error
    if len(data) > _MAX_BYTES:
        raise InputError(f"the file has more than {_MAX_BYTES} bytes", where=f"{path}, --params-file")
    if data.startswith(LIST_MAGIC.to_bytes(8, "little")):
        faults = FaultCollector(str(path))
        found = parse_params(data, path.name, faults)
        faults.raise_if_any()
        return found
    arrays = read_npz(path)
    return tuple(
        NamedTensor(name=name, dtype=DType.parse(str(a.dtype)), shape=a.shape, data=a.tobytes())
        for name, a in arrays.items()
    )
