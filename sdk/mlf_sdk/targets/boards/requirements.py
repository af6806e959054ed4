# SPDX-License-Identifier: Apache-2.0
"""Requirements of a project on its board, its options and its memory, checked before anything is written."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mlf_sdk.codegen.link import Linkage
from mlf_sdk.codegen.options import LEAST_STACK_BYTES, ProjectOptions
from mlf_sdk.errors import ArchiveError, DoesNotFitError, Fault, FaultCollector, InputError, NotPossibleError
from mlf_sdk.ir.model import CodeUnit, Model, UnitKind
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.isas import load_isas

if TYPE_CHECKING:
    from mlf_sdk.analysis.elf.objects import ObjectInfo


DSP_HEADERS = ("arm_nnsupportfunctions.h",)
_HOSTS = {"x86_64": "x86-64", "AMD64": "x86-64", "aarch64": "AArch64", "arm64": "AArch64"}


def check_requirements(models: Sequence[Model], board: Board, options: ProjectOptions) -> None:
    """Check that the code of ``models`` can be built for ``board`` with ``options``.

    Raises:
        NotPossibleError: it can't, whatever the options: its code is for another CPU, or parts are missing.
        InputError: sources or headers are missing, which options name.
    """
    for model in models:
        if model.blocked:
            raise NotPossibleError(
                f"it can be inspected and not deployed: {model.blocked}", where=model.provenance.source
            )
        _check_objects(model, board)
        _check_symbols(model)
        _check_headers(model, board, options)


def linked_objects(model: Model) -> Iterator[tuple[CodeUnit, ObjectInfo]]:
    """Yield the object files of a model that are linked, with their facts; broken ones are left out."""
    for unit in model.units:
        if unit.kind is UnitKind.OBJECT and unit.linked:
            from mlf_sdk.analysis.elf.objects import read_object

            info = read_object(unit.data, unit.member, FaultCollector(model.provenance.source))
            if info is not None:
                yield unit, info


def _check_objects(model: Model, board: Board) -> None:
    faults = []
    for unit, info in linked_objects(model):
        if board.platform == "zephyr" and not board.cpu and not board.zephyr.native:
            continue  # only the linker will know
        if board.platform == "host" or board.zephyr.native:
            problems = _host_problems(info, board)
        else:
            from mlf_sdk.analysis.elf.objects import check_object_against

            problems = check_object_against(board.cpu, board.fpu, board.float_abi, info)
        faults += [Fault(member=unit.member, what=what) for what in problems]
    if faults:
        raise ArchiveError(
            model.provenance.source,
            faults,
            hint=f"The board {board.name} is {board.cpu}, FPU {board.fpu}, {board.float_abi} floats: "
            "choose a board that fits, or export the model again for this one (or with the C target).",
        )


def _check_symbols(model: Model) -> None:
    """Refuse objects that need functions which neither the code, the runtime nor the C library has."""
    defined = {symbol for unit in model.units if unit.linked for symbol in unit.symbols}
    wanted: set[str] = set()
    for _, info in linked_objects(model):
        defined.update(info.defined)
        wanted.update(info.undefined)
    missing = sorted(name for name in wanted if name not in defined and not is_provided(name))
    if missing:
        raise InputError(
            f"its code needs functions that nothing defines: {', '.join(missing[:20])}",
            where=f"{model.provenance.source}, module {model.name}",
            hint="Supply them with --source FILE (C source or object). There is no heap, and no file.",
        )


def _host_problems(info: ObjectInfo, board: Board) -> list[str]:
    """List the reasons why a program of this machine can't hold an object; empty when it can."""
    if board.platform == "host" and info.machine == _HOSTS.get(platform.machine()) and info.elf_class == 64:
        return []
    return [f"it holds machine code for {info.machine}, and the host is another machine"]


def _check_headers(model: Model, board: Board, options: ProjectOptions) -> None:
    headers = model.external_headers
    if not headers:
        return
    names = ", ".join(headers)
    cmsis = [h for h in headers if h.startswith("arm_nn")]
    where = f"{model.provenance.source}, module {model.name}"
    if cmsis and options.cmsis_nn is None:
        own = "Fetch Zephyr's modules (west update cmsis cmsis-dsp cmsis-nn), or pass"
        raise InputError(
            f"its code includes {names}, a part of CMSIS-NN, which archives do not hold",
            where=where,
            hint=f"{own if board.platform == 'zephyr' else 'Pass'} the folder of a CMSIS-NN checkout: "
            "--cmsis-nn PATH (for TVM 0.11: one of late 2022).",
        )
    if cmsis and any(h in DSP_HEADERS for h in cmsis) and board.cpu and not board.dsp:
        raise NotPossibleError(
            f"its kernels use the DSP instructions, which the {board.cpu} of {board.name} does not have",
            where=where,
            hint=f"Choose a board with DSP instructions ({_cpus_with_dsp()}), or export for this CPU.",
        )
    result = _cmsis_headers(options.cmsis_nn)
    missing = [h for h in headers if h.rpartition("/")[2] not in result]
    if missing:
        raise InputError(
            f"its code includes {', '.join(missing)}, which is neither in the archive nor in the runtime",
            where=where,
            hint="Export the model without that dependency, or put the header into the archive.",
        )


def _cpus_with_dsp() -> str:
    return ", ".join(name for isa in load_isas().values() for name, cpu in isa.cpus.items() if cpu.dsp)


def _cmsis_headers(folder: str | None) -> frozenset[str]:
    if folder is None:
        return frozenset()
    include = Path(folder) / "Include"
    if not (include / "arm_nnfunctions.h").is_file():
        raise InputError(
            "no CMSIS-NN here: Include/arm_nnfunctions.h is missing",
            where=folder,
            hint="Give the folder that holds CMSIS-NN's Include and Source with --cmsis-nn.",
        )
    return frozenset(p.name for p in include.rglob("*.h"))


_COMPILER: Final = re.compile(
    r"__aeabi_\w+|__(?:add|sub|mul|div|neg|cmp|eq|ne|lt|le|gt|ge|unord)[sdt]f[23]|"
    r"__(?:fix|fixuns|float|floatun|extend|trunc)\w{4,6}|"
    r"__(?:u?div|u?mod|u?divmod|mul|ashl|ashr|lshr|neg|clz|ctz|popcount|bswap|cmp|ucmp|ffs)[sdt]i[234]|"
    r"__gnu_(?:h2f|f2h)_ieee|__stack_chk_\w+|_GLOBAL_OFFSET_TABLE_"
)
_RUNTIME: Final = re.compile(r"TVM\w+|mlf_\w+|tvm_runtime_\w+")
_STRING: Final = frozenset(
    {
        "memcpy",
        "memset",
        "memmove",
        "memcmp",
        "memchr",
        "strlen",
        "strcmp",
        "strncmp",
        "strcpy",
        "strncpy",
        "abs",
    }
)
_MATH: Final = re.compile(
    r"(?:"
    r"acos|acosh|asin|asinh|atan|atan2|atanh|cbrt|ceil|copysign|cos|cosh|erf|erfc|exp|exp2|"
    r"expm1|fabs|fdim|floor|fma|fmax|fmin|fmod|frexp|hypot|ilogb|ldexp|lgamma|llrint|llround|"
    r"log|log10|log1p|log2|logb|lrint|lround|modf|nearbyint|nextafter|pow|remainder|rint|round|"
    r"scalbn|sin|sinh|sqrt|tan|tanh|tgamma|trunc"
    r")f?"
)
"""Of each there is one for double and, with an ``f`` behind it, one for float."""


def is_provided(name: str) -> bool:
    """Return whether an image has the function ``name`` without the model's own code."""
    return name in _STRING or any(p.fullmatch(name) for p in (_MATH, _COMPILER, _RUNTIME))


_RUNTIME_BYTES = 128  # variables and guards beside what is counted
SERVER_STATE_BYTES = 128  # the RPC server beside its two message buffers, at least


def check_fit(
    layouts: Sequence[ModelLayout], linkages: Sequence[Linkage], board: Board, options: ProjectOptions
) -> None:
    """Reject a model that can't fit: minimum size of the image against the board's first memories.

    Raises:
        DoesNotFitError: with the bytes needed and available, and ways to reduce them.
    """
    if board.platform == "host" or not board.memories:
        return
    params = sum(layout.params_bytes for layout in layouts)
    models = [layout.model for layout in layouts]
    arenas = sum(link.arena_reserved_bytes for link in linkages if link.owns_arena)
    in_ram = params if options.params == "ram" else 0
    parts = {
        "arena": arenas,
        "states": sum(layout.state_bytes for layout in layouts),
        "stack": options.stack_of(board.stack_bytes),
        "RPC server": server_bytes(board, options),
        "inputs of the application": sum(link.input_bytes for link in linkages),
        "input of the benchmark": _benchmark_bytes(models, options),
        "parameters": in_ram,
    }
    left = board.ram.size_bytes - sum(parts.values()) + parts["stack"]
    hints = _ram_hints(layouts, options)
    if left - _RUNTIME_BYTES >= LEAST_STACK_BYTES:
        hints.append(
            f"--stack SIZE, up to {(left - _RUNTIME_BYTES) // 8 * 8}, for one whose proven bound that is"
        )
    _refuse("RAM", board.ram.name, board.ram.size_bytes, parts, board, hints)
    _refuse("flash", board.flash.name, board.flash.size_bytes, {"parameters": params}, board, [])


def server_bytes(board: Board, options: ProjectOptions) -> int:
    """RAM of the RPC server, at least; 0 in other applications."""
    rpc = board.rpc
    return 2 * rpc.max_payload + rpc.window_bytes + SERVER_STATE_BYTES if options.app == "rpc" else 0


def _benchmark_bytes(models: Sequence[Model], options: ProjectOptions) -> int:
    if options.app != "mlperf":
        return 0
    from mlf_sdk.codegen.mlperf import input_bytes_of

    return input_bytes_of(models, options)


def _ram_hints(layouts: Sequence[ModelLayout], options: ProjectOptions) -> list[str]:
    hints = []
    if options.params == "ram":
        hints.append("--params flash")
    if options.keep_inputs:
        hints.append("no --keep-inputs")
    if len(layouts) > 1 and not options.share_arena:
        hints.append("--share-arena, when the models never run at once")
    return hints


def _refuse(
    kind: str, memory: str, has_bytes: int, parts: dict[str, int], board: Board, hints: list[str]
) -> None:
    needs = sum(parts.values())
    if needs <= has_bytes:
        return
    listed = ", ".join(f"{name} {size:,}" for name, size in parts.items() if size)
    raise DoesNotFitError(
        f"it does not fit: it needs at least {needs:,} bytes of {kind} ({listed}), "
        f"and {memory} has {has_bytes:,}: {needs - has_bytes:,} are missing",
        where=f"board {board.name}",
        hint="What would help: " + "; ".join([*hints, "a board with more memory", "a smaller model"]) + ".",
    )


SLOTS = 2
SLOTS_REGION: Final = "slots"  # of the linker script: the end of the flash
_BLOB_AT = 64  # MLF_STORE_BLOB_AT of crt/params/mlf_store.h
_ERASE_BYTES = 64  # MLF_STORE_RAM_ERASE_BYTES of crt/params/mlf_store_ram.h; pages are multiples of it


def store_bytes_of(layout: ModelLayout, board: Board, *, sealed: bool = False) -> int:
    """Bytes of the slots of one model; 0 when it has no parameters.

    Args:
        board: its flash is erased by pages, where the slots are there.
        sealed: packages go into them.
    """
    if not layout.params_bytes:
        return 0
    from mlf_sdk.codegen.dynamic import seal_bytes
    from mlf_sdk.codegen.paramsblob import HEADER

    needed = layout.params_bytes + HEADER.size + _BLOB_AT + (seal_bytes(layout) if sealed else 0)
    unit = board.flash_controller.page_bytes if board.flash_controller is not None else _ERASE_BYTES
    return SLOTS * ((needed + unit - 1) // unit * unit)


def store_values(board: Board, store_bytes: int) -> dict[str, Any]:
    """Values for ``dynamic_model.c.j2``: the memory of the slots, and their section.

    A board whose flash has a driver keeps them at the end of its flash. One with more RAM than it runs in
    keeps them there, else they share the RAM of everything else.

    Raises:
        DoesNotFitError: no memory of the board is as large.
    """
    if board.platform == "host":
        return {"store": {"kind": "file", "section": "", "unit": _ERASE_BYTES}}
    if board.platform == "zephyr":
        return {"store": {"kind": "partition", "section": "", "unit": _ERASE_BYTES}}
    if board.flash_controller is not None:
        _check_slots(store_bytes, board.flash.name, board.flash.size_bytes, board)
        unit = board.flash_controller.page_bytes
        return {"store": {"kind": "flash", "section": f".mlf.{SLOTS_REGION}", "unit": unit}}
    more = [m for m in board.memories if m.kind == "ram" and m.name != board.ram.name]
    fitting = [m for m in more if m.size_bytes >= store_bytes]
    if not fitting:
        _check_slots(store_bytes, board.ram.name, board.ram.size_bytes, board)
    section = f".mlf.{fitting[0].name}.noinit" if fitting else ".bss.noinit"
    return {"store": {"kind": "ram", "section": section, "unit": _ERASE_BYTES}}


def _check_slots(store_bytes: int, memory: str, size_bytes: int, board: Board) -> None:
    if store_bytes > size_bytes:
        raise DoesNotFitError(
            f"two slots for parameters take {store_bytes:,} bytes; {memory} has {size_bytes:,}",
            where=f"board {board.name}",
            hint="Generate without --executor, or choose a board with more memory.",
        )


def store_sources(board: Board, store_bytes: int) -> tuple[str, ...]:
    """Runtime sources of the memory of the slots, relative to the project; none: there are no slots."""
    if not store_bytes:
        return ()
    if board.platform == "host":
        return "crt/params/mlf_store_ram.c", "crt/params/mlf_store_file.c"
    if board.flash_controller is None:
        return ("crt/params/mlf_store_ram.c",)
    driver = board.flash_controller.driver
    return () if driver == "own" else (f"crt/baremetal/flash_{driver}.c",)
