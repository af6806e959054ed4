# SPDX-License-Identifier: Apache-2.0
"""Options of a compilation; light to import."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Final

from mlf_sdk.errors import InputError
from mlf_sdk.resources import data_dir

GENERIC: Final = "generic"  # core


class Goal(enum.Enum):
    """Quality that kernels are chosen for.

    Speed is time: the cycles of the core. Balanced is speed that does not take much more flash. RAM is
    balanced, with layers fused that hand rows on to each other.
    """

    SPEED = "speed"
    INSTRUCTIONS = "instructions"
    BALANCED = "balanced"
    SIZE = "size"
    RAM = "ram"


class Kernels(enum.Enum):
    """Whose kernels compute a model."""

    AUTO = "auto"
    OWN = "own"
    TVM = "tvm"


class Asm(enum.Enum):
    """Form of assembly in kernels."""

    INLINE = "inline"
    FILE = "file"
    NO = "no"


class Io(enum.Enum):
    """Types of inputs and outputs."""

    MODEL = "model"
    INT8 = "int8"


GOALS: Final = tuple(goal.value for goal in Goal)
IOS: Final = tuple(io.value for io in Io)
ASMS: Final = tuple(asm.value for asm in Asm)
KERNELS: Final = tuple(kernels.value for kernels in Kernels)
_FLAGS: Final = ("stream", "frames", "caller_inputs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Use of TVM's kernels.

    Attributes:
        kernels: whose kernels are used.
        unroll: generate code that is faster and larger.
        schedule: False: leave the loops as TVM's operators have them.
    """

    kernels: Kernels = Kernels.OWN
    unroll: bool = True
    schedule: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """Options of a compilation; the archive keeps them as text.

    Attributes:
        core: name of a `mlf_sdk.compiler.cores.Core`.
        goal: value of `Goal`.
        io: value of `Io`.
        batch: extent of a first dimension that the model leaves open.
        shapes: of inputs whose shape the model leaves open: ``NAME=1,3,32,32``, several with semicolons.
        custom: C code of custom operators of a .tflite model: ``NAME=FILE.c``, several with semicolons.
        tuned: board, unit and compiler of the measurement that chose kernels; empty: rules did.
        kernels: value of `Kernels`.
        asm: value of `Asm`.
        max_arena: most bytes of the arena; 0: as many as the model takes.
        stream: the input comes row by row.
        frames: the input is a window of a time series, and comes a frame at a time.
        caller_inputs: inputs lie in memory of the caller, outside of the arena.
    """

    core: str = GENERIC
    goal: str = Goal.BALANCED.value
    io: str = Io.MODEL.value
    batch: int = 1
    shapes: str = ""
    custom: str = ""
    tuned: str = ""
    kernels: str = Kernels.AUTO.value
    asm: str = Asm.INLINE.value
    max_arena: int = 0
    stream: bool = False
    frames: bool = False
    caller_inputs: bool = False

    @property
    def generation(self) -> Generation:
        """Choice between own kernels and those of TVM."""
        return Generation(kernels=Kernels(self.kernels), unroll=self.goal != Goal.SIZE.value)

    def texts(self) -> dict[str, str]:
        """Options by name, as an archive keeps them: some only where they are not the usual ones."""
        result = {one.name: str(getattr(self, one.name)) for one in fields(self)}
        usual = {"custom": "", "tuned": "", "asm": Asm.INLINE.value, "max_arena": "0"}
        usual |= dict.fromkeys(_FLAGS, "False")
        return {name: text for name, text in result.items() if text != usual.get(name)}

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> CompileOptions:
        """Options that `texts` gave; unknown ones are left out."""
        known = {one.name for one in fields(cls)}
        result: dict[str, Any] = {name: text for name, text in texts.items() if name in known}
        for name in ("batch", "max_arena"):
            if str(result.get(name, "")).isdecimal():
                result[name] = int(result[name])
        result |= {name: result.get(name) == "True" for name in _FLAGS}
        return cls(**result)


def shapes_of(text: str) -> dict[str, tuple[int, ...]]:
    """Shapes by the names of inputs.

    Args:
        text: ``NAME=1,3,32,32``; several with semicolons.

    Raises:
        InputError: it is something else.
    """
    result: dict[str, tuple[int, ...]] = {}
    for part in filter(None, text.split(";")):
        name, equals, extents = part.rpartition("=")
        numbers = extents.split(",") if extents else []
        if not equals or not name or not all(n.strip().isdecimal() and 0 < int(n) < 1 << 31 for n in numbers):
            raise InputError(f"no shape: {part!r}", where="--shape", hint="Such as --shape input=1,3,32,32.")
        result[name] = tuple(int(n) for n in numbers)
    return result


@cache
def core_names() -> tuple[str, ...]:
    """Names of all cores, the generic one first."""
    names = sorted(path.stem for path in cores_folder().glob("*.toml"))
    return (GENERIC, *(name for name in names if name != GENERIC))


def cores_folder() -> Path:
    """The folder of their rows."""
    return data_dir("board_templates") / "cores"
