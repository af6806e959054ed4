# SPDX-License-Identifier: Apache-2.0
"""Kernels of many graphs in few images for an emulated core; what each writes is compared on the host."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from core_images import MACHINES, START, build
from kernel_checks import Array, KernelCheck, differences
from kernel_library import units
from mlf_sdk.compiler.cores import Core
from mlf_sdk.compiler.kernels.kernel import Parameter, Role

_GUARD = 16
_CODE_BYTES = 1500  # of a kernel, to plan images
_FILL = 0x5A
_MAIN = r"""
typedef struct { uint8_t memory; uint32_t offset; } argument_t; /* 0: flash, 1: RAM */
typedef struct { void (*call)(void); uint8_t count; const argument_t *arguments; uint32_t states, state_bytes, given; } check_t;
static uint32_t file;
extern const uint8_t blob[];
static uint8_t ram[RAM_BYTES] __attribute__((aligned(16)));
"""
_CALLS = r"""
int main(void)
{
    static const uint32_t name[3] = {(uint32_t)(uintptr_t)"results.bin", 5, 11};
    file = (uint32_t)host(1, name);
    for (uint32_t i = 0; i < sizeof checks / sizeof *checks; ++i) {
        const check_t *c = &checks[i];
        void *a[16];
        memset(ram, FILL, sizeof ram);
        memcpy(ram + c->states, blob + c->given, c->state_bytes);
        for (uint32_t k = 0; k < c->count; ++k)
            a[k] = c->arguments[k].memory ? (void *)(ram + c->arguments[k].offset) : (void *)(blob + c->arguments[k].offset);
        switch (c->count) {
CASES
        }
        const uint32_t written[3] = {file, (uint32_t)(uintptr_t)ram, sizes[i]};
        host(5, written);
    }
    host(2, &file);
    return 0;
}
"""


@dataclass
class _Blob:
    """Constant bytes of an image; equal ones are stored once."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    known: dict[bytes, int] = field(default_factory=dict)

    def add(self, data: bytes) -> int:
        if data not in self.known:
            self.known[data] = self.size
            padded = data + bytes(-len(data) % 16)
            self.parts.append(padded)
            self.size += len(padded)
        return self.known[data]


@dataclass
class _Call:
    """One run of a check: where its arguments lie, and the parts of RAM that come back."""

    check: KernelCheck
    run: int
    arguments: list[tuple[int, int]] = field(default_factory=list)
    states: int = 0
    given: bytes = b""
    kept: dict[tuple[Role, int], tuple[int, int]] = field(default_factory=dict)
    back: int = 0  # bytes of RAM that come back
    ram: int = 0


def core_faults(checks: Sequence[KernelCheck], core: Core, folder: Path) -> Iterator[tuple[str, str]]:
    """Label of each check that is wrong on a core, and what is wrong.

    Kernels whose input comes by rows are called as the rows come, which the host alone does.
    """
    budget = MACHINES[core].flash_kb * 1024 * 4 // 5
    group: list[KernelCheck] = []
    size = 0
    for check in (one for one in checks if one.kernel.stream is None):
        own = _CODE_BYTES + check.kernel.constants_bytes + sum(x.nbytes for v in check.runs for x in v.inputs)
        if group and size + own > budget:
            yield from _image(group, core, folder)
            group, size = [], 0
        group.append(check)
        size += own
    if group:
        yield from _image(group, core, folder)


def _image(checks: Sequence[KernelCheck], core: Core, folder: Path) -> Iterator[tuple[str, str]]:
    calls = [_laid(check, run) for check in checks for run in range(len(check.runs))]
    if not _built(calls, core, folder):
        if len(checks) == 1:
            yield checks[0].label, f"{checks[0].label}: no image of it can be built"
            return
        for half in (checks[: len(checks) // 2], checks[len(checks) // 2 :]):
            yield from _image(half, core, folder)
        return
    results = folder / "results.bin"
    results.unlink(missing_ok=True)
    machine = MACHINES[core]
    command = [*machine.emulator, "-M", machine.name, "-nographic", "-kernel", "image.elf"]
    command += ["-semihosting-config", "enable=on,target=native"]
    subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False
    )
    data = results.read_bytes() if results.exists() else b""
    for call in calls:
        if len(data) < call.back:
            yield call.check.label, f"{call.check.label}: the image faulted or stopped in it"
            rest = list(dict.fromkeys(c.check.label for c in calls[calls.index(call) :]))[1:]
            yield from _image_of([c for c in checks if c.label in rest], core, folder)
            return
        for says in _read(call, np.frombuffer(data[: call.back], np.uint8)):
            yield call.check.label, says
        data = data[call.back :]


def _image_of(checks: Sequence[KernelCheck], core: Core, folder: Path) -> Iterator[tuple[str, str]]:
    if checks:
        yield from _image(checks, core, folder)


def _laid(check: KernelCheck, run: int) -> _Call:
    """Places of one run: states first, then outputs, then the workspace, with guards between them."""
    call = _Call(check, run)
    values, kernel = check.runs[run], check.kernel
    places: dict[tuple[Role, int], int] = {}
    at = _GUARD
    for role, sizes in (
        (Role.STATE, [x.nbytes for x in values.before]),
        (Role.OUTPUT, [x.nbytes for x in values.outputs]),
        (Role.WORKSPACE, [kernel.workspace_bytes]),
    ):
        for number, size in enumerate(sizes):
            places[role, number] = at
            call.kept[role, number] = (at, size)
            at += (size + 15) // 16 * 16 + _GUARD
    call.back = call.ram = at
    if values.before:
        call.states = places[Role.STATE, 0]
        end = max(start + size for (role, _), (start, size) in call.kept.items() if role is Role.STATE)
        given = bytearray([_FILL]) * (end - call.states)
        for number, state in enumerate(values.before):
            start = places[Role.STATE, number] - call.states
            given[start : start + state.nbytes] = state.tobytes()
        call.given = bytes(given)
    call.arguments = [(1, places.get((p.role, p.number), 0)) for p in kernel.parameters]
    return call


def _constant(call: _Call, parameter: Parameter) -> bytes | None:
    """Bytes of an argument that lies in flash."""
    if parameter.role is Role.INPUT:
        return np.ascontiguousarray(call.check.runs[call.run].inputs[parameter.number]).tobytes()
    if parameter.role is Role.CONSTANT:
        return np.ascontiguousarray(call.check.kernel.constants[parameter.number]).tobytes()
    return None


def _built(calls: Sequence[_Call], core: Core, folder: Path) -> bool:
    """Build the image of calls; False where it is too large for the machine."""
    blob = _Blob()
    symbols: dict[str, str] = {}
    sources = []
    for number, (text, kernels, names) in enumerate(units([call.check.kernel for call in calls], folder)):
        sources.append(f"kernels{number}.c")
        (folder / sources[-1]).write_text(text)
        symbols.update({k.key: name for k, name in zip(kernels, names, strict=True)})
    rows, tables = [], []
    for number, call in enumerate(calls):
        found = []
        for (memory, offset), parameter in zip(call.arguments, call.check.kernel.parameters, strict=True):
            data = _constant(call, parameter)
            found.append((memory, offset) if data is None else (0, blob.add(data)))
        tables.append(
            f"static const argument_t a{number}[] = {{{', '.join(f'{{{m}, {o}}}' for m, o in found)}}};\n"
        )
        given = blob.add(call.given) if call.given else 0
        rows.append(
            f"    {{(void (*)(void)){symbols[call.check.kernel.key]}, {len(found)}, a{number},"
            f" {call.states}, {len(call.given)}, {given}}},\n"
        )
    (folder / "blob.bin").write_bytes(b"".join(blob.parts))
    (folder / "blob.s").write_text(
        '.section .rodata\n.balign 16\n.global blob\nblob:\n.incbin "blob.bin"\n.byte 0\n'
    )
    cases = "".join(
        f"        case {n}: ((void (*)({', '.join(['void *'] * n)}))c->call)({', '.join(f'a[{i}]' for i in range(n))}); break;\n"
        for n in range(1, 17)
    )
    text = START + _MAIN.replace("RAM_BYTES", str(max(call.ram for call in calls)))
    text += "".join(f"extern void {name}();\n" for name in sorted(set(symbols.values())))
    text += "".join(tables) + "static const check_t checks[] = {\n" + "".join(rows) + "};\n"
    text += f"static const uint32_t sizes[] = {{{', '.join(str(call.back) for call in calls)}}};\n"
    text += _CALLS.replace("CASES", cases).replace("FILL", str(_FILL))
    (folder / "image.c").write_text(text)
    try:
        build(["image.c", "blob.s", *sources], core, folder)
    except subprocess.CalledProcessError as error:
        if "will not fit in region" in error.stderr or "overflowed by" in error.stderr:
            return False
        raise
    return True


def _read(call: _Call, memory: Array) -> Iterator[str]:
    """What is wrong with the RAM that a call left."""
    free = np.ones(memory.size, bool)
    for start, size in call.kept.values():
        free[start : start + size] = False
    if (memory[free] != _FILL).any():
        yield f"{call.check.label}: it writes beside its memory"
    values, kernel = call.check.runs[call.run], call.check.kernel
    used = {(p.role, p.number) for p in kernel.parameters}

    def part(role: Role, number: int, like: Array) -> Array:
        if (role, number) not in used:
            return like
        start, size = call.kept[role, number]
        return np.frombuffer(memory[start : start + size].tobytes(), like.dtype)

    outputs = [part(Role.OUTPUT, i, y) for i, y in enumerate(values.outputs)]
    states = [part(Role.STATE, i, s) for i, s in enumerate(values.after)]
    yield from differences(call.check, call.run, outputs, states)
