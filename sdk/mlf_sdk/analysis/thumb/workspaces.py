# SPDX-License-Identifier: Apache-2.0
"""Workspace requests in the machine code of an Arm object, by following its flow of control.

A request counts when the constant in its size registers is certain on every way to it. What one
function asks for includes what the functions that it calls ask for, and the tasks that it hands to
the runtime to run at once (which runs them one after the other on a microcontroller).
"""

from __future__ import annotations

from collections.abc import Sequence

from capstone import arm

from mlf_sdk.analysis.elf import raw
from mlf_sdk.analysis.elf.raw import RawElf
from mlf_sdk.analysis.machine.calls import Call
from mlf_sdk.analysis.machine.registry import ObjectWorkspace
from mlf_sdk.analysis.machine.workspaces import LAUNCH, may_ask_for_workspace
from mlf_sdk.analysis.thumb.flow import TracedInstruction, UntraceableError, trace_function
from mlf_sdk.analysis.thumb.objectcode import FIRST_ADDRESS, FIRST_UNDEFINED, ObjectCode
from mlf_sdk.tools.ctext import ALLOCATE, FREE

MAX_CALL_DEPTH = 64
MAX_OPEN_REQUESTS = 16
MAX_WAYS = 16
"""Limit of the different sets of open requests at one instruction."""

Stack = tuple[int, ...]


def kernel_workspaces(elf: RawElf, names: Sequence[str]) -> dict[str, ObjectWorkspace]:
    """Workspace that global functions of an object ask for, by nesting of its requests."""
    symbols = {s.name: s for s in elf.symbols if s.binding == raw.STB_GLOBAL and s.is_defined}
    result = {}
    requests: _Requests | None = None
    for name in names:
        symbol = symbols[name]
        try:
            requests = requests or _Requests(ObjectCode(elf))
            entry = requests.code.address_of(symbol)
            if not symbol.value & 1 or entry is None:
                raise UntraceableError("it is not Thumb code")
            result[name] = ObjectWorkspace(slots=requests.slots(entry), exact=True)
        except UntraceableError as error:
            result[name] = ObjectWorkspace(slots=(), exact=False, reason=str(error))
    return result


class _Requests:
    """Requests of the functions of one object, each function followed once."""

    def __init__(self, code: ObjectCode) -> None:
        self.code = code
        self.known: dict[int, tuple[int, ...]] = {}
        self.active: list[int] = []

    def slots(self, entry: int) -> tuple[int, ...]:
        """Slots of the function at ``entry`` and all that it calls."""
        if entry in self.known:
            return self.known[entry]
        if entry in self.active:
            raise UntraceableError("it calls itself")
        if len(self.active) >= MAX_CALL_DEPTH:
            raise UntraceableError("its calls nest too deeply")
        self.active.append(entry)
        try:
            self.known[entry] = self._walk(entry)
        finally:
            self.active.pop()
        return self.known[entry]

    def _walk(self, entry: int) -> tuple[int, ...]:
        """Walk every path through a function, with the open requests on each."""
        steps = trace_function(self.code, self.code.function_at(entry), entry).steps
        slots: list[int] = []
        seen: dict[int, set[Stack]] = {}
        pending: list[tuple[int, Stack]] = [(entry, ())]
        balanced = False
        while pending:
            address, stack = pending.pop()
            ways = seen.setdefault(address, set())
            if stack in ways:
                continue
            ways.add(stack)
            if len(ways) > MAX_WAYS or len(stack) > MAX_OPEN_REQUESTS:
                raise UntraceableError("its requests do not pair with its frees")
            step = steps[address]
            if step.call is not None:
                stack = self._call(step, step.call, stack, slots)
            leaves = step.leaves or (step.call is not None and not step.call.returns)
            balanced = balanced or (leaves and not stack)
            pending += [(following, stack) for following in step.following]
        if slots and not balanced:
            raise UntraceableError("it never frees what it asks for")
        return tuple(slots)

    def _call(self, step: TracedInstruction, call: Call, stack: Stack, slots: list[int]) -> Stack:
        """Open requests after a call; ``slots`` takes in what it asks for."""
        name = self.code.undefined.get(call.target) if call.target is not None else None
        if name in (ALLOCATE, FREE):
            if call.conditional or (name == ALLOCATE and not call.returns):
                raise UntraceableError("a request or free depends on a condition")
            if name == ALLOCATE:
                stack = (*stack, self._size(step, call))
                _grow(slots, len(stack) - 1, (stack[-1],))
                return stack
            if not stack:
                raise UntraceableError("it frees more than it asks for")
            return stack[:-1]
        if call.target is None:
            raise UntraceableError("it calls through a pointer")
        if name is None:
            _grow(slots, len(stack), self.slots(call.target))
        elif name == LAUNCH:
            if call.argument is None or not FIRST_ADDRESS <= call.argument < FIRST_UNDEFINED:
                raise UntraceableError("it hands an unknown task to the runtime")
            _grow(slots, len(stack), self.slots(call.argument & ~1))
        elif may_ask_for_workspace(name):
            raise UntraceableError(f"it calls {name}, which may ask for workspace")
        return stack

    def _size(self, step: TracedInstruction, call: Call) -> int:
        """Bytes of a request: the 64-bit argument in r2 (low word) and r3."""
        low, high = (step.registers.get(register) for register in (arm.ARM_REG_R2, arm.ARM_REG_R3))
        if not isinstance(low, int) or low >= FIRST_ADDRESS or high != 0:
            where = self.code.name_at(call.address)
            raise UntraceableError(f"the size of the request at {where} is not a constant")
        return low


def _grow(slots: list[int], depth: int, sizes: tuple[int, ...]) -> None:
    """Take in requests of these sizes, the first of them at ``depth``."""
    slots += [0] * (depth + len(sizes) - len(slots))
    for index, size in enumerate(sizes, depth):
        slots[index] = max(slots[index], size)
