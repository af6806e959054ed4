# SPDX-License-Identifier: Apache-2.0
"""Validation of a board row: by itself, and against the facts of its emulated machine.

Pure: each check gives lines ``<field>: <what is wrong>``, an empty list when nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from mlf_sdk.targets.boards.isa import isa_of
from mlf_sdk.targets.boards.row import Board, Machine, Memory
from mlf_sdk.tools.isas import NO_FPU, Isa, load_isas

_SECTIONS = frozenset(
    {"text", "rodata", "data", "bss", "noinit", "arena", "stack", "vectors", "code", "note", "zero", "slots"}
)
_UART_OVERSAMPLING = 16
_NRF51_MOST_BAUD = 1_000_000


def row_faults(row: Board, machine: Machine | None) -> list[str]:
    """Return all faults of ``row``; ``machine`` is the emulated machine, if that is known."""
    faults = list(_memory_faults(row.memories))
    if row.platform == "baremetal":
        faults += _baremetal_faults(row)
    if row.platform == "host":
        faults += _host_faults(row)
    faults += _rtl_faults(row)
    if machine is not None and not faults:
        faults += _machine_faults(row, machine)
    return faults


def _memory_faults(memories: tuple[Memory, ...]) -> Iterator[str]:
    for index, memory in enumerate(memories):
        place = f"memories[{index}]"
        if memory.end > 1 << 32:
            yield f"{place}: it ends beyond the address space, at {memory.end:#x}"
        if memory.origin % 8 or memory.size_bytes % 8:
            yield f"{place}: origin and size must be multiples of 8"
        if memory.name in _SECTIONS:
            yield f"{place}.name: '{memory.name}' is the name of a section"
    for (i, one), (j, two) in combinations(enumerate(memories), 2):
        if one.name == two.name:
            yield f"memories[{j}].name: memories[{i}] has the name '{one.name}' too"
        if one.origin < two.end and two.origin < one.end:
            yield f"memories[{j}]: it overlaps memories[{i}] ({one.name})"
    if sum(memory.boot for memory in memories) > 1:
        yield "memories: only one can have boot = true"


def _baremetal_faults(row: Board) -> Iterator[str]:
    kinds = {memory.kind for memory in row.memories}
    for kind in sorted({"flash", "ram"} - kinds):
        yield f"memories: a bare-metal board needs one of kind '{kind}'"
    isa = isa_of(row)
    yield from _cpu_faults(row, isa)
    if not row.clock_hz:
        yield "clock_hz: it is missing"
    if row.counter is None:
        yield "counter: it is missing"
    elif row.counter.hz > row.clock_hz:
        yield "counter.hz: it is above clock_hz"
    yield from _uart_faults(row)
    yield from _init_faults(row)
    yield from _flash_faults(row)
    if isa is not None:
        yield from _isa_faults(row, isa)
    if kinds == {"flash", "ram"}:
        if row.boot_memory.kind != "flash":
            yield "memories: the one with boot = true must be of kind 'flash'"
        if row.stack_bytes >= row.ram.size_bytes:
            yield f"stack_bytes: the stack fills the RAM ({row.ram.size_bytes:,} bytes)"


def _isa_faults(row: Board, isa: Isa) -> Iterator[str]:
    """Requirements of the architecture on boot memory, counter and interrupts."""
    align = isa.vectors_alignment_bytes
    if {memory.kind for memory in row.memories} == {"flash", "ram"} and row.boot_memory.origin % align:
        yield f"memories: the one that the CPU boots from must start at a multiple of {align}"
    if row.counter is not None and row.counter.driver and row.counter.driver not in isa.counters:
        yield f"counter.driver: '{row.counter.driver}' is not known; known: {', '.join(isa.counters)}"
    if row.second_stage:
        yield from _stage_faults(row, isa)
    yield from _interrupt_faults(row, isa)


def _interrupt_faults(row: Board, isa: Isa) -> Iterator[str]:
    if row.interrupts is None:
        if not isa.interrupts.is_fixed and row.uart is not None and row.uart.irq is not None:
            yield f"interrupts: uart.irq needs them, with the base of the {isa.interrupts.controller}"
        return
    count, handlers = row.interrupts.count, row.interrupts.handlers
    if not isa.interrupts.is_fixed and row.interrupts.base is None:
        yield f"interrupts.base: it is missing; where the registers of the {isa.interrupts.controller} lie"
    if row.uart is not None and row.uart.irq is not None and row.uart.irq >= count:
        yield f"uart.irq: {row.uart.irq} is not below interrupts.count ({count})"
    core = {f"{name}_Handler" for name in isa.interrupts.core_handlers}
    for name, number in handlers.items():
        if number >= count:
            yield f"interrupts.handlers.{name}: {number} is not below interrupts.count ({count})"
        if name in core:
            yield f"interrupts.handlers.{name}: this is an exception of the core"
    if len(set(handlers.values())) < len(handlers):
        yield "interrupts.handlers: two handlers have the same number"


def _cpu_faults(row: Board, isa: Isa | None) -> Iterator[str]:
    if row.isa and isa is None:
        yield f"isa: '{row.isa}' is not known; known: {', '.join(load_isas())}"
        return
    name, *extensions = row.cpu.split("+")
    cpu = None if isa is None else isa.cpu(row.cpu)
    if cpu is None:
        known = [isa] if isa is not None else load_isas().values()
        yield f"cpu: '{row.cpu}' is not known; known: {', '.join(name for one in known for name in one.cpus)}"
        return
    fpus = sorted({NO_FPU, *cpu.fpus})
    has_dsp = (cpu.dsp is not False) and "nodsp" not in extensions
    if row.fpu not in fpus:
        yield f"fpu: a {name} can have {', '.join(fpus)}; not '{row.fpu}'"
    if row.caches and not cpu.caches:
        yield f"caches: a {name} has none"
    if row.float_abi == "hard" and row.fpu == NO_FPU:
        yield "float_abi: 'hard' needs an FPU"
    if row.fpu != NO_FPU and "nofp" in extensions:
        yield "fpu: the CPU is given without one (+nofp)"
    if row.dsp != has_dsp:
        uses = "uses" if has_dsp else "has no"
        yield f"dsp: {str(row.dsp).lower()}, but code for {row.cpu} {uses} DSP instructions"


def _uart_faults(row: Board) -> Iterator[str]:
    uart = row.uart
    if uart is None:
        yield "uart: it is missing"
        return
    if uart.driver == "own" and not any(name.endswith((".c", ".S")) for name in row.sources):
        yield "sources: the UART's driver is the board's own, and no source is named"
    if uart.driver != "own" and uart.base is None:
        yield "uart.base: it is missing"
    if uart.max_baud is not None and uart.max_baud < uart.baud:
        yield "uart.max_baud: it is below baud"
    divided = (uart.clock_hz or row.clock_hz) // _UART_OVERSAMPLING
    most = _NRF51_MOST_BAUD if uart.driver == "nrf51" else None if uart.driver == "own" else divided
    for field, baud in (("baud", uart.baud), ("max_baud", uart.max_baud)):
        if most is not None and baud is not None and baud > most:
            yield f"uart.{field}: it is above {most:,}, the most of this driver"
    if row.rpc.window_bytes and uart.driver != "own" and uart.irq is None:
        yield "rpc.window_bytes: it needs uart.irq"
    if uart.driver == "nrf51" and (uart.tx_pin is None or uart.rx_pin is None):
        yield "uart: this driver needs tx_pin and rx_pin"


def _flash_faults(row: Board) -> Iterator[str]:
    controller = row.flash_controller
    if controller is None:
        return
    if controller.driver != "own" and controller.base is None:
        yield "flash_controller.base: it is missing"
    if controller.driver == "own" and not any(name.endswith((".c", ".S")) for name in row.sources):
        yield "sources: the flash's driver is the board's own, and no source is named"
    flashes = [memory for memory in row.memories if memory.kind == "flash"]
    if flashes and (flashes[0].origin % controller.page_bytes or flashes[0].end % controller.page_bytes):
        yield f"flash_controller.page_bytes: {flashes[0].name} does not begin and end with a page"


def _init_faults(row: Board) -> Iterator[str]:
    for index, write in enumerate(row.init):
        if write.mask and write.value & ~write.mask:
            yield f"init[{index}].value: it has bits outside of mask"
        if write.wait_value & ~write.wait_mask:
            yield f"init[{index}].wait_value: it has bits outside of wait_mask"
        if write.wait_address is not None and not write.wait_mask:
            yield f"init[{index}].wait_address: nothing is waited for (wait_mask)"


def _stage_faults(row: Board, isa: Isa) -> Iterator[str]:
    room = isa.most_stage_writes
    if not isa.second_stage:
        yield f"second_stage: there is none for {isa.title}"
    elif len(row.second_stage) > room:
        yield f"second_stage: it has room for {room} writes"
    for index, write in enumerate(row.second_stage):
        if not write.address or write.mask or write.wait_mask:
            yield f"second_stage[{index}]: it writes whole registers, waits for nothing, and not to address 0"


def _host_faults(row: Board) -> Iterator[str]:
    for field in ("memories", "uart", "counter", "qemu", "rtl"):
        if getattr(row, field):
            yield f"{field}: the host has none"


def _rtl_faults(row: Board) -> Iterator[str]:
    """A board with a simulated core: its devices are those that the simulator has."""
    if row.rtl is None:
        return
    if row.qemu is not None:
        yield "rtl: the board is emulated already (qemu)"
    if row.uart is not None and row.uart.driver != "16550":
        yield "rtl: the simulated UART needs the driver '16550'"
    if row.uart is not None and row.uart.irq is not None:
        yield "uart.irq: the simulated UART has no interrupt"


def _machine_faults(row: Board, machine: Machine) -> Iterator[str]:
    """The row against the facts; a wrong one would boot into silence."""
    where = f"QEMU's {machine.machine}"
    if row.cpu.split("+")[0] != machine.cpu and not (row.qemu and row.qemu.cpu):
        yield f"cpu: {where} has a {machine.cpu}"
    if row.fpu != "none" and not machine.fpu:
        yield f"fpu: the CPU of {where} has none"
    if row.dsp and not machine.dsp:
        yield f"dsp: the CPU of {where} has no DSP extension"
    for index, memory in enumerate(row.memories):
        if not _is_within(memory, machine):
            need = "writable memory" if memory.kind == "ram" else "memory"
            span = f"{memory.origin:#010x} to {memory.end:#010x}"
            yield f"memories[{index}]: {where} has no {need} at all of {span}"
    fixed = machine.counter_fixed
    if row.counter is not None and row.counter.hz != machine.counter_hz and not fixed:
        yield f"counter.hz: the counter of {where} counts at {machine.counter_hz}"
    serial = row.qemu.serial_index if row.qemu else 0
    places = {(u.driver, u.base, u.serial_index) for u in machine.uarts}
    uart = row.uart
    if uart is None or uart.driver == "own":  # only its author knows what that one needs
        return
    if (uart.driver, uart.base, serial) not in places:
        result = f"{uart.driver} UART at {uart.base or 0:#010x}"
        yield f"uart: {where} has no {result} as its serial port {serial}"


def _is_within(memory: Memory, machine: Machine) -> bool:
    return any(
        origin <= memory.origin and memory.end <= origin + result.size_bytes
        for result in machine.memories
        if result.writable or memory.kind == "flash"
        for origin in (result.origin, *result.aliases)
    )
