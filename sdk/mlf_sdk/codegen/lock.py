# SPDX-License-Identifier: Apache-2.0
"""``mlf-project.json``: archives, options and promises of a project."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mlf_sdk.codegen.writer import LOCK_NAME
from mlf_sdk.errors import InputError
from mlf_sdk.ir.model import CALLER_INPUTS, FileDigest
from mlf_sdk.ir.step import Frames, frames_of
from mlf_sdk.ir.tensor import Preprocessing
from mlf_sdk.tools.rowfile import described

SCHEMA = 1


class LockTensor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input or output: real name, element type, shape, bytes.

    ``scale`` and ``zero_point`` are the literals of the model's header; empty where it has none.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    scale: str = ""
    zero_point: str = ""


class LockNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Any tensor of the model: ``root`` is the number of the one whose bytes it shares, else its own.

    ``kind`` is ``input``, ``constant`` or ``intermediate``.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    root: int


class LockBuffer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A buffer of the plan: bytes at an offset of the arena, live from time ``first`` to ``last``.

    ``tensor`` is a number in ``LockModel.tensors``; a workspace has the number of its ``step`` instead.
    """

    kind: str
    name: str
    tensor: int | None
    step: int | None
    offset: int
    size_bytes: int
    first: int
    last: int


class LockRegion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memory of a model with guard bytes on both sides: the arena, a state, parameters in RAM, or one buffer.

    ``symbol`` covers the guard bytes as well, except those around parameters.
    """

    name: str
    symbol: str
    size_bytes: int


class LockPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arena or parameters of a model in one memory: the bytes from offset ``first`` of the plan on.

    ``lower_bound_bytes`` is that of an arena. The object has ``reserved_bytes`` without guards.
    """

    memory: str
    symbol: str
    first: int
    size_bytes: int
    reserved_bytes: int
    lower_bound_bytes: int = 0


class LockLayer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Operator of the source model that a step computes: its number there, name, window, kernel and MACs.

    ``inside`` are the layers of a region that runs by rows, without kernels of their own.
    """

    number: int
    operator: str
    detail: str
    kernel: str
    macs: int
    origin: str = ""
    inside: tuple[LockLayer, ...] = ()

    @property
    def text(self) -> str:
        """Number, name and window: ``3 CONV_2D 3x3, stride 2``."""
        return f"{self.number} {self.operator} {self.detail}".rstrip()


class LockStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step in execution order: the archive's name and the symbol in the image.

    ``inputs`` and ``outputs`` are numbers in ``LockModel.tensors``, in argument order; ``first`` is the
    time of the first of its ``phases`` (time 0: the inputs are written).
    """

    name: str
    symbol: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    first: int
    phases: int
    workspace_bytes: int
    exact: bool
    layer: LockLayer | None = None


class LockSummary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memory that the archive states, in bytes; null where it states nothing."""

    workspace_bytes: int | None
    constants_bytes: int | None
    io_bytes: int | None


class LockModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model of the project and the promises about it.

    ``kernel_symbols`` are the functions that the image must hold, ``code_symbols`` all symbols of
    the archive's linked code; displays leave out ``symbol_prefix``. ``state_bytes`` lie beside the arena.
    ``input_tensors`` and ``output_tensors`` are the numbers of its inputs and outputs in ``tensors``.
    ``regions`` have ``guard_bytes`` on each side, in the order of the device's guards. ``apart``: each buffer
    is one of them, and there is no arena. ``made_from`` is the model file that the archive was compiled from.
    ``arenas`` and ``params_places`` are those of a model in several memories; ``state_memory`` has its state.
    ``input_bytes`` are those of the application's buffer for inputs that lie outside of the arena.
    ``params_sha256`` is of the parameters, part after part where they lie in several memories; empty where an
    earlier SDK did not state it.
    """

    name: str
    c_name: str
    archive: str
    archive_sha256: str
    format: str
    format_version: str
    compiler: str
    compiler_version: str
    executor: str
    inputs: tuple[LockTensor, ...]
    outputs: tuple[LockTensor, ...]
    inputs_kept: bool
    arena_symbol: str
    arena_bytes: int
    arena_reserved_bytes: int
    lower_bound_bytes: int
    io_bytes: int
    params_bytes: int
    constants_in_code: bool
    tensors: tuple[LockNode, ...]
    input_tensors: tuple[int, ...]
    output_tensors: tuple[int, ...]
    steps: tuple[LockStep, ...]
    buffers: tuple[LockBuffer, ...]
    kernel_symbols: tuple[str, ...]
    code_symbols: tuple[str, ...]
    symbol_prefix: str
    state_bytes: int
    alignment: int
    apart: bool
    guard_bytes: int
    regions: tuple[LockRegion, ...]
    summary: LockSummary
    compile_options: dict[str, str] = {}
    made_from: FileDigest | None = None
    arenas: tuple[LockPlace, ...] = ()
    params_places: tuple[LockPlace, ...] = ()
    state_memory: str = ""
    preprocessing: Preprocessing | None = None
    input_bytes: int = 0
    params_sha256: str = ""

    @property
    def caller_inputs_bytes(self) -> int:
        """Bytes of the inputs in memory of the caller; 0: they lie in the arena."""
        outside = self.compile_options.get(CALLER_INPUTS) == "True"
        return sum(one.size_bytes for one in self.inputs) if outside else 0

    @property
    def frames(self) -> Frames | None:
        """Frames of the input; None: each inference takes all of it."""
        return frames_of(self.compile_options, self.inputs[0].shape) if len(self.inputs) == 1 else None

    @property
    def arena_symbols(self) -> tuple[str, ...]:
        """Objects that hold the arena: one, or one for each buffer."""
        if self.arenas:
            return tuple(place.symbol for place in self.arenas)
        outside = (f"{self.c_name}_params",)
        buffers = tuple(region.symbol for region in self.regions if region.symbol not in outside)
        return buffers if self.apart else (self.arena_symbol,)

    @property
    def params_symbols(self) -> tuple[str, ...]:
        """Objects that hold the parameters: one, or one a memory."""
        return tuple(p.symbol for p in self.params_places) or (f"{self.c_name}_params",)

    def label(self, name: str) -> str:
        """Name of a function for a display."""
        return name.removeprefix(self.symbol_prefix) or name

    @property
    def format_text(self) -> str:
        """Format and version of the archive: ``MLF 7``."""
        return f"{self.format} {self.format_version}".rstrip()

    @property
    def compiler_text(self) -> str:
        """Compiler of the archive and version: ``TVM 0.11.1``."""
        return f"{self.compiler} {self.compiler_version}".rstrip()


class LockOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options that the project was generated with."""

    app: str
    params: str
    kernel_flags: tuple[str, ...]
    keep_inputs: bool
    share_arena: bool
    trace: bool
    cmsis_nn: str | None
    executor: str = "static"
    plan: str = "shared"
    mlperf_id: str = ""
    softmax: bool = False
    as_compiled: bool = False
    toolchain: str = "gcc"
    trust: tuple[str, ...] = ()
    session_keys: tuple[str, ...] = ()
    monocypher: str | None = None
    model_version: int = 0
    place: tuple[str, ...] = ()
    stack_bytes: int = 0


class LockZephyr(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Zephyr version of a project (major.minor), and the name of its board there."""

    series: str
    board: str


class Lock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole lock."""

    schema: int
    sdk_version: str
    platform: str
    board: str
    board_file: str | None
    options: LockOptions
    models: tuple[LockModel, ...]
    zephyr: LockZephyr | None = None


def encode_lock(lock: Lock) -> bytes:
    """Encode the lock as indented JSON with a stable order."""
    return msgspec.json.format(msgspec.json.encode(lock, order="deterministic"), indent=2) + b"\n"


def read_lock(folder: Path) -> Lock:
    """Read the lock of the project in ``folder``.

    Raises:
        InputError: no project there, or its lock is damaged or of another version.
    """
    path = folder / LOCK_NAME
    if not path.is_file():
        raise InputError(
            f"no generated project here ({LOCK_NAME} is missing)",
            where=str(folder),
            hint="Make one with: mlf-sdk generate ARCHIVE -o DIR --board BOARD",
        )
    try:
        lock = msgspec.json.decode(path.read_bytes(), type=described(Lock))
    except (msgspec.MsgspecError, OSError) as error:
        raise InputError(
            f"the project's lock can't be read: {error}",
            where=str(path),
            hint="Generate the project again.",
        ) from error
    if lock.schema != SCHEMA:
        raise InputError(
            f"the project's lock has schema {lock.schema}; this SDK reads {SCHEMA}",
            where=str(path),
            hint="Generate the project again with this SDK.",
        )
    return lock


def choose_model(lock: Lock, wanted: str | None, folder: Path) -> LockModel:
    """Find the model with the C name ``wanted``, else with that name; None: the first one.

    Raises:
        InputError: no model has that name, or several have it.
    """
    if wanted is None:
        return lock.models[0]
    for model in lock.models:
        if model.c_name == wanted:
            return model
    named = [model for model in lock.models if model.name == wanted]
    if len(named) == 1:
        return named[0]
    if named:
        raise InputError(
            f"the project has {len(named)} models '{wanted}'",
            where=str(folder),
            hint=f"Name one by its C name: {', '.join(model.c_name for model in named)}.",
        )
    known = dict.fromkeys(name for model in lock.models for name in (model.name, model.c_name))
    raise InputError(
        f"the project has no model '{wanted}'", where=str(folder), hint=f"It has: {', '.join(known)}."
    )
