# SPDX-License-Identifier: Apache-2.0
"""The one picture of a model: frozen, validated, and independent of the format it came from."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from mlf_sdk.errors import InputError
from mlf_sdk.ir.dtype import DType


class TensorKind(enum.Enum):
    """Where a tensor's bytes come from."""

    INPUT = "input"
    CONSTANT = "constant"
    INTERMEDIATE = "intermediate"


class StepAbi(enum.Enum):
    """How a step's entry is called."""

    PACKED = "packed"  # TVM packed ABI, one DLTensor* an argument
    POINTERS = "pointers"  # a kernel that takes one plain pointer an argument
    AOT_PACKED = "aot-packed"  # packed entry of a whole model: workspace is a stack
    AOT_C = "aot-c"  # tvmgen_<m>_run(struct inputs *, struct outputs *): workspace is a stack
    AOT_USMP = "aot-usmp"  # tvmgen_<m>___tvm_main__(inputs..., outputs..., pools...)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor of a model.

    Attributes:
        id: index into ``Model.tensors``.
        name: the name in the archive, for people.
        c_name: legal, unique and bounded C identifier fragment.
        shape: extents; empty for a scalar.
        alias_of: id of the tensor whose storage this one shares (``__nop``).
        data: a constant's bytes, little-endian, row-major.
    """

    id: int
    name: str
    c_name: str
    dtype: DType
    shape: tuple[int, ...]
    kind: TensorKind
    alias_of: int | None = None
    data: bytes | None = field(default=None, repr=False)

    @property
    def elements(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def size_bytes(self) -> int:
        """Bytes of one instance."""
        return self.elements * self.dtype.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Phases of a step, first and last inclusive, in which something is accessed."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """One nested workspace request of a kernel: the slot is its depth of nesting."""

    slot: int
    size_bytes: int
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A memory pool that an entry takes (USMP).

    Attributes:
        symbol: the static object in the archive's source, or the field of the interface's struct of pools.
        size_bytes: bytes of a workspace pool.
        constant: true for constants, which stay where the source puts them.
    """

    symbol: str
    size_bytes: int
    constant: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call at run time.

    Attributes:
        name: function name in the archive.
        symbol: C symbol that is called.
        inputs, outputs: tensor ids in argument order.
        phases: top-level statements of the kernel, 1 when not known.
        spans: one an argument (inputs, then outputs).
        workspaces: slots by depth (packed kernels).
        stack_high_water_bytes: workspace of an ahead-of-time entry: the highest byte that is handed out.
        devices: fields of the interface's struct of devices; they are NULL on the CPU.
        exact: false when workspaces are a bound, not a replay.
    """

    index: int
    name: str
    symbol: str
    abi: StepAbi
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    phases: int = 1
    spans: tuple[Span, ...] = ()
    workspaces: tuple[Workspace, ...] = ()
    stack_high_water_bytes: int = 0
    pools: tuple[Pool, ...] = ()
    devices: tuple[str, ...] = ()
    unit: str = ""
    exact: bool = True


# Kernels: their workspaces are slots; the others are entries of whole models.
KERNEL_ABIS = frozenset({StepAbi.PACKED, StepAbi.POINTERS})


class UnitKind(enum.Enum):
    """What a code unit is."""

    C = "c"
    CXX = "cc"
    OBJECT = "o"
    HEADER = "h"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeUnit:
    """One file of code from the archive.

    Attributes:
        member: archive member, legal as a relative path.
        linked: whether any step needs it.
        symbols: external symbols that it defines.
        cpu: CPU name of an object's attributes, else empty.
    """

    member: str
    kind: UnitKind
    data: bytes = field(repr=False)
    linked: bool
    symbols: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Origin of a model.

    Attributes:
        format: short name of the format, e.g. ``MLF``.
        format_version: as the file states it, e.g. ``7``; empty when it states none.
        compiler: e.g. ``TVM``.
        compiler_version: e.g. ``0.11.1``; empty when the file does not state it.
        sha256: hex; of the file, or of the kept files of a folder.
        source: path as given.
    """

    format: str
    format_version: str
    compiler: str
    compiler_version: str
    sha256: str
    source: str

    @property
    def format_text(self) -> str:
        """Format and version: ``MLF 7``."""
        return f"{self.format} {self.format_version}".rstrip()

    @property
    def compiler_text(self) -> str:
        """Compiler and version: ``TVM 0.11.1``."""
        return f"{self.compiler} {self.compiler_version}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySummary:
    """Memory that the archive states for itself, in bytes; None where it states nothing."""

    workspace_bytes: int | None = None
    constants_bytes: int | None = None
    io_bytes: int | None = None
    operators: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A compiled model, ready to be planned and rendered."""

    name: str
    c_name: str
    provenance: Provenance
    executor: str
    targets: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    output_names: tuple[str, ...]
    io_fields: tuple[tuple[str, ...], tuple[str, ...]]
    steps: tuple[Step, ...]
    units: tuple[CodeUnit, ...]
    summary: MemorySummary
    interface_header: str = ""

    def root(self, tensor: int) -> Tensor:
        """The tensor that owns the storage of ``tensor``."""
        found = self.tensors[tensor]
        while found.alias_of is not None:
            found = self.tensors[found.alias_of]
        return found

    @property
    def constants(self) -> tuple[Tensor, ...]:
        """Constants in the order in which they lie in the parameter blob."""
        return tuple(t for t in self.tensors if t.kind is TensorKind.CONSTANT)

    @property
    def io_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Real names of the inputs and of the outputs."""
        return tuple(self.tensors[i].name for i in self.inputs), self.output_names

    @property
    def external_headers(self) -> tuple[str, ...]:
        """Headers that linked sources include and that neither the archive nor the runtime has."""
        seen: dict[str, None] = {}
        for unit in self.units:
            if unit.linked:
                seen.update(dict.fromkeys(unit.headers))
        return tuple(seen)

    def input_index(self, name: str) -> int:
        """Index of the input called ``name`` (or its C name, or its number).

        Raises:
            InputError: there is no such input.
        """
        return _find(name, self.inputs, [self.tensors[i].name for i in self.inputs], self, "input")

    def output_index(self, name: str) -> int:
        """Index of the output called ``name`` (or its number).

        Raises:
            InputError: there is no such output.
        """
        return _find(name, self.outputs, list(self.output_names), self, "output")


def _find(name: str, ids: tuple[int, ...], names: list[str], model: Model, what: str) -> int:
    c_names = [model.tensors[i].c_name for i in ids]
    for table in (names, c_names, [str(i) for i in range(len(ids))]):
        if name in table:
            return table.index(name)
    raise InputError(
        f"there is no {what} called '{name}'",
        where=f"model {model.name}",
        hint=f"Its {what}s are: " + ", ".join(f"'{n}'" for n in names),
    )
