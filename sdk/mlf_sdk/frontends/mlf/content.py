# SPDX-License-Identifier: Apache-2.0
"""Everything that an archive in the Model Library Format says of a model, before it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from mlf_sdk.frontends.mlf.extension import CallFacts, StatedModel
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import FileDigest, MemorySummary
from mlf_sdk.ir.tensor import Quantisation

if TYPE_CHECKING:
    import numpy.typing as npt

Type = tuple[DType, tuple[int, ...]]


class NamedTensor(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter.

    Attributes:
        name: as in the graph.
        dtype: element type.
        shape: extents, outermost first; empty for a scalar.
        data: elements in row-major order, little-endian.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    data: bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of the data."""
        return len(self.data)

    def array(self) -> npt.NDArray[Any]:
        """The data as a read-only numpy array.

        Raises:
            InputError: numpy has no such element type.
        """
        import numpy as np  # slow to import, and not needed to inspect a model

        return np.frombuffer(self.data, dtype=self.dtype.numpy).reshape(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a kernel, or a node that only renames (``__nop``).

    Attributes:
        inputs: names of inputs, parameters, states and results of earlier calls, in argument order.
        outputs: type and shape of each; the first is called as the node, the others ``name:1``...
        facts: of a plain C function; None: it takes TVM's packed arguments.
    """

    name: str
    symbol: str
    inputs: tuple[str, ...]
    outputs: tuple[Type, ...]
    facts: CallFacts | None = None


class ArchiveContent(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an archive holds.

    Attributes:
        code: sources, headers and objects by member, under ``codegen/host``.
        inputs: name and type of each.
        outputs: name of the value, the name that the caller sees, and its type.
        quantisation: of inputs and outputs, by the names of their values.
        params, states: contents by name.
        options: of the compiler.
        calls: in the order of the graph; empty with ``model``.
        sequence: names of inputs, parameters, states and calls in the order of the graph's nodes; empty: in
            the order of these lists.
        summary: memory that the archive states for itself; what is None is counted here.
        targets: as they were given to the compiler.
        symbol_prefix: of all functions; None: the model's name in C.
        model: tensors and steps of a model that a graph can't express.
        made_from: the model file that was compiled.
        clean: members with code that builds without a warning.
    """

    name: str
    compiler: str
    compiler_version: str
    code: Mapping[str, bytes]
    inputs: tuple[tuple[str, Type], ...]
    outputs: tuple[tuple[str, str, Type], ...]
    quantisation: Mapping[str, Quantisation]
    params: tuple[NamedTensor, ...]
    states: tuple[NamedTensor, ...]
    calls: tuple[Call, ...]
    options: Mapping[str, str] = msgspec.field(default_factory=dict)
    sequence: tuple[str, ...] = ()
    summary: MemorySummary = msgspec.field(default_factory=MemorySummary)
    targets: tuple[str, ...] = ("c -keys=cpu",)
    symbol_prefix: str | None = None
    model: StatedModel | None = None
    made_from: FileDigest | None = None
    clean: tuple[str, ...] = ()

    @property
    def workspaces(self) -> dict[str, int]:
        """Workspace of each function in bytes: handed out by the allocator, or passed to it."""
        operators = dict(self.summary.operators)
        for call in self.calls:
            if call.facts is not None:
                operators[call.symbol] = max(operators.get(call.symbol, 0), call.facts.workspace_bytes)
        return operators
