# SPDX-License-Identifier: Apache-2.0
"""Estimate of cycles: how often each instruction was executed, priced by the documented timings of a core.

The emulator counts instructions; whether a branch was taken follows from how often what stands behind it and
at its target was executed. What is left out: interlocks that the tables do not state, contention on buses,
caches, and a second instruction in the same cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from capstone import arm

from mlf_sdk.analysis.elf.image import Function
from mlf_sdk.analysis.thumb import decode
from mlf_sdk.analysis.thumb.decode import PC, Undecoded
from mlf_sdk.compiler.cores import Prices, Timing
from mlf_sdk.judge.counting import WindowCount
from mlf_sdk.judge.timings import class_of

if TYPE_CHECKING:
    from mlf_sdk.analysis.machine.registry import MachineCode
    from mlf_sdk.analysis.thumb.code import ThumbCode
    from mlf_sdk.analysis.thumb.decode import Instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Estimated cycles of one window.

    Attributes:
        cycles: in all.
        waits: of these, for the code that is fetched from the flash.
        instructions: by class, see `mlf_sdk.compiler.cores.Prices`.
        taken: branches that were taken.
        undecided: of these, executions that the counts leave open.
        unknown: executions of instructions without a price, taken as one cycle each.
    """

    cycles: int
    waits: int
    instructions: Mapping[str, int]
    taken: int
    undecided: int
    unknown: int


def estimator(code: MachineCode, timings: Timing, wait_states: int) -> Estimator | None:
    """An estimator for code whose instructions have prices; None for any other."""
    from mlf_sdk.analysis.thumb.code import ThumbCode  # the disassembler takes time to load

    return Estimator(code, timings, wait_states) if isinstance(code, ThumbCode) else None


class Estimator:
    """Prices the functions of an image; what does not depend on counts is worked out once a function."""

    def __init__(self, code: ThumbCode, timings: Timing, wait_states: int = 0) -> None:
        self.code = code
        self.prices = timings.cycles
        self.wait_states = wait_states
        self._flows: dict[int, _Flow] = {}

    def estimate(self, counts: Mapping[int, int]) -> Estimate:
        """Price instructions that were executed.

        Args:
            counts: how often, by address.
        """
        cycles = taken = undecided = unknown = fetched = 0
        classes: Counter[str] = Counter()
        for function in self._functions(counts):
            flow = self._flow(function)
            jumps, waiting = flow.taken(counts)
            undecided += sum(jumps[address] for address in waiting)
            taken += sum(jumps.values())
            for address, instruction in flow.instructions.items():
                count = counts.get(address, 0)
                if not count:
                    continue
                fetched += count * instruction.size
                if isinstance(instruction, Undecoded):
                    unknown, cycles = unknown + count, cycles + count
                    continue
                name, price = flow.prices[address]
                classes[name] += count
                cycles += count * price
                if address in jumps and name != "multiple":  # whose price holds the refill
                    cycles += jumps[address] * (self.prices.branch_taken - self.prices.branch)
        waits = self.wait_states * (-(-fetched // 4) + taken)
        return Estimate(
            cycles=cycles + waits,
            waits=waits,
            instructions=dict(sorted(classes.items())),
            taken=taken,
            undecided=undecided,
            unknown=unknown,
        )

    def window(self, counted: WindowCount, leave_out: frozenset[str]) -> Estimate:
        """Price a window without the functions of these names."""
        counts = {
            address: count
            for address, count in counted.executed.items()
            if (function := self.code.image.function_at(address)) is None or function.name not in leave_out
        }
        return self.estimate(counts)

    def _functions(self, counts: Mapping[int, int]) -> Iterable[Function]:
        result: dict[int, Function] = {}
        for address in counts:
            function = self.code.image.function_at(address)
            if function is not None:
                result[function.address] = function
        return result.values()

    def _flow(self, function: Function) -> _Flow:
        if function.address not in self._flows:
            instructions = self.code.instructions(function)
            self._flows[function.address] = _Flow.of(function, instructions, self.prices)
        return self._flows[function.address]


@dataclass(slots=True, kw_only=True)
class _Flow:
    """Instructions of a function, their prices, and the edges between them.

    Attributes:
        prices: class and cycles of each; of a conditional branch, those when it is not taken.
        conditional: branches that may be taken: address behind them, and target (None: outside).
        sure: edges that every execution follows: from, by target.
        open: targets that may be reached from elsewhere: the entry, jumps through tables.
    """

    instructions: Mapping[int, Instruction | Undecoded]
    prices: dict[int, tuple[str, int]] = field(default_factory=dict)
    conditional: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    sure: dict[int, list[int]] = field(default_factory=dict)
    jumps: set[int] = field(default_factory=set)
    open: set[int] = field(default_factory=set)

    @classmethod
    def of(
        cls, function: Function, instructions: Mapping[int, Instruction | Undecoded], prices: Prices
    ) -> _Flow:
        flow = cls(instructions=instructions)
        flow.open.add(function.address)
        before: Instruction | None = None
        for address, instruction in instructions.items():
            if isinstance(instruction, Undecoded):
                before = None
                flow._edge(address, address + instruction.size)
                continue
            name = class_of(instruction)
            flow.prices[address] = name, _price(instruction, name, before, prices)
            flow._edges(instruction, name)
            before = instruction
        return flow

    def _edges(self, instruction: Instruction, name: str) -> None:
        address, following = instruction.address, instruction.address + instruction.size
        if name == "table_branch":
            self.open.update(self.instructions)  # any instruction may be a case
            return
        leaves = name == "branch" or (name != "call" and PC in instruction.written)
        if not leaves:
            self._edge(address, following)
            return
        target = None
        if name == "branch" and instruction.operands[-1].type == arm.ARM_OP_IMM:
            target = decode.label(instruction)
        if instruction.id in decode.TESTS or not decode.is_unconditional(instruction):
            self.conditional[address] = following, target if target in self.instructions else None
        else:
            self.jumps.add(address)
            if target is not None and target in self.instructions:
                self._edge(address, target)

    def _edge(self, source: int, target: int) -> None:
        self.sure.setdefault(target, []).append(source)

    def taken(self, counts: Mapping[int, int]) -> tuple[dict[int, int], set[int]]:
        """Branches that were taken, by address, and those of them where the counts leave it open: all."""
        result = {address: counts.get(address, 0) for address in self.jumps}
        waiting = {address for address in self.conditional if counts.get(address, 0)}
        solved = dict.fromkeys(self.conditional, 0)
        into: dict[int, list[tuple[int, bool]]] = {}
        for address, (following, target) in self.conditional.items():
            into.setdefault(following, []).append((address, False))
            if target is not None:
                into.setdefault(target, []).append((address, True))
        progress = True
        while waiting and progress:
            progress = False
            for place, edges in into.items():
                unsolved = [edge for edge in edges if edge[0] in waiting]
                if place in self.open or len(unsolved) != 1:
                    continue
                branch, jumps = unsolved[0]
                rest = counts.get(place, 0) - sum(counts.get(s, 0) for s in self.sure.get(place, ()))
                for other, by_jump in edges:
                    if other not in waiting:
                        total = counts.get(other, 0)
                        rest -= solved[other] if by_jump else total - solved[other]
                total = counts.get(branch, 0)
                rest = min(max(rest, 0), total)
                solved[branch] = rest if jumps else total - rest
                waiting.discard(branch)
                progress = True
        solved |= {address: counts.get(address, 0) for address in waiting}
        return result | solved, waiting


def _price(instruction: Instruction, name: str, before: Instruction | None, prices: Prices) -> int:
    """Cycles of an instruction whose branch is not taken."""
    to_pc = name not in ("branch", "call") and PC in instruction.written
    if name == "multiple":
        return (prices.pop_pc if to_pc else prices.multiple) + _registers(instruction)
    price: int = getattr(prices, name)
    if name == "load" and prices.load_behind_load is not None and _pipelined(instruction, before):
        price = prices.load_behind_load
    if name == "store" and prices.store_by_register is not None and instruction.operands[-1].mem.index:
        price = prices.store_by_register
    if name == "float_load" and decode.register_name(instruction.operands[0].reg).startswith("d"):
        price = prices.float_load_double
    if name == "data" and instruction.id == arm.ARM_INS_IT:
        return 1
    return price


def _registers(instruction: Instruction) -> int:
    """Words that an instruction with several registers moves."""
    registers = [o for o in instruction.operands if o.type == arm.ARM_OP_REG]
    if instruction.mnemonic.startswith(("ldm", "stm", "vldm", "vstm")):
        registers = registers[1:]  # the base
    return sum(2 if decode.register_name(o.reg).startswith("d") else 1 for o in registers)


def _pipelined(instruction: Instruction, before: Instruction | None) -> bool:
    """Return whether a load overlaps with the load right before it."""
    if before is None or class_of(before) != "load":
        return False
    base = instruction.operands[-1].mem.base if len(instruction.operands) > 1 else 0
    return bool(before.operands[0].reg != base)
