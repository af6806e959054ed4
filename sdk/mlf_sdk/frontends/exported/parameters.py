# SPDX-License-Identifier: Apache-2.0
"""Parameters from a file beside the library: TVM's ``.params``, or arrays by name in an ``.npz``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.mlf.content import NamedTensor
from mlf_sdk.frontends.mlf.params import LIST_MAGIC, parse_params
from mlf_sdk.ir.dtype import DType
from mlf_sdk.tools.arrays import read_npz
from mlf_sdk.tools.files import read_bounded

_MAX_BYTES: Final = 256 << 20


def read_parameters(path: Path) -> tuple[NamedTensor, ...]:
    """Read the parameters in a file, whose format is recognised by content.

    Raises:
        InputError: it can't be read, is damaged, or is too large.
    """
    data = read_bounded(path, _MAX_BYTES, where=f"{path}, --params-file")
    if data.startswith(LIST_MAGIC.to_bytes(8, "little")):
        faults = FaultCollector(str(path))
        params = parse_params(data, path.name, faults)
        faults.raise_if_any()
        return params
    arrays = read_npz(path)
    return tuple(
        NamedTensor(name=name, dtype=DType.parse(str(a.dtype)), shape=a.shape, data=a.tobytes())
        for name, a in arrays.items()
    )
