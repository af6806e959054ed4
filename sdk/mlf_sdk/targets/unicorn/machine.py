# SPDX-License-Identifier: Apache-2.0
"""An emulated board as a process of its own: Unicorn's core, memories, a UART on a socket, SysTick.

Interrupts come where the core sleeps: that of the UART when bytes are there, that of SysTick also when it
wraps. Other devices, priorities and the memory protection unit are not modelled. One instruction takes 1 ns,
as with QEMU's ``-icount shift=0``.
"""

from __future__ import annotations

import ctypes
import mmap
import socket
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from mlf_sdk.errors import TargetError
from mlf_sdk.targets.boards.load import machine_of
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.unicorn.launch import core_name
from mlf_sdk.targets.unicorn.windows import Windows
from mlf_sdk.tools.rowfile import described

_MARKS = 64
_RETURN = 0x9FFF_0000  # where a handler returns to: no memory of a board, and code may lie there
_PAGE = 0x1000
_SYSTEM = 0xE000_E000
_NS_PER_S = 1_000_000_000
_CSR, _RVR, _CVR, _ICSR, _CFSR, _BFAR, _SHCSR = 0x10, 0x14, 0x18, 0xD04, 0xD28, 0xD38, 0xD24
_PENDSTSET, _PENDSTCLR = 1 << 26, 1 << 25
_HARD_FAULT, _BUS_FAULT, _USAGE_FAULT, _SYSTICK, _FIRST_IRQ = 3, 5, 6, 15, 16
_PRECISE, _UNDEFINED, _STACK_LIMIT, _NOT_STACKED = 0x8200, 1 << 16, 1 << 20, 1 << 12
_EXCP_STKOF = 19  # number that the emulator gives a stack pointer below its limit
_PADDED = 1 << 9
_WFI = b"\x30\xbf"
_BYTES_AT_ONCE = 512
_STATE, _INTCLEAR = 4, 12
_RX_FULL = 2


class Blocks(ctypes.Structure):
    """State of the hook in C: ``mlf_blocks_t``."""

    _fields_ = (
        ("count", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
        ("code", ctypes.c_void_p),
        ("base", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("stop", ctypes.c_void_p),
        ("passes", ctypes.c_uint32),
        ("num_marks", ctypes.c_uint32),
        ("marks", ctypes.c_uint32 * _MARKS),
    )


class Machine:
    """A board that runs an image."""

    def __init__(
        self,
        board: Board,
        elf: Path,
        console: socket.socket,
        hook: Path,
        windows: Windows | None,
        store: Path | None = None,
    ) -> None:
        unicorn: Any = import_module("unicorn")
        arm_const: Any = import_module("unicorn.arm_const")
        self.uc: Any = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        self.error, self.reg = unicorn.UcError, arm_const
        self.uc.ctl_set_cpu_model(getattr(arm_const, f"UC_CPU_ARM_{core_name(board)}"))
        self.board, self.console, self.windows = board, console, windows
        self.received: deque[int] = deque()
        self.sent = bytearray()
        self.registers: dict[int, int] = {}
        self.started = self.wraps = self.bad_address = self.raised = 0
        self.has_faulted = False
        self._map(elf, store, unicorn)
        self._hook(hook, unicorn)

    def _map(self, elf: Path, store: Path | None, unicorn: Any) -> None:  # noqa: ANN401
        from elftools.elf.elffile import ELFFile

        kept = self._keep(store, unicorn) if store is not None else None
        for memory in self.board.memories:
            if memory.origin != kept:
                self.uc.mem_map(memory.origin, memory.size_bytes)
        self.uc.mem_map(_RETURN, _PAGE)
        with elf.open("rb") as stream:
            for part in ELFFile(stream).iter_segments("PT_LOAD"):
                if part["p_filesz"]:
                    self.uc.mem_write(part["p_paddr"], part.data())
        uart = self.board.uart
        if uart is None or uart.base is None:
            raise ValueError("the board has no UART")
        self.uc.mmio_map(uart.base, _PAGE, self._uart_read, None, self._uart_write, None)
        self.uc.mmio_map(_SYSTEM, _PAGE, self._system_read, None, self._system_write, None)
        self.uc.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._invalid)
        self.uc.hook_add(unicorn.UC_HOOK_INTR, self._raised)

    def _keep(self, store: Path, unicorn: Any) -> int:  # noqa: ANN401
        """Map the machine's main memory from the file that keeps it between starts; its address."""
        machine = machine_of(self.board)
        main = next(one for one in machine.memories if one.main) if machine is not None else None
        if main is None:
            raise ValueError("the board has no memory that can be kept")
        with store.open("r+b") as stream:
            self.store = mmap.mmap(stream.fileno(), main.size_bytes)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.store))
        self.uc.mem_map_ptr(main.origin, main.size_bytes, unicorn.UC_PROT_ALL, start)
        return main.origin

    def _hook(self, hook: Path, unicorn: Any) -> None:  # noqa: ANN401
        flash = self.board.flash
        self.code = ctypes.create_string_buffer(bytes(self.uc.mem_read(flash.origin, flash.size_bytes)))
        uclib: Any = import_module("unicorn.unicorn_py3.unicorn").uclib
        marks = sorted({*self.windows.begins, *self.windows.ends}) if self.windows else []
        self.blocks = Blocks(
            limit=2**64 - 1,
            code=ctypes.addressof(self.code),
            base=flash.origin,
            size=flash.size_bytes,
            stop=ctypes.cast(uclib.uc_emu_stop, ctypes.c_void_p).value,
            num_marks=len(marks),
            marks=(ctypes.c_uint32 * _MARKS)(*marks),
        )
        self.library = ctypes.CDLL(str(hook))
        handle = ctypes.c_size_t()
        uclib.uc_hook_add(
            self.uc._uch,
            ctypes.byref(handle),
            unicorn.UC_HOOK_BLOCK,
            ctypes.cast(self.library.mlf_block, ctypes.c_void_p),
            ctypes.byref(self.blocks),
            ctypes.c_uint64(1),
            ctypes.c_uint64(0),
        )

    # ---- devices ----

    def _uart_read(self, _uc: object, offset: int, _size: int, _user: object) -> int:
        if offset == 0:
            return self.received.popleft() if self.received else 0
        return _RX_FULL if offset == _STATE and self.received else 0

    def _uart_write(self, _uc: object, offset: int, _size: int, value: int, _user: object) -> None:
        if offset == 0:
            self.sent.append(value & 0xFF)

    @property
    def _ticks(self) -> int:
        counter = self.board.counter
        hz = counter.hz if counter is not None else _NS_PER_S
        return int((self.blocks.count - self.started) * hz // _NS_PER_S)

    def _system_read(self, _uc: object, offset: int, _size: int, _user: object) -> int:
        if offset == _CVR:
            period = self.registers.get(_RVR, 0) + 1
            return (period - self._ticks % period) % period
        return self.registers.get(offset, 0)

    def _system_write(self, _uc: object, offset: int, _size: int, value: int, _user: object) -> None:
        if offset == _CVR:
            self.started, self.wraps = self.blocks.count, 0
        elif offset == _ICSR:
            if value & _PENDSTCLR:
                self.registers[_ICSR] = self.registers.get(_ICSR, 0) & ~_PENDSTSET
        elif offset != 0xD90:
            self.registers[offset] = value
        if offset in (_CSR, _CVR):
            self._set_limit()

    def _set_limit(self) -> None:
        """Have the hook stop at the next wrap of SysTick."""
        counter = self.board.counter
        if counter is None or self.registers.get(_CSR, 0) & 3 != 3:
            self.blocks.limit = 2**64 - 1
            return
        period = self.registers.get(_RVR, 0) + 1
        self.blocks.limit = self.started + (self.wraps + 1) * period * _NS_PER_S // counter.hz

    def _invalid(self, _uc: object, _kind: int, address: int, _size: int, _value: int, _user: object) -> bool:
        self.bad_address = address
        return False

    def _raised(self, uc: Any, number: int, _user: object) -> None:  # noqa: ANN401
        self.raised = number
        uc.emu_stop()

    # ---- the core ----

    def run(self) -> None:
        """Run until the console is closed.

        Raises:
            TargetError: the core locked up.
        """
        uc, reg = self.uc, self.reg
        boot = self.board.boot_memory.origin
        stack, start = (int.from_bytes(uc.mem_read(boot + at, 4), "little") for at in (0, 4))
        uc.reg_write(reg.UC_ARM_REG_SP, stack)
        at = start
        while True:
            try:
                uc.emu_start(at | 1, _RETURN)
            except self.error:
                at = self._fault()
                continue
            if self.raised:
                at = self._fault()
                continue
            at = uc.reg_read(reg.UC_ARM_REG_PC)
            if self.blocks.passes:
                self._stopped(at)
            elif bytes(uc.mem_read(at - 2, 2)) == _WFI and not self._slept():
                return

    def _stopped(self, at: int) -> None:
        """Go on behind a stop of the hook: a mark, a wrap of SysTick, or both."""
        if self.windows is not None:
            self.windows.reach(at, self.blocks.count)
        if self.blocks.count >= self.blocks.limit:
            self.wraps += 1
            self._set_limit()
            if self.uc.reg_read(self.reg.UC_ARM_REG_PRIMASK) & 1:
                self.registers[_ICSR] = self.registers.get(_ICSR, 0) | _PENDSTSET
            else:
                self._interrupt(_SYSTICK)
                self.blocks.passes = 1

    def _slept(self) -> bool:
        """Wait for bytes and have them fetched; False: the console is closed."""
        if self.sent:
            self.console.sendall(bytes(self.sent))
            self.sent.clear()
        if self.registers.get(_ICSR, 0) & _PENDSTSET:
            self.registers[_ICSR] &= ~_PENDSTSET
            self._interrupt(_SYSTICK)
        data = self.console.recv(_BYTES_AT_ONCE)
        self.received.extend(data)
        uart = self.board.uart
        if data and uart is not None and uart.irq is not None:
            self._interrupt(_FIRST_IRQ + uart.irq)
        return bool(data)

    def _handler(self, exception: int) -> int:
        table = self.board.boot_memory.origin
        return int.from_bytes(self.uc.mem_read(table + 4 * exception, 4), "little")

    def _interrupt(self, exception: int) -> None:
        """Run the handler of an exception, which counts no instructions."""
        uc, reg = self.uc, self.reg
        kept, count, marks = uc.context_save(), self.blocks.count, self.blocks.num_marks
        limit, self.blocks.limit, self.blocks.num_marks, self.blocks.passes = (
            self.blocks.limit,
            2**64 - 1,
            0,
            0,
        )
        uc.reg_write(reg.UC_ARM_REG_SP, (uc.reg_read(reg.UC_ARM_REG_SP) - 32) & ~7)
        uc.reg_write(reg.UC_ARM_REG_LR, _RETURN | 1)
        uc.emu_start(self._handler(exception) | 1, _RETURN)
        uc.context_restore(kept)
        self.blocks.count, self.blocks.num_marks, self.blocks.limit = count, marks, limit

    def _fault(self) -> int:
        """Enter the handler of a fault as the core does; its address. A second one ends the machine."""
        if self.has_faulted:
            raise TargetError("the core locked up: a fault in the handler of a fault")
        self.has_faulted = True
        uc, reg = self.uc, self.reg
        names = ("R0", "R1", "R2", "R3", "R12", "LR", "PC", "XPSR")
        frame = [uc.reg_read(getattr(reg, f"UC_ARM_REG_{name}")) for name in names]
        address, self.bad_address = self.bad_address, 0
        raised, self.raised = self.raised, 0
        enabled = self.registers.get(_SHCSR, 0) != 0
        status = _PRECISE if address else _STACK_LIMIT if raised == _EXCP_STKOF else _UNDEFINED
        self.registers[_CFSR] = status
        self.registers[_BFAR] = address
        exception = _HARD_FAULT if not enabled else _BUS_FAULT if address else _USAGE_FAULT
        sp = uc.reg_read(reg.UC_ARM_REG_SP) - 32
        if sp & 7:  # a word is skipped, and the frame says so
            sp, frame[-1] = sp & ~7, frame[-1] | _PADDED
        try:
            uc.mem_write(sp & 0xFFFF_FFFF, b"".join(word.to_bytes(4, "little") for word in frame))
        except self.error:  # the stack has left the board's memories
            self.registers[_CFSR] |= _NOT_STACKED
        uc.reg_write(reg.UC_ARM_REG_SP, sp & 0xFFFF_FFFF)
        uc.reg_write(reg.UC_ARM_REG_LR, 0xFFFF_FFF9)
        uc.reg_write(reg.UC_ARM_REG_IPSR, exception)
        self.blocks.passes = 0
        return self._handler(exception)


def _argument_of(name: str, arguments: Sequence[str]) -> Iterator[str]:
    for option, value in pairwise(arguments):
        if option == name:
            yield value


def _path_of(backend: str) -> Path:
    """File of a memory: commas in its path are written twice."""
    parts = backend.replace(",,", "\0").split(",")
    path = next(part.partition("=")[2] for part in parts if part.startswith("mem-path="))
    return Path(path.replace("\0", ","))


def run_machine(arguments: Sequence[str]) -> None:
    """Emulate a board: its row as JSON, image, file descriptor of the console, hook, arguments of QEMU."""
    row, elf, console, hook, *more = arguments
    plugin = next(_argument_of("-plugin", more), None)
    store = next(map(_path_of, _argument_of("-object", more)), None)
    with socket.socket(fileno=int(console)) as connection:
        board = msgspec.json.decode(row, type=described(Board))
        windows = Windows(plugin) if plugin else None
        Machine(board, Path(elf), connection, Path(hook), windows, store).run()


if __name__ == "__main__":
    run_machine(sys.argv[1:])
