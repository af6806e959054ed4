# SPDX-License-Identifier: Apache-2.0
"""Kernels of many graphs in one shared library of the host, each run on memory with guards."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import asdict

from compiled_models import END, GUARD, NoRoomError, overlapped, stream_rows, writes_the_end
from kernel_checks import Array, KernelCheck, Values, differences
from mlf_sdk.compiler.emit import emit
from mlf_sdk.compiler.kernels.kernel import Kernel, Parameter, Role
from mlf_sdk.compiler.options import Asm

_FILL = 0xA5  # memory that a kernel writes, and beside it
_BESIDE_READ = 0x5A  # memory beside what a kernel reads: what it copies from there is noticed


def units(
    kernels: Sequence[Kernel], folder: Path, asm: Asm = Asm.INLINE
) -> list[tuple[str, list[Kernel], list[str]]]:
    """Sources of kernels: their text, the kernels that are new in it and the function of each.

    Helpers of one name are one text in a source. Headers are written to ``folder``.
    """
    groups: list[tuple[dict[str, str], dict[str, Kernel]]] = []
    for kernel in kernels:
        fitting = (
            group
            for group in groups
            if all(group[0].get(n, text) == text for n, text in kernel.helpers.items())
        )
        helpers, own = next(fitting, ({}, {}))
        if not own:
            groups.append((helpers, own))
        helpers.update(kernel.helpers)
        own.setdefault(kernel.key, kernel)
    found = []
    for number, (_, own) in enumerate(groups):
        members = list(own.values())
        code = emit(f"u{number}", members, asm=asm)
        (folder / code.header_name).write_text(code.header)
        found.append((code.own + code.foreign, members, list(code.symbols)))
    return found


class KernelLibrary:
    """A shared library of the kernels of checks; it is compiled once for all of them.

    Raises:
        subprocess.CalledProcessError: the compiler refuses the code; its output is in the error.
    """

    def __init__(
        self, checks: Sequence[KernelCheck], folder: Path, flags: Sequence[str] = ("-O0", "-w")
    ) -> None:
        sources = []
        symbols: dict[str, str] = {}
        for number, (text, kernels, names) in enumerate(units([check.kernel for check in checks], folder)):
            sources.append(folder / f"kernels{number}.c")
            sources[-1].write_text(text)
            symbols.update({k.key: name for k, name in zip(kernels, names, strict=True)})
        self.symbols = symbols
        library = folder / "kernels.so"
        command = ["gcc", *flags, "-std=c11", "-shared", "-fPIC", "-o", library, *sources, "-lm"]
        subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
        self.library = ctypes.CDLL(str(library))

    def faults(self, check: KernelCheck) -> Iterator[str]:
        """Everything that is wrong with a kernel: values, writes beside its memory, overlaps that it does not bear."""
        call = getattr(self.library, self.symbols[check.kernel.key])
        for run, values in enumerate(check.runs):
            yield from _run(check, run, values, call)


def _run(check: KernelCheck, run: int, values: Values, call: Any) -> Iterator[str]:
    kernel = check.kernel
    used = [_memory(kernel, values, parameter) for parameter in kernel.parameters]
    try:
        _call(kernel, values, call, used)
    except NoRoomError:
        yield f"{check.label}: its ring has no room for the next row"
        return
    by_role: dict[Role, dict[int, Array]] = {role: {} for role in Role}
    for parameter, memory in zip(kernel.parameters, used, strict=True):
        by_role[parameter.role][parameter.number] = memory
        beside = _FILL if parameter.role in (Role.OUTPUT, Role.WORKSPACE) else _BESIDE_READ
        if not ((memory[:GUARD] == beside).all() and (memory[-GUARD:] == beside).all()):
            yield f"{check.label}: it writes beside {parameter.name}"
    outputs = [_read(by_role[Role.OUTPUT].get(i), y) for i, y in enumerate(values.outputs)]
    states = [_read(by_role[Role.STATE].get(i), s) for i, s in enumerate(values.after)]
    yield from differences(check, run, outputs, states)
    for role, arrays in ((Role.INPUT, values.inputs), (Role.CONSTANT, kernel.constants)):
        for number, memory in by_role[role].items():
            if memory[GUARD:-GUARD].tobytes() != np.ascontiguousarray(arrays[number]).tobytes():
                yield f"{check.label}: it writes its {role.value}{number}"
    if by_role[Role.STATE] or kernel.stream is not None:
        return
    if kernel.workspace_bytes and (used[-1][END] == _FILL).all() and not writes_the_end(call, used):
        yield f"{check.label}: the end of its workspace is not used"
    yield from _overlaps(check, call, used)


def _call(kernel: Kernel, values: Values, call: Any, used: list[Array]) -> None:
    """Call a kernel; one whose input comes by rows again and again, with a random number of rows each time."""

    def once() -> None:
        call(*(ctypes.c_void_p(m.ctypes.data + GUARD) for m in used))

    if kernel.stream is None:
        once()
        return
    [workspace] = (m for m, p in zip(used, kernel.parameters, strict=True) if p.role is Role.WORKSPACE)
    stream = kernel.stream
    stream_rows(once, asdict(stream), workspace[GUARD:-GUARD], values.inputs[stream.input].tobytes())


def _overlaps(check: KernelCheck, call: Any, used: list[Array]) -> Iterator[str]:
    """Overlaps of outputs and inputs that the kernel states, at exactly that distance."""
    kernel = check.kernel
    places = {(p.role, p.number): i for i, p in enumerate(kernel.parameters)}
    for number, distance in kernel.overlaps.items():
        given = places.get((Role.INPUT, number))
        for output in (i for (role, _), i in places.items() if role is Role.OUTPUT and given is not None):
            assert given is not None
            try:
                same = overlapped(call, used, given, output, distance) == used[output][GUARD:-GUARD].tobytes()
            except AssertionError:
                same = False
            if not same:
                yield f"{check.label}: its output {distance} bytes before x{number}, and over it, differs"


def _memory(kernel: Kernel, values: Values, parameter: Parameter) -> Array:
    """Memory of one argument, with guards; of outputs and of a workspace with a fill."""
    match parameter.role:
        case Role.INPUT:
            data = values.inputs[parameter.number]
        case Role.CONSTANT:
            data = kernel.constants[parameter.number]
        case Role.STATE:
            data = values.before[parameter.number]
        case Role.OUTPUT:
            return np.full(values.outputs[parameter.number].nbytes + 2 * GUARD, _FILL, np.uint8)
        case Role.WORKSPACE:
            return np.full(kernel.workspace_bytes + 2 * GUARD, _FILL, np.uint8)
    memory = np.full(data.nbytes + 2 * GUARD, _BESIDE_READ, np.uint8)
    memory[GUARD : GUARD + data.nbytes] = np.frombuffer(data.tobytes(), np.uint8)
    return memory


def _read(memory: Array | None, like: Array) -> Array:
    if memory is None:
        return like
    return np.frombuffer(memory[GUARD:-GUARD].tobytes(), like.dtype)
