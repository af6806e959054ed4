# SPDX-License-Identifier: Apache-2.0
"""Kernels of a graph in one image for an emulated core: each is compared with the reference, and counted."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlf_sdk.compiler.build import CompiledGraph
from mlf_sdk.compiler.cores import Core, core_named
from mlf_sdk.compiler.kernels.kernel import Parameter, Role
from mlf_sdk.compiler.reference import evaluate

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Machine:
    """QEMU machine that executes a core's code; ``tick`` instructions take one count of its timer.

    ``libraries`` are flags of the core whose libraries are linked, where it has none of its own.
    """

    name: str
    flags: tuple[str, ...]
    flash: int = 0
    flash_kb: int = 2048
    ram: int = 0x2000_0000
    tick: float = 40.0
    compiler: str = "arm-none-eabi-gcc"
    emulator: tuple[str, ...] = ("qemu-system-arm",)
    libraries: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """Programs that are not installed."""
        return [p for p in (self.compiler, self.emulator[0]) if shutil.which(p) is None]


_THUMB = "-mthumb", "-specs=nosys.specs"
_SOFT, _HARD = (*_THUMB, "-mfloat-abi=soft"), (*_THUMB, "-mfloat-abi=hard")
_RV32 = "-mabi=ilp32", "-msmall-data-limit=0", "-Wl,--no-relax", "-specs=picolibc.specs"


def vectors_of(bits: int) -> str:
    """QEMU's core with vectors of so many bits."""
    return f"rv32,v=true,vext_spec=v1.0,vlen={bits},elen=32"


# The AN385's Cortex-M3 executes the Cortex-M0's code; word accesses that are not aligned fault there as well.
MACHINES = {
    core_named("cortex-m0"): Machine("mps2-an385", ("-mcpu=cortex-m0", *_SOFT)),
    core_named("cortex-m3"): Machine("mps2-an385", ("-mcpu=cortex-m3", *_SOFT)),
    core_named("cortex-m4"): Machine("mps2-an386", ("-mcpu=cortex-m4", *_HARD, "-mfpu=fpv4-sp-d16")),
    core_named("cortex-m55"): Machine(
        "mps3-an547", ("-mcpu=cortex-m55", *_HARD, "-mfpu=auto"), ram=0x3100_0000, tick=31.25, flash_kb=512
    ),
    core_named("rv32imac"): Machine(
        "virt",
        ("-march=rv32imac", *_RV32),
        flash=0x8000_0000,
        ram=0x8100_0000,
        tick=1.0,
        compiler="riscv64-unknown-elf-gcc",
        emulator=("qemu-system-riscv32", "-bios", "none"),
    ),
}
MACHINES |= {
    core_named("rv32imac_zve32x"): dataclasses.replace(
        MACHINES[core_named("rv32imac")],
        flags=("-march=rv32imac_zve32x", *_RV32),
        emulator=("qemu-system-riscv32", "-bios", "none", "-cpu", vectors_of(128)),
        libraries=("-march=rv32imac",),
    )
}
MISSING = MACHINES[core_named("cortex-m4")].missing
EMULATED = [
    pytest.param(
        core,
        id=core.name,
        marks=pytest.mark.skipif(bool(machine.missing), reason=f"not installed: {machine.missing}"),
    )
    for core, machine in MACHINES.items()
]
"""Cores as parameters of a test, which is skipped for those whose programs are missing."""

START = r"""
#include <stdint.h>
#include <string.h>
extern uint32_t stack_end[];
extern uint8_t data_begin[], data_end[], data_source[];
void reset(void);
int main(void);
#if defined(__riscv)
static int host(int operation, const void *argument)
{
    register int a0 __asm("a0") = operation;
    register const void *a1 __asm("a1") = argument;
    __asm volatile(".balign 16\n .option push\n .option norvc\n slli x0, x0, 0x1f\n ebreak\n srai x0, x0, 7\n .option pop"
                   : "+r"(a0) : "r"(a1) : "memory");
    return a0;
}
#else
static int host(int operation, const void *argument)
{
    register int r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}
#endif
__attribute__((used, aligned(4))) static void fault(void)
{
    host(4, "fault\n");
    host(0x18, (const void *)0x20026);
}
#if defined(__riscv)
__attribute__((section(".vectors"), used, naked)) void vectors(void)
{
    __asm volatile(".option arch, +zicsr\n la sp, stack_end\n la t0, fault\n csrw mtvec, t0\n"
#if defined(__riscv_vector)
                   " li t0, 0x200\n csrs mstatus, t0\n"
#endif
                   " j reset");
}
#else
__attribute__((section(".vectors"), used)) void *const vectors[16] = {
    stack_end, reset, fault, fault, fault, fault, fault};
#endif
static void number(uint32_t v)
{
    char text[12] = {0};
    int at = 11;
    do {
        text[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    host(4, text + at);
}
static void report(uint32_t ticks, const void *got, const void *wanted, uint32_t size)
{
    number(ticks);
    host(4, memcmp(got, wanted, size) ? " differs\n" : " equal\n");
}
static void report_real(uint32_t ticks, const float *got, const float *wanted, uint32_t size)
{
    float largest = 0.0f;
    int same = 1;
    for (uint32_t i = 0; i < size / 4; ++i) {
        float a = wanted[i] < 0.0f ? -wanted[i] : wanted[i];
        largest = a > largest ? a : largest;
    }
    for (uint32_t i = 0; i < size / 4; ++i) {
        float d = got[i] - wanted[i];
        same = same && (d < 0.0f ? -d : d) <= 1e-5f * largest;
    }
    number(ticks);
    host(4, same ? " equal\n" : " differs\n");
}
#if defined(__riscv)
static uint32_t begin;
static uint32_t ticks(void)
{
    uint32_t v;
    __asm volatile(".option arch, +zicsr\n csrr %0, minstret" : "=r"(v) : : "memory");
    return v - begin;
}
static void restart(void)
{
    begin = 0;
    begin = ticks();
}
#else
#define TIMER ((volatile uint32_t *)0xE000E010)
static void restart(void)
{
    TIMER[1] = TIMER[2] = 0xFFFFFF;
    TIMER[0] = 5;
}
static uint32_t ticks(void)
{
    return 0xFFFFFF - TIMER[2];
}
#endif
void reset(void)
{
#if defined(__ARM_ARCH) && __ARM_ARCH > 6 && defined(__ARM_FP)
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20;
    __asm volatile("dsb\n isb");
#endif
#if defined(__ARM_ARCH) && __ARM_ARCH == 6
    *(volatile uint32_t *)0xE000ED14 |= 8u;
#endif
    memcpy(data_begin, data_source, (uint32_t)(data_end - data_begin));
    main();
    host(0x18, (const void *)0x20026);
}
"""
LINK = """MEMORY {{ flash (rx) : ORIGIN = {flash}, LENGTH = {size}K
ram (rwx) : ORIGIN = {ram}, LENGTH = 2M }}
SECTIONS {{
.vectors : {{ KEEP(*(.vectors)) }} > flash
.text : {{ *(.text*) *(.rodata*) }} > flash
.ARM.exidx : {{ *(.ARM.exidx*) }} > flash
.data : {{ data_begin = .; *(.data*) . = ALIGN(4); data_end = .; }} > ram AT > flash
data_source = LOADADDR(.data);
.bss (NOLOAD) : {{ *(.bss*) *(COMMON) }} > ram
stack_end = ORIGIN(ram) + LENGTH(ram);
}}
"""


def _bytes(name: str, data: Array, *, const: bool = True) -> str:
    text = ",".join(map(str, np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)))
    kind = "static const uint8_t" if const else "static uint8_t"
    return f"{kind} {name}[] __attribute__((aligned(16))) = {{{text}}};\n"


def build(files: list[str | Path], core: Core, folder: Path, *flags: str) -> Path:
    """Compile files for a core's machine; the image."""
    machine = MACHINES[core]
    (folder / "image.ld").write_text(LINK.format(flash=machine.flash, size=machine.flash_kb, ram=machine.ram))
    elf = folder / "image.elf"
    usual = [*machine.flags, "-O2", "-std=gnu11", "-nostartfiles", "-w", "-Wl,-e,reset"]
    objects = files
    if machine.libraries:
        objects = [folder / f"{Path(file).stem}.o" for file in files]
        for file, compiled in zip(files, objects, strict=True):
            _started([machine.compiler, *usual, *flags, "-c", file, "-o", compiled], folder)
    places = ["-T", folder / "image.ld", "-o", elf]
    _started([machine.compiler, *usual, *machine.libraries, *flags, *places, *objects, "-lm"], folder)
    return elf


def _started(command: Sequence[str | Path], folder: Path) -> None:
    subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, cwd=folder)


def link(text: str, core: Core, folder: Path, *flags: str, assembly: str = "") -> Path:
    """Compile a program for a core's machine, with a source of assembly beside it; its image."""
    (folder / "image.c").write_text(text)
    (folder / "image_asm.S").write_text(assembly)
    return build([folder / "image.c", folder / "image_asm.S"], core, folder, *flags)


def emulator(elf: Path, core: Core) -> list[str]:
    """Command that runs an image."""
    machine = MACHINES[core]
    head = [*machine.emulator, "-M", machine.name, "-nographic", "-icount", "shift=0"]
    return [*head, "-kernel", str(elf), "-semihosting-config", "enable=on,target=native"]


def emulate(text: str, core: Core, folder: Path, assembly: str = "") -> list[str]:
    """Run a program on a core's machine; the lines that it writes."""
    done = subprocess.run(
        emulator(link(text, core, folder, assembly=assembly), core),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    return [line for line in (done.stdout + done.stderr).splitlines() if line]


def run_on_core(
    compiled: CompiledGraph, core: Core, folder: Path, seed: int = 0, given: Array | None = None
) -> list[tuple[str, int]]:
    """Run every kernel once; the function and the instructions of each.

    Args:
        given: the first input; random values otherwise.

    Raises:
        AssertionError: an output differs from the reference, floats by more than 1e-5 of the largest, or the
            image faulted.
    """
    machine = MACHINES[core]
    text, symbols = image_text(compiled, seed, given)
    lines = [line.split() for line in emulate(text, core, folder, compiled.code.assembly)]
    found = [(s, int(float(n) * machine.tick)) for s, (n, _) in zip(symbols, lines, strict=True)]
    assert [(s, "equal") for s in symbols] == [(s, w) for s, (_, w) in zip(symbols, lines, strict=True)]
    return found


def image_text(compiled: CompiledGraph, seed: int, given: Array | None) -> tuple[str, list[str]]:
    graph = compiled.graph
    random = np.random.default_rng(seed)
    values = {v.id: v.data for v in graph.values if v.data is not None}
    places: dict[int, str] = {}
    size = max((c.kernel.workspace_bytes for c in compiled.operators if c.kernel), default=0)
    code = compiled.code
    own = code.own.replace(f'#include "{code.header_name}"', code.header)
    parts = [
        own,
        START,
        f"static uint8_t b[{size + 16}] __attribute__((aligned(16)));\n",
    ]
    calls, symbols = [], []
    states = [state.initial.copy() for state in graph.states]
    parts += [_bytes(f"s{i}", data, const=False) for i, data in enumerate(states)]
    for i in graph.inputs:
        values[i] = random.integers(-128, 128, graph.values[i].shape).astype(graph.values[i].dtype)
        if given is not None and i == graph.inputs[0]:
            values[i] = given
        places[i] = f"v{i}"
        parts.append(_bytes(places[i], values[i], const=False))
    for number, one in enumerate(compiled.operators):
        operator, kernel = one.operator, one.kernel
        (output,) = operator.outputs
        value = graph.values[output]
        (result,) = evaluate(graph, operator, [values[i] for i in operator.inputs], states)
        values[output] = result.astype(value.dtype).reshape(value.shape)
        if kernel is None:
            places[output] = places[operator.inputs[0]]
            continue
        places[output] = f"v{output}"
        parts.append(f"static uint8_t v{output}[{value.size_bytes}] __attribute__((aligned(16)));\n")
        parts.append(_bytes(f"w{output}", values[output]))
        parts += [_bytes(f"k{number}_{i}", data) for i, data in enumerate(kernel.constants)]

        def argument(p: Parameter, number: int = number, operator: Any = operator) -> str:
            if p.role in (Role.INPUT, Role.OUTPUT):
                ids = operator.inputs if p.role is Role.INPUT else operator.outputs
                return f"(void *){places[ids[p.number]]}"
            if p.role is Role.STATE:
                return f"(void *)s{operator.states[p.number]}"
            return "(void *)b" if p.role is Role.WORKSPACE else f"(void *)k{number}_{p.number}"

        arguments = ", ".join(argument(p) for p in kernel.parameters)
        calls.append(
            "    memset(b, 90, sizeof b);\n    restart();\n"
            f"    {one.symbol}({arguments});\n    t = ticks();\n"
            f"    {'report_real' if value.dtype == np.float32 else 'report'}"
            f"(t, (void *)v{output}, (void *)w{output}, {value.size_bytes});\n"
        )
        symbols.append(one.symbol)
    return "".join(parts) + "int main(void)\n{\n    uint32_t t;\n" + "".join(
        calls
    ) + "    return 0;\n}\n", symbols
