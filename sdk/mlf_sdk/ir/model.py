# SPDX-License-Identifier: Apache-2.0
"""Intermediate representation of a compiled model: frozen, validated, independent of its format."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from mlf_sdk.ir.check import check_model
from mlf_sdk.ir.step import Overlap, Span, Step, Stream, Workspace
from mlf_sdk.ir.tensor import Preprocessing, Quantisation, Tensor, TensorKind

__all__ = [
    "ALIGNMENT",
    "CodeUnit",
    "FileDigest",
    "MemorySummary",
    "Model",
    "Overlap",
    "Provenance",
    "Quantisation",
    "Span",
    "Step",
    "Stream",
    "Tensor",
    "TensorKind",
    "UnitKind",
    "Workspace",
]

ALIGNMENT = 16  # of arenas, buffers and parameters, in bytes, unless a model asks for more

OWN_COMPILER = "mlf-sdk"
CALLER_INPUTS = "caller_inputs"
"""Name under which the options of a compilation state that inputs lie in memory of the caller."""


class UnitKind(enum.Enum):
    """Kind of a code unit, by the end of its file's name."""

    C = "c"
    CXX = "cc"
    ASSEMBLY = "S"
    OBJECT = "o"
    HEADER = "h"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeUnit:
    """One file of code from the archive.

    Attributes:
        member: archive member: a relative path inside a folder, e.g. ``codegen/host/src/lib0.c``.
        linked: whether any step needs it.
        symbols: external symbols that it defines.
        headers: that it includes and that neither the archive nor the runtime has.
        clean: it builds without a warning, as the runtime does.
    """

    member: str
    kind: UnitKind
    data: bytes = field(repr=False)
    linked: bool
    symbols: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    clean: bool = False


class FileDigest(msgspec.Struct, frozen=True, kw_only=True):
    """Name of a file without its folder, and the SHA-256 of its content in hex.

    Of a model in several files the hash is that of all contents one behind the other.
    """

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Origin of a model.

    Attributes:
        format: short name of the format, e.g. ``MLF``.
        format_version: as the file states it, e.g. ``7``; empty when it states none.
        compiler: e.g. ``TVM``; `OWN_COMPILER` for models that were compiled here.
        compiler_version: e.g. ``0.11.1``; empty when the file does not state it.
        sha256: hex; of the file, or of the kept files of a folder.
        source: path as given.
        options: of the compiler, where the file states them.
        made_from: the model file that was compiled, where the file states it.
    """

    format: str
    format_version: str
    compiler: str
    compiler_version: str
    sha256: str
    source: str
    options: Mapping[str, str] = field(default_factory=dict)
    made_from: FileDigest | None = None

    @property
    def format_text(self) -> str:
        """Format and version: ``MLF 7``."""
        return f"{self.format} {self.format_version}".rstrip()

    @property
    def compiler_text(self) -> str:
        """Compiler and version: ``TVM 0.11.1``."""
        return f"{self.compiler} {self.compiler_version}".rstrip()


class MemorySummary(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that the archive states for itself, in bytes; None where it states nothing."""

    workspace_bytes: int | None = None
    constants_bytes: int | None = None
    io_bytes: int | None = None
    operators: Mapping[str, int] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A compiled model, ready to be planned and rendered.

    Attributes:
        executor: kind of schedule that the compiler made, e.g. ``graph`` or ``aot``.
        targets: as they were given to the compiler.
        steps: in an order in which they can run.
        symbol_prefix: of all functions; displays leave it out.
        alignment: bytes; of the arena, its buffers and the constants.
        exports: not empty: the objects of its code are joined to one in which only these symbols are seen
            from outside, so that private functions of two models never meet.
        is_analysed: false when `mlf_sdk.frontends.analysis` is still to read its code for a compiler.
        reader: how its code was read, for people; empty when it was not.
        blocked: reason why no project can be made of it; empty for none.
        contents: lines about the file by label, for people: what it holds beside the model.
        entry: how the entry of an ahead-of-time model is run, for people; empty for other models.
        preprocessing: what comes before it; None: nothing.

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
    exports: tuple[str, ...] = ()
    is_analysed: bool = True
    reader: str = ""
    blocked: str = ""
    contents: tuple[tuple[str, tuple[str, ...]], ...] = ()
    entry: str = ""
    preprocessing: Preprocessing | None = None

    def __post_init__(self) -> None:
        """Check the model."""
        check_model(self)

    def label(self, name: str) -> str:
        """Name of a function for a display."""
        return name.removeprefix(self.symbol_prefix) or name

    def root(self, tensor: int) -> Tensor:
        """The tensor that owns the storage of ``tensor``."""
        result = self.tensors[tensor]
        while result.alias_of is not None:
            result = self.tensors[result.alias_of]
        return result

    def offset_in_root(self, tensor: int) -> int:
        """Bytes from the start of the storage that ``tensor`` shares to its own start."""
        result, offset = self.tensors[tensor], 0
        while result.alias_of is not None:
            offset += result.offset_bytes
            result = self.tensors[result.alias_of]
        return offset

    @property
    def stream(self) -> Stream | None:
        """The input that comes row by row; None: all of them are there as a whole."""
        return self.steps[0].stream if self.steps else None

    @property
    def streamed(self) -> int | None:
        """The tensor of that input, which has no memory of its own."""
        return None if self.stream is None else self.inputs[self.stream.input]

    @property
    def caller_inputs(self) -> frozenset[int]:
        """Inputs that lie in memory of the caller, which a run reads and never writes."""
        return frozenset(self.inputs if self.provenance.options.get(CALLER_INPUTS) == "True" else ())

    @property
    def caller_inputs_bytes(self) -> int:
        """Bytes of those inputs."""
        return sum(self.tensors[i].size_bytes for i in self.caller_inputs)

    @property
    def own_steps(self) -> tuple[Step, ...]:
        """Steps without the one that only prepares the input."""
        is_step = self.preprocessing is not None and self.preprocessing.is_step
        return self.steps[1:] if is_step else self.steps

    @property
    def states(self) -> tuple[Tensor, ...]:
        """Tensors that keep their value from one run to the next, without aliases."""
        return tuple(t for t in self.tensors if t.kind is TensorKind.STATE and t.alias_of is None)

    @property
    def constants(self) -> tuple[Tensor, ...]:
        """Constants in the order in which they lie in the parameter blob, without aliases."""
        return tuple(t for t in self.tensors if t.kind is TensorKind.CONSTANT and t.alias_of is None)

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


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something unusual in an archive, and what the SDK does about it.

    Attributes:
        blocks: nothing can be done about it on the board in question.
    """

    where: str
    what: str
    handled: str
    blocks: bool = False


_CODE = frozenset({UnitKind.C, UnitKind.CXX})
_DOUBLE = re.compile(rb"\bdouble\b")
_NO_SCRATCH = re.compile(rb"cmsis_nn_context\s+\w+\s*=\s*\{\s*NULL\s*,\s*0\s*\}")


def needs_cmsis_nn(model: Model) -> bool:
    """Return whether linked code includes a header of CMSIS-NN."""
    return any("arm_nn" in header for header in model.external_headers)


def computes_in_double(model: Model) -> tuple[str, ...]:
    """Members of linked code that computes in double."""
    return tuple(unit.member for unit in linked_sources(model) if _DOUBLE.search(unit.data))


def lacks_scratch(model: Model) -> bool:
    """Return whether the code hands empty scratch buffers to CMSIS-NN, as that for a generic CPU does."""
    return any(_NO_SCRATCH.search(unit.data) for unit in linked_sources(model))


def linked_sources(model: Model) -> Iterator[CodeUnit]:
    """C and C++ sources that are linked."""
    return (unit for unit in model.units if unit.linked and unit.kind in _CODE)
