# SPDX-License-Identifier: Apache-2.0
"""Table in which a frontend collects the tensors of a model."""

from __future__ import annotations

from collections.abc import Iterable

from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import Quantisation, Tensor, TensorKind
from mlf_sdk.ir.names import NameTable


class TensorTable:
    """Collects tensors; gives each an id and a C name.

    Attributes:
        tensors: by id.
    """

    def __init__(self, tensors: Iterable[Tensor] = ()) -> None:
        """Begin with ``tensors``."""
        self.tensors = list(tensors)
        self._names = NameTable(frozenset(t.c_name.lower() for t in self.tensors))

    def add(
        self,
        name: str,
        dtype: DType,
        shape: tuple[int, ...],
        kind: TensorKind,
        *,
        alias_of: int | None = None,
        offset_bytes: int = 0,
        data: bytes | None = None,
        quantisation: Quantisation | None = None,
    ) -> int:
        """Add a tensor and return its id."""
        tensor = Tensor(
            id=len(self.tensors),
            name=name,
            c_name=self._names.unique(name, fallback="tensor"),
            dtype=dtype,
            shape=shape,
            kind=kind,
            alias_of=alias_of,
            offset_bytes=offset_bytes,
            data=data,
            quantisation=quantisation,
        )
        self.tensors.append(tensor)
        return tensor.id
