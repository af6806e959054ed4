# SPDX-License-Identifier: Apache-2.0
"""Steps of an ahead-of-time model: the calls of its main function, where they can be shown to be all of it.

Main gives each kernel addresses: of inputs and outputs, of parts of workspaces or of memory pools, of
constants. Each value that a kernel fills becomes a tensor of its own, so that memory is planned by lifetime.
A workspace whose values cannot be distinguished stays one tensor, in which they lie as main has them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec

from mlf_sdk.analysis.c.calllist import CallList, KernelCall, PassedArgument, read_calls
from mlf_sdk.analysis.c.liveness import analyse_kernel
from mlf_sdk.analysis.c.stackpeak import stack_peak
from mlf_sdk.analysis.c.symbols import Place, Request
from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.aotuse import ParameterUse, Part, parameter_uses
from mlf_sdk.frontends.aotvalues import SharedError, Storage, ViewTable
from mlf_sdk.frontends.kernelfacts import STACK_ALIGNMENT, facts_of_source
from mlf_sdk.frontends.readcode import Code
from mlf_sdk.ir.abi import PACKED, Abi, Value, ValueKind, call_with
from mlf_sdk.ir.model import ALIGNMENT, Model, Span, Step, Workspace
from mlf_sdk.planner.layout import lay_out

_MAX_CALLS = 10_000
_POOL_IS_SMALLER = "the pool, where the kernels' own workspaces are spread over it"


class RefusedError(Exception):
    """The entry is kept as it is; the text gives the reason."""


def split_entry(model: Model, entry: Step, code: Code) -> Model | str:
    """Replace the entry of an ahead-of-time model by the steps that its main function consists of.

    Args:
        entry: the only step.
        code: the linked code as the build compiles it.

    Returns:
        The model with its steps, or the reason why the entry must be kept as it is.
    """
    try:
        function, arguments = _main(entry, code)
        calls = read_calls(function, arguments)
        if calls.reason:
            raise RefusedError(f"{function.name}: {calls.reason}")
        result = _convert(model, entry, code, calls)
        if not any(step.abi.slots for step in result.steps):
            return result
        # A kernel whose workspace is in several places of a pool gets all that is between them.
        pools = {Value.of_workspace(workspace.slot) for workspace in entry.workspaces}
        kept = _convert(model, entry, code, calls, pools)
        return min(result, kept, key=lambda one: lay_out(one).arena_bytes)
    except (RefusedError, InputError) as error:
        return str(error)


def _main(entry: Step, code: Code) -> tuple[FunctionDefinition, list[Place]]:
    """Find the main function and the address that each of its arguments is."""
    function = code.functions.get(entry.symbol)
    if function is None:
        raise RefusedError("the main function has no source")
    if entry.is_packed:
        return function, [Place(Value.of_tensor(tensor)) for tensor in entry.arguments]
    if all(argument.value is not None for argument in entry.abi.arguments):
        return function, [Place(value) for value in entry.abi.values]
    return _wrapped(function, entry, code)


def _wrapped(function: FunctionDefinition, entry: Step, code: Code) -> tuple[FunctionDefinition, list[Place]]:
    """Follow the run function of the C interface, which passes the fields of its structs on."""
    wrappers = {wrapper.name: wrapper for wrapper in code.scans[function.member].wrappers}
    wrapper = wrappers.get(function.name)
    main = code.functions.get(wrapper.callee) if wrapper is not None else None
    if wrapper is None or main is None or function.doubts:
        raise RefusedError(f"{function.name} does more than to call the main function")
    fields = {
        (parameter.name, given.name): given.value
        for parameter, argument in zip(function.parameters, entry.abi.arguments, strict=False)
        if parameter.type.replace("*", "").split() == ["struct", argument.struct]
        for given in argument.fields
    }
    places = []
    for passed in wrapper.arguments:
        if (passed.group, passed.name) not in fields:
            raise RefusedError(f"{function.name} passes something else than the fields of its structs")
        places.append(Place(fields[passed.group, passed.name]))
    return main, places


class _Role(Enum):
    """Meaning of an argument to its step."""

    INPUT = "input"
    CHANGED = "changed"
    OUTPUT = "output"


class _Arguments(msgspec.Struct):
    """Arguments of one step so far: tensors by role, and what is passed for each parameter."""

    found: list[tuple[int, _Role, int]] = msgspec.field(default_factory=list)  # parameter, role, tensor
    values: dict[int, Value] = msgspec.field(default_factory=dict)
    scratch: dict[int, tuple[Place, tuple[Part, ...]]] = msgspec.field(default_factory=dict)

    def add(self, parameter: int, role: _Role, tensor: int) -> None:
        self.found.append((parameter, role, tensor))
        self.values[parameter] = Value.of_tensor(tensor)

    def ordered(self) -> list[tuple[int, _Role, int]]:
        """Inputs, then outputs, each in the order of the parameters."""
        return sorted(self.found, key=lambda one: (one[1] is _Role.OUTPUT, one[0]))


def _convert(model: Model, entry: Step, code: Code, calls: CallList, whole: Iterable[object] = ()) -> Model:
    """Make tensors and steps; a workspace whose values cannot be distinguished is taken as a whole."""
    if not 0 < len(calls.calls) <= _MAX_CALLS:
        raise RefusedError(f"the main function has {len(calls.calls)} calls")
    uses = {call.symbol: _uses(call, code) for call in calls.calls}
    shared = dict.fromkeys(whole, _POOL_IS_SMALLER)
    while True:
        try:
            result = _Builder(model, entry, code, calls, uses, shared).build()
        except SharedError as error:
            if error.base in shared:
                raise RefusedError(str(error)) from error
            shared[error.base] = str(error)
        else:
            return dataclasses.replace(result, entry=_entry_text(len(result.steps), shared.values()))


def _entry_text(steps: int, reasons: Iterable[str]) -> str:
    """Describe for people how the entry is run."""
    kept = "; ".join(dict.fromkeys(reasons))
    text = f"the {steps} calls of the main function, as steps"
    return f"{text}; memory that stays as compiled: {kept}" if kept else text


def _uses(call: KernelCall, code: Code) -> tuple[ParameterUse, ...]:
    function = code.functions.get(call.symbol)
    if function is None or not function.member.endswith(".c"):
        raise RefusedError(f"{call.symbol} has no source in C")
    uses = parameter_uses(function, code, len(call.arguments))
    if function.is_packed != call.is_packed or len(uses) != len(call.arguments):
        raise RefusedError(f"{call.symbol} is called with other arguments than it has")
    if not call.is_packed and function.return_type not in ("int32_t", "int"):
        raise RefusedError(f"{call.symbol} returns {function.return_type[:40]}")
    return uses


class _Builder:
    """One attempt to distinguish the values."""

    def __init__(
        self,
        model: Model,
        entry: Step,
        code: Code,
        calls: CallList,
        uses: Mapping[str, tuple[ParameterUse, ...]],
        whole: Iterable[object],
    ) -> None:
        self.model = model
        self.entry = entry
        self.code = code
        self.calls = calls.calls
        self.uses = uses
        self.whole = frozenset(whole)
        self.tensors = ViewTable(model.tensors)
        self.sizes: dict[object, int] = {Request(name): size for name, size in calls.workspaces.items()}
        self.sizes |= {Value.of_workspace(w.slot): w.size_bytes for w in entry.workspaces}
        self.storages: dict[object, Storage] = {}
        self.counts: dict[str, int] = {}

    def build(self) -> Model:
        steps = tuple(self._step(index, call) for index, call in enumerate(self.calls))
        written = {t for s in steps for t in (*s.outputs, *(s.inputs[w] for w in s.writes))}
        result = dataclasses.replace(
            self.model, tensors=tuple(self.tensors.tensors), steps=steps, is_analysed=True
        )
        roots = {result.root(tensor).id for tensor in written}
        for output in self.model.outputs:
            if output not in roots:
                raise RefusedError(f"nothing writes the output '{self.model.tensors[output].name[:80]}'")
        return result

    def _step(self, index: int, call: KernelCall) -> Step:
        function = self.code.functions[call.symbol]
        arguments = _Arguments()
        passed = list(zip(range(len(call.arguments)), call.arguments, self.uses[call.symbol], strict=True))
        for storage in self._storages(call):
            storage.begin()
        later = []
        for parameter, argument, use in passed:
            if not self._read(arguments, parameter, argument, use):
                later.append((parameter, argument, use))
        for parameter, argument, use in later:
            self._write(arguments, parameter, argument, use)
        for place, parts in arguments.scratch.values():
            for part in parts:
                self.storages[place.base].use_scratch(place.offset + part.first, place.offset + part.end)
        ordered = arguments.ordered()
        positions = [parameter for parameter, _, _ in ordered]
        if call.is_packed and positions != sorted(positions):
            raise RefusedError(f"{call.symbol} writes an argument before one that it reads")
        inputs = [(role, tensor) for _, role, tensor in ordered if role is not _Role.OUTPUT]
        step = Step(
            index=index,
            name=self._name(call.symbol),
            symbol=call.symbol,
            inputs=tuple(tensor for _, tensor in inputs),
            outputs=tuple(tensor for _, role, tensor in ordered if role is _Role.OUTPUT),
        )
        facts = facts_of_source(step, function, self.code, positions)
        changed = tuple(at for at, (role, _) in enumerate(inputs) if role is _Role.CHANGED)
        facts = self._workspaces(dataclasses.replace(facts, writes=changed), function)
        facts = self._scratch(facts, arguments, function)
        abi = PACKED if call.is_packed else self._abi(arguments, function)
        return dataclasses.replace(facts, abi=abi)

    def _name(self, symbol: str) -> str:
        count = self.counts[symbol] = self.counts.get(symbol, 0) + 1
        return symbol if count == 1 else f"{symbol}:{count}"

    def _abi(self, arguments: _Arguments, function: FunctionDefinition) -> Abi:
        values = [arguments.values[parameter] for parameter in range(len(arguments.values))]
        unit = self.entry.abi.unit if any(v.kind is ValueKind.SYMBOL for v in values) else ""
        scan = self.code.scans.get(unit)
        known = scan.declarations + scan.functions if scan is not None else ()
        is_declared = any(one.name == function.name for one in known)
        return call_with(values, unit=unit, header=unit if is_declared else "")

    def _workspaces(self, step: Step, function: FunctionDefinition) -> Step:
        """Bound the workspace of a kernel whose requests are not certain, as for the whole entry."""
        if step.exact:
            return step
        peak = stack_peak(tuple(self.code.scans.values()), function.name, alignment=STACK_ALIGNMENT)
        bound = self.model.summary.operators.get(function.name) if peak.bytes is None else peak.bytes
        if bound is None:
            raise RefusedError(f"the workspace of {function.name} is not known: {peak.reason}")
        return dataclasses.replace(step, workspaces=(), workspace_stack_bytes=bound, exact=peak.exact)

    def _scratch(self, step: Step, arguments: _Arguments, function: FunctionDefinition) -> Step:
        """Add the workspace that lies in a memory pool, and pass the address that the pool then has."""
        for parameter, (_, parts) in arguments.scratch.items():
            phases = analyse_kernel(function, allocating=self.code.allocating, whole=self.code.whole)
            spans = [
                (a.first or 0, step.phases - 1 if a.last is None else a.last)
                for a in map(phases.argument, (p.index for p in parts))
            ]
            first = min(part.first for part in parts) // ALIGNMENT * ALIGNMENT
            slot = step.stack_slot
            workspace = Workspace(
                slot=slot,
                size_bytes=max(part.end for part in parts) - first,
                span=Span(first=min(low for low, _ in spans), last=max(high for _, high in spans)),
            )
            arguments.values[parameter] = Value.of_workspace(slot, -first)
            step = dataclasses.replace(step, workspaces=(*step.workspaces, workspace))
        return step

    # ---- arguments ----

    def _storages(self, call: KernelCall) -> list[Storage]:
        bases = dict.fromkeys(a.place.base for a in call.arguments if a.place.base in self.sizes)
        for base in bases:
            if base not in self.storages:
                name = base.name if isinstance(base, Request) else "pool"
                split = base not in self.whole
                self.storages[base] = Storage(base, name, self.sizes[base], self.tensors, split=split)
        return [self.storages[base] for base in bases]

    def _read(
        self, arguments: _Arguments, parameter: int, argument: PassedArgument, use: ParameterUse
    ) -> bool:
        """Take an argument whose value from before the call matters; False for one that is an output."""
        base = argument.place.base
        if not use.is_used or (isinstance(base, Value) and base.kind is ValueKind.SYMBOL):
            arguments.values[parameter] = self._constant(argument.place, use)
        elif base in self.storages and self.storages[base].split and use.scratch:
            arguments.scratch[parameter] = argument.place, use.scratch
        elif base in self.storages:
            storage = self.storages[base]
            if use.is_kept:
                storage.take_whole(f"{storage.name}: a kernel keeps its address")
            if use.may_write and (
                use.is_filled or not storage.holds(argument.place.offset, use.size_bytes(argument))
            ):
                return False
            tensor = storage.read(argument, use)
            arguments.add(parameter, _Role.CHANGED if use.may_write else _Role.INPUT, tensor)
        else:
            return self._read_io(arguments, parameter, argument, use)
        return True

    def _constant(self, place: Place, use: ParameterUse) -> Value:
        if not use.is_used or not isinstance(place.base, Value):
            return Value.null()
        if use.is_written:
            raise RefusedError(f"a kernel writes to the constants in {place.base.symbol}")
        return Value.of_symbol(place.base.symbol, place.offset)

    def _read_io(
        self, arguments: _Arguments, parameter: int, argument: PassedArgument, use: ParameterUse
    ) -> bool:
        base = argument.place.base
        tensor = base.tensor if isinstance(base, Value) else None
        if tensor is None:
            raise RefusedError("a kernel gets a null pointer")
        is_output = tensor in self.model.outputs
        may_write = use.may_write if is_output else use.is_written
        if is_output and may_write and (use.is_filled or tensor not in self.tensors.written):
            return False
        if is_output and tensor not in self.tensors.written:
            raise RefusedError(
                f"the output '{self.model.tensors[tensor].name[:80]}' is read before it is written"
            )
        view = self.tensors.view(tensor, argument, use)
        arguments.add(parameter, _Role.CHANGED if may_write else _Role.INPUT, view)
        return True

    def _write(
        self, arguments: _Arguments, parameter: int, argument: PassedArgument, use: ParameterUse
    ) -> None:
        """Take an argument that is an output."""
        base = argument.place.base
        if base in self.storages:
            arguments.add(parameter, _Role.OUTPUT, self.storages[base].write(argument, use))
        elif isinstance(base, Value) and base.tensor is not None:
            self.tensors.written.add(base.tensor)
            arguments.add(parameter, _Role.OUTPUT, self.tensors.view(base.tensor, argument, use))
