# SPDX-License-Identifier: Apache-2.0
"""Intermediate representation of a compiled model: frozen, validated, independent of its format."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from mlf_sdk.errors import InputError
from mlf_sdk.ir.abi import PACKED, Abi, Convention
from mlf_sdk.ir.check import check_model
from mlf_sdk.ir.dtype import DType

ALIGNMENT = 16  # of arenas, buffers and parameters, in bytes, unless a model asks for more


class TensorKind(enum.Enum):
    """Origin and lifetime of a tensor's bytes."""

    INPUT = "input"  # written by the caller before a run
    CONSTANT = "constant"  # in the parameters, never written
    INTERMEDIATE = "intermediate"  # written by a step, valid within a run
    STATE = "state"  # keeps its value from one run to the next; initialised once


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantisation:
    """Affine quantisation: real value = scale * (stored value - zero point).

    Attributes:
        scale, zero_point: one for the whole tensor, or one for each index along ``axis``.
        axis: of per-axis quantisation; None for the whole tensor.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor of a model.

    Attributes:
        id: index into ``Model.tensors``.
        name: the name in the archive, for people.
        c_name: legal, unique and bounded C identifier fragment.
        shape: extents; empty for a scalar.
        alias_of: id of the tensor whose storage this one shares.
        offset_bytes: distance from the start of that tensor's storage.
        data: a constant's bytes, or the initial ones of a state (None: zeros); little-endian, row-major.
        quantisation: None for a tensor that is not quantised, or where the file does not state it.
    """

    id: int
    name: str
    c_name: str
    dtype: DType
    shape: tuple[int, ...]
    kind: TensorKind
    alias_of: int | None = None
    offset_bytes: int = 0
    data: bytes | None = field(default=None, repr=False)
    quantisation: Quantisation | None = None

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
    """Scratch memory of one step.

    Attributes:
        slot: number by which `Abi.arguments` passes it; of one that the runtime hands out, its depth of
            nesting.
    """

    slot: int
    size_bytes: int
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Permission to place an output over an input of the same step.

    Attributes:
        input, output: positions in ``Step.inputs`` and ``Step.outputs``.
        distance_bytes: the output may start this far, or further, before the start of the input.
    """

    input: int
    output: int
    distance_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call at run time.

    Attributes:
        name: function name in the archive.
        symbol: C symbol that is called.
        abi: what is passed to it.
        inputs, outputs: tensor ids in argument order.
        writes: positions in ``inputs`` that the step writes to as well.
        overlaps: outputs that may lie over an input.
        phases: top-level statements of the kernel, 1 when not known.
        spans: one an argument (inputs, then outputs).
        workspaces: those that ``abi`` passes, and those that the runtime hands out by depth of nesting.
        workspace_stack_bytes: highest byte of a last-in-first-out workspace that the runtime hands out
            in place of slots; 0 for none.
        kernels: functions that the step calls and that the image must hold.
        exact: false when workspaces are a bound, not a replay.
    """

    index: int
    name: str
    symbol: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    abi: Abi = PACKED
    writes: tuple[int, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    phases: int = 1
    spans: tuple[Span, ...] = ()
    workspaces: tuple[Workspace, ...] = ()
    workspace_stack_bytes: int = 0
    kernels: tuple[str, ...] = ()
    exact: bool = True

    @property
    def arguments(self) -> tuple[int, ...]:
        """Tensor ids of all arguments: inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def is_packed(self) -> bool:
        """Whether it is called by TVM's packed convention."""
        return self.abi.convention is Convention.PACKED

    @property
    def is_direct(self) -> bool:
        """Whether the runtime can call it without an adapter: a packed kernel that takes slots at most."""
        return self.is_packed and not self.workspace_stack_bytes

    @property
    def allocated(self) -> tuple[Workspace, ...]:
        """Workspaces that the runtime hands out, by slot."""
        passed = self.abi.slots
        return tuple(sorted((w for w in self.workspaces if w.slot not in passed), key=lambda w: w.slot))

    @property
    def stack_slot(self) -> int:
        """Number of the last-in-first-out workspace among the step's workspaces."""
        return 1 + max((w.slot for w in self.workspaces), default=-1)

    @property
    def workspace_bytes(self) -> int:
        """Bytes of all workspaces."""
        return sum(w.size_bytes for w in self.workspaces) + self.workspace_stack_bytes


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
    """A compiled model, ready to be planned and rendered.

    Attributes:
        executor: kind of schedule that the compiler made, e.g. ``graph`` or ``aot``.
        targets: as the compiler was told them.
        steps: in an order in which they can run.
        symbol_prefix: of all functions; displays leave it out.
        alignment: bytes; of the arena, its buffers and the constants.

    Raises:
        InputError: the parts contradict each other; says where.
    """

    name: str
    c_name: str
    provenance: Provenance
    executor: str
    targets: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    output_names: tuple[str, ...]
    steps: tuple[Step, ...]
    units: tuple[CodeUnit, ...]
    summary: MemorySummary
    symbol_prefix: str = ""
    alignment: int = ALIGNMENT

    def __post_init__(self) -> None:
        """Check the model."""
        check_model(self)

    def label(self, name: str) -> str:
        """Name of a function for a display."""
        return name.removeprefix(self.symbol_prefix) or name

    def root(self, tensor: int) -> Tensor:
        """The tensor that owns the storage of ``tensor``."""
        found = self.tensors[tensor]
        while found.alias_of is not None:
            found = self.tensors[found.alias_of]
        return found

    def offset_in_root(self, tensor: int) -> int:
        """Bytes from the start of the storage that ``tensor`` shares to its own start."""
        found, offset = self.tensors[tensor], 0
        while found.alias_of is not None:
            offset += found.offset_bytes
            found = self.tensors[found.alias_of]
        return offset

    @property
    def states(self) -> tuple[Tensor, ...]:
        """Tensors that keep their value from one run to the next, without aliases."""
        return tuple(t for t in self.tensors if t.kind is TensorKind.STATE and t.alias_of is None)

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
