# SPDX-License-Identifier: Apache-2.0
"""Readers of machine code by architecture (``board_templates/isas`` names them), and depths of stacks."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, cast

import msgspec

from mlf_sdk.tools.isas import Isa, load_isas

if TYPE_CHECKING:
    from mlf_sdk.analysis.elf.image import Function, Image
    from mlf_sdk.analysis.elf.raw import RawElf
    from mlf_sdk.analysis.machine.calls import Call, Frame


class AttributesError(ValueError):
    """Malformed attributes section; the text gives the reason."""


class ObjectWorkspace(msgspec.Struct, frozen=True, kw_only=True):
    """Workspace requests of one function of an object.

    Attributes:
        slots: bytes by depth of nesting, the largest request at each; empty for none.
        exact: False when they could not be determined: ``slots`` is empty and ``reason`` says why.
    """

    slots: tuple[int, ...]
    exact: bool
    reason: str = ""


class BuildAttributes(Protocol):
    """Build attributes of an object: what its code may use."""

    @property
    def target(self) -> str:
        """Return the CPU, the FPU and the passing of floats, for people."""

    @property
    def has_fpu_registers(self) -> bool:
        """Return True when the code may use floating-point or vector registers."""

    def may_use_fpu(self, *, for_double: bool = False) -> bool:
        """Return True when instructions of an FPU are allowed, or such that compute in double."""

    def problems(self, cpu: str, fpu: str, float_abi: str, *, computes_in_double: bool) -> list[str]:
        """List the reasons why a board cannot run or link an object; empty when there are none.

        Args:
            cpu: the board's CPU as the compiler calls it.
            fpu: its FPU; empty or ``none`` for none.
            float_abi: how the project is compiled: ``hard``, ``softfp`` or ``soft``.
            computes_in_double: the code has instructions that compute in double.
        """


class MachineCode(Protocol):
    """Functions, instructions, calls and words of a linked image."""

    image: Image
    functions: dict[int, Function]

    @property
    def exception_bytes(self) -> int:
        """Return what the entry of an exception puts on the stack, at most."""

    def function_at(self, address: int) -> Function | None:
        """Return the function that holds an address; code without a symbol is a function of its own."""

    def frame(self, entry: int) -> Frame | None:
        """Return calls and stack of the function that is entered at an address; None without code."""

    def instructions(self, function: Function) -> Mapping[int, object]:
        """Return all instructions of a function by address, in order."""

    def text_at(self, address: int) -> str:
        """Return the disassembly of the instruction at an address; empty when there is none."""

    def call_before(self, address: int) -> Call | None:
        """Return the call that returns to an address; None: there is none."""

    def pointers(self, start: int, end: int) -> set[int]:
        """Return the functions whose addresses stand in words from ``start`` to ``end``."""


class Analysis(Protocol):
    """The reader of an architecture: the module ``reader`` of its package."""

    def code_of(self, image: Image) -> MachineCode:
        """Return the machine code of an image that has bytes."""

    def read_attributes(self, data: memoryview, byte_order: str) -> BuildAttributes:
        """Read the section of build attributes; raises AttributesError."""

    def computes_in_double(self, elf: RawElf) -> bool:
        """Return whether the code of an object has an instruction that computes in double."""

    def kernel_workspaces(self, elf: RawElf, names: Sequence[str]) -> dict[str, ObjectWorkspace]:
        """Return the workspace that functions of an object ask for, some of which may ask for any."""


class Faults(Protocol):
    """The meaning of an architecture's fault registers: the module ``faults`` of its package."""

    REGISTER_ROWS: Sequence[tuple[str, ...]]
    """Registers of a fault, as they are shown."""

    def fault_kind(self, kind: str, number: int | None, registers: Mapping[str, int]) -> str:
        """Return the name of a fault; ``number``: of the exception, where the device reports that."""

    def describe_status(self, registers: Mapping[str, int]) -> tuple[str, ...]:
        """Describe what the status registers of a fault say."""

    def status_note(self, kind: str, registers: Mapping[str, int]) -> str:
        """Say why there is no status; empty where there is."""

    def probable_cause(
        self, kind: str, registers: Mapping[str, int], *, instruction: str, in_code: bool
    ) -> str:
        """Return the most probable cause of a fault, in a sentence; empty where nothing can be said."""


def analysis_of(isa: Isa) -> Analysis:
    """The reader of an architecture; nothing is loaded twice."""
    return cast("Analysis", importlib.import_module(f"mlf_sdk.analysis.{isa.analysis}.reader"))


@lru_cache(maxsize=8)
def machine_code(image: Image) -> MachineCode | None:
    """Return the machine code of an image; None when nothing reads its architecture, or it has no bytes."""
    isa = image.isa
    return analysis_of(isa).code_of(image) if isa is not None and image.segments else None


def faults_of(isa: Isa) -> Faults:
    """The meaning of the fault registers of an architecture."""
    return cast("Faults", importlib.import_module(f"mlf_sdk.analysis.{isa.analysis}.faults"))


def faults_by_registers(registers: Mapping[str, int]) -> Faults | None:
    """The meaning of these registers of a fault; None: no known architecture reports them."""
    result = next((isa for isa in load_isas().values() if isa.status_register in registers), None)
    return faults_of(result) if result is not None else None


Path = tuple[tuple[str, int], ...]
"""Functions from the outermost to the innermost, each with the bytes that it has on the stack."""


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """The deepest stack below an entry.

    Attributes:
        bytes: of all functions of ``path`` together.
        unknown: what could make it deeper, for people: recursion, calls with unknown targets.
    """

    bytes: int
    path: Path
    unknown: tuple[str, ...]
