# SPDX-License-Identifier: Apache-2.0
"""Schema of a board row, and of the row of an emulated machine."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mlf_sdk.errors import InputError

Word = Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]
Positive = Annotated[int, Meta(ge=1, le=0xFFFFFFFF)]
Cycles = Annotated[float, Meta(gt=0, le=10_000)]
BoardName = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9_.-]{0,63}\Z")]
Identifier = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_]{0,31}\Z")]
Text = Annotated[str, Meta(pattern=r"\A[ -!#-\[\]-~]{1,100}\Z")]  # no quotes, backslashes, controls
HandlerName = Annotated[str, Meta(pattern=r"\A[A-Za-z][A-Za-z0-9_]{0,55}Handler\Z")]
ParameterName = Annotated[str, Meta(pattern=r"\A[A-Za-z][A-Za-z0-9_]{0,39}\Z")]
SourceName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}\.[chS]\Z")]


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a row: immutable, and a key that is not known is an error."""


class Memory(_Row, frozen=True, kw_only=True):
    """One contiguous memory.

    Attributes:
        name: its region in the linker script, e.g. ``flash``.
        kind: ``flash``: code and constants; ``ram``: all else.
        origin: lowest address.
        size_bytes: its size.
        boot: the CPU takes its vector table from the start of this one (default: the first flash).
        read_cycles, write_cycles: of a word of 32 bits that follows the one before it, and of one anywhere.
        code: functions may run from it; a RAM: start-up copies them there.
        zephyr: region on Zephyr: ``FLASH`` and ``RAM``, those of ``chosen``, or a ``zephyr,memory-region``.
    """

    name: Identifier
    kind: Literal["flash", "ram"]
    origin: Word
    size_bytes: Positive
    boot: bool = False
    read_cycles: tuple[Cycles, Cycles] = (1.0, 1.0)
    write_cycles: tuple[Cycles, Cycles] = (1.0, 1.0)
    code: bool = False
    zephyr: str = ""

    @property
    def end(self) -> int:
        """End address (exclusive)."""
        return self.origin + self.size_bytes


class Uart(_Row, frozen=True, kw_only=True):
    """The console's UART.

    Attributes:
        driver: a source ``crt/baremetal/uart_<driver>.c``; ``own``: the board's ``sources`` have it.
        base: address of its registers; an own driver may do without.
        clock_hz: rate of its own clock; None: the board's ``clock_hz``.
        baud: bits a second that the board starts with.
        max_baud: the rate may be raised to this when the host can do it as well; None: it is fixed.
        irq: number of its receive interrupt; None: it is polled.
        tx_pin: where the driver selects pins, the number of the pin; rx_pin likewise.
    """

    driver: Literal["16550", "cmsdk", "nrf51", "pl011", "sifive", "stm32", "own"]
    base: Word | None = None
    clock_hz: Positive | None = None
    baud: Positive = 115_200
    max_baud: Positive | None = None
    irq: Annotated[int, Meta(ge=0, le=479)] | None = None
    tx_pin: Annotated[int, Meta(ge=0, le=255)] | None = None
    rx_pin: Annotated[int, Meta(ge=0, le=255)] | None = None


class Entropy(_Row, frozen=True, kw_only=True):
    """The source of random numbers, for secured sessions.

    ``driver``: a source ``crt/baremetal/entropy_<driver>.c``; ``own``: the board's ``sources`` define
    ``mlf_entropy``. ``base``: of its registers; an own driver may do without.
    """

    driver: Literal["nrf51", "own"]
    base: Word | None = None


class FlashController(_Row, frozen=True, kw_only=True):
    """Controller that erases and writes the first flash at run time, for parameters that are kept there.

    ``driver``: a source ``crt/baremetal/flash_<driver>.c``; ``own``: the board's ``sources`` define the
    functions of ``mlf_store_flash.h``. ``base``: of its registers. ``page_bytes`` are erased at once.
    """

    driver: Literal["nvmc", "own"]
    base: Word | None = None
    page_bytes: Annotated[int, Meta(ge=64, le=1 << 20, multiple_of=64)]


class Init(_Row, frozen=True, kw_only=True):
    """A write to a 32-bit register before main(): clocks, pins.

    Attributes:
        address: of the register.
        value: bits to set.
        mask: bits that are replaced; 0: the whole register is written.
        wait_mask: bits to wait for; 0: nothing. The wait ends after a million readings; then
            ``mlf_init_failed`` of the image holds the number of the write.
        wait_value: what they must become.
        wait_address: register of these bits; None: the one that was written.
        what: what it does, for people.
    """

    address: Annotated[int, Meta(ge=0, le=0xFFFFFFFC, multiple_of=4)]
    value: Word
    mask: Word = 0
    wait_mask: Word = 0
    wait_value: Word = 0
    wait_address: Annotated[int, Meta(ge=0, le=0xFFFFFFFC, multiple_of=4)] | None = None
    what: Text


class Counter(_Row, frozen=True, kw_only=True):
    """The tick counter, and its rate in Hz. ``driver``: one of the architecture's; empty: its first."""

    driver: str = ""
    hz: Positive


class Interrupts(_Row, frozen=True, kw_only=True):
    """The interrupts of the device, for the vector table.

    Attributes:
        count: numbers of the device's interrupts, from 0 on.
        base: address of the interrupt controller's registers, where the architecture leaves it to the chip.
        handlers: names of handlers, as the vendor's start-up file has them, with their numbers; an
            interrupt without one gets ``IRQ<number>_Handler``.
    """

    count: Annotated[int, Meta(ge=1, le=480)]
    base: Word | None = None
    handlers: dict[HandlerName, Annotated[int, Meta(ge=0, le=479)]] = {}


class Rpc(_Row, frozen=True, kw_only=True):
    """Limits of the RPC server.

    ``max_payload``: bytes of a message; the server's RAM is about twice this. ``window_bytes``: of requests
    that are kept while it is busy, in as much RAM; 0: one request at a time.
    """

    max_payload: Annotated[int, Meta(ge=64, le=65_000)] = 1024
    window_bytes: Annotated[int, Meta(ge=0, le=32_768)] = 0


class ZephyrNames(_Row, frozen=True, kw_only=True):
    """Zephyr's names of the board: before 3.7 and since; empty: Zephyr does not have it.

    ``native``: it is a program of this machine. ``simulated_flash``: label of one for slots.
    """

    old: str = ""
    new: str = ""
    native: bool = False
    simulated_flash: str = ""


class Flasher(_Row, frozen=True, kw_only=True):
    """Flashing of the real board: the runner (west's name), and the USB ids ``vid:pid`` of its probe.

    ``options``: values that runners need (``board_templates/runners``), e.g. ``pyocd_target``.
    """

    runner: str = ""
    usb_ids: tuple[Annotated[str, Meta(pattern=r"\A[0-9a-f]{4}:[0-9a-f]{4}\Z")], ...] = ()
    options: dict[Identifier, Text] = {}


class QemuRow(_Row, frozen=True, kw_only=True):
    """Emulation of a board by QEMU, which names ``machine`` and ``cpu``; empty: the machine's own.

    ``serial_index``: which of the machine's serial ports is the console. ``args``: more arguments.
    """

    machine: str
    cpu: str = ""
    serial_index: int = 0
    args: tuple[str, ...] = ()


class RtlRow(_Row, frozen=True, kw_only=True):
    """Simulation of a board's core from its source at register transfer level.

    Attributes:
        model: name of a core in ``board_templates/rtl/models``; parameters: of its top module, besides.
        exit_register: address of the register that ends the simulation with the status that is written.
        flash_wait_states: cycles that each access to a memory of the kind ``flash`` takes beyond the first.
    """

    model: Identifier
    exit_register: Word
    flash_wait_states: Annotated[int, Meta(ge=0, le=100)] = 0
    parameters: dict[ParameterName, Word] = {}
    args: tuple[str, ...] = ()


class Board(_Row, frozen=True, kw_only=True):
    """A board row.

    Attributes:
        name: what the user types.
        title: for people.
        platform: what kind of project is generated.
        isa: its instruction set architecture (``board_templates/isas``); empty: the one that has the CPU.
        cpu: the CPU as the compiler's flag takes it, e.g. ``-mcpu=cortex-m33+nodsp``, ``-march=rv32imac``.
        fpu: the FPU as GCC's ``-mfpu`` takes it; ``auto``: all that the CPU has; ``none``.
        float_abi: how floats are passed.
        dsp: the CPU has the DSP extension.
        clock_hz: rate of the CPU and of the bus of the UART.
        caches: start-up switches instruction and data cache on.
        stack_bytes: what is reserved for the stack, a multiple of 8.
        memories: the first flash and the first RAM hold all that names no other memory.
        chip: microcontroller on the board, by a name of ``mlf-sdk chips``; empty: none is stated.
        entropy: where random numbers come from; None: there is no source, and no secured session.
        flash_controller: what writes the first flash at run time; None: the slots of parameters are in RAM.
        init: writes to registers before main(), in order; all rates of the row are those after them.
        second_stage: writes that set up the flash, of the 256 bytes before the vector table that a boot
            ROM wants (:mod:`mlf_sdk.targets.boards.stage`); empty: it wants none.
        sources: C, assembler and header files that lie beside the row's file and belong to the board,
            e.g. an own UART driver (``crt/include/mlf/mlf_platform.h`` says what it has).
        trap_alignment_bytes: that the core wants of the address of its trap handler, where the architecture
            leaves it to the core; 0: the core has neither traps nor interrupts, and stops at an exception.
    """

    name: BoardName
    title: Text
    platform: Literal["baremetal", "zephyr", "host"] = "baremetal"
    isa: str = ""
    cpu: Annotated[str, Meta(pattern=r"\A[a-z0-9._+-]{0,40}\Z")] = ""
    fpu: Annotated[str, Meta(pattern=r"\A[a-z0-9-]{1,20}\Z")] = "none"
    float_abi: Literal["soft", "hard"] = "soft"
    dsp: bool = False
    caches: bool = False
    trap_alignment_bytes: Literal[0, 4, 16, 64, 256] = 4
    clock_hz: Annotated[int, Meta(ge=0, le=0xFFFFFFFF)] = 0
    chip: Annotated[str, Meta(pattern=r"\A[a-z0-9_]{0,40}\Z")] = ""
    stack_bytes: Annotated[int, Meta(ge=512, le=1 << 28, multiple_of=8)] = 4096
    memories: tuple[Memory, ...] = ()
    sources: tuple[SourceName, ...] = ()
    uart: Uart | None = None
    counter: Counter | None = None
    entropy: Entropy | None = None
    flash_controller: FlashController | None = None
    interrupts: Interrupts | None = None
    init: tuple[Init, ...] = ()
    second_stage: tuple[Init, ...] = ()
    rpc: Rpc = Rpc()
    qemu: QemuRow | None = None
    rtl: RtlRow | None = None
    zephyr: ZephyrNames = ZephyrNames()
    flasher: Flasher = Flasher()

    @property
    def flash(self) -> Memory:
        """The memory of code and constants."""
        return self._first("flash")

    @property
    def ram(self) -> Memory:
        """The memory of all else."""
        return self._first("ram")

    @property
    def boot_memory(self) -> Memory:
        """The memory that begins with the vector table."""
        return next((m for m in self.memories if m.boot), self.flash)

    @property
    def is_emulated(self) -> bool:
        """True where images are started on this machine, by an emulator or a simulator."""
        return self.qemu is not None or self.rtl is not None

    @property
    def proven_on(self) -> str:
        """Place where images for the board have run: ``emulated``, ``simulated``, ``not run on hardware``."""
        if self.platform == "host":
            return "this machine"
        emulated = "emulated" if self.qemu is not None else "not run on hardware"
        return "simulated" if self.rtl is not None else emulated

    @property
    def regions(self) -> tuple[tuple[str, int, int], ...]:
        """The memories as (name, origin, size in bytes)."""
        return tuple((m.name, m.origin, m.size_bytes) for m in self.memories)

    def _first(self, kind: str) -> Memory:
        if (first := next((m for m in self.memories if m.kind == kind), None)) is None:
            raise InputError(f"the board has no {kind}", where=f"board {self.name}")
        return first


class MachineMemory(_Row, frozen=True, kw_only=True):
    """A memory of an emulated machine, and its aliases; ``main``: QEMU's main RAM, which a file can keep."""

    name: Text
    origin: Word
    size_bytes: Positive
    writable: bool = True
    aliases: tuple[Word, ...] = ()
    main: bool = False


class MachineUart(_Row, frozen=True, kw_only=True):
    """A UART of an emulated machine, and which ``-serial`` argument it takes."""

    driver: str
    base: Word
    serial_index: Annotated[int, Meta(ge=0, le=31)]


class Machine(_Row, frozen=True, kw_only=True):
    """Properties of an emulated machine, found by experiment (method: ``qemu/README.md``).

    Attributes:
        machine: QEMU's name.
        isa: its instruction set architecture: machines of two may have one name.
        cpu: its CPU, as GCC calls it without extensions.
        fpu: the CPU that boots has an FPU.
        dsp: the CPU that boots has the DSP extension.
        counter_hz: rate of the core's tick counter.
        counter_fixed: that rate whatever clock an image sets up; rows may state the real board's.
        semihosting: an image can end the emulator.
    """

    machine: BoardName
    isa: str
    cpu: str
    fpu: bool
    dsp: bool
    counter_hz: Positive
    counter_fixed: bool = False
    semihosting: bool
    memories: tuple[MachineMemory, ...]
    uarts: tuple[MachineUart, ...]
