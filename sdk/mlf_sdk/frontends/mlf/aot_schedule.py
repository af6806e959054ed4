# SPDX-License-Identifier: Apache-2.0
"""A model compiled ahead of time: one step, whose entry runs everything."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mlf_sdk.analysis.c.unit import EntryWrapper
from mlf_sdk.frontends.mlf.aot_io import AotIo, header_member, read_io
from mlf_sdk.frontends.mlf.aot_plain import plain_main
from mlf_sdk.frontends.mlf.interface import InterfaceHeader
from mlf_sdk.frontends.mlf.schedule import BuildInput, Schedule
from mlf_sdk.ir.abi import PACKED, Abi, Argument, Convention, Field, Value, call_with
from mlf_sdk.ir.model import Span, Step, TensorKind, Workspace
from mlf_sdk.ir.names import field_identifier
from mlf_sdk.ir.tensor import TensorTable

_ENTRY_SUFFIXES = ("___tvm_main__", "_run_model", "_run")


def schedule_aot(source: BuildInput) -> Schedule:
    """The single step of an ahead-of-time model and its inputs and outputs."""
    return _AotBuilder(source).schedule()


class _Call(msgspec.Struct, frozen=True, kw_only=True):
    """The entry that is called: what is passed to it, and the pools among that."""

    symbol: str
    abi: Abi = PACKED
    workspaces: tuple[Workspace, ...] = ()


class _AotBuilder:
    def __init__(self, source: BuildInput) -> None:
        self.source = source
        self.module = source.module
        self.name = source.module.metadata.name
        self.interface: InterfaceHeader | None = source.module.interface
        self.prefix = f"tvmgen_{field_identifier(self.name)}"

    def schedule(self) -> Schedule:
        usmp = self._usmp_wrapper()
        if usmp is None and self._lacks_main():
            self._report_missing_main()
            return Schedule(tensors=(), inputs=(), outputs=(), output_names=(), steps=(), executor="aot")
        io = read_io(self.source)
        table = TensorTable()
        inputs = tuple(table.add(s.name, s.dtype, s.shape, TensorKind.INPUT) for s in io.inputs)
        outputs = tuple(table.add(s.name, s.dtype, s.shape, TensorKind.INTERMEDIATE) for s in io.outputs)
        step = self._step(self._call(usmp, io, inputs, outputs), inputs, outputs)
        return Schedule(
            tensors=tuple(table.tensors),
            inputs=inputs,
            outputs=outputs,
            output_names=tuple(s.name for s in io.outputs),
            steps=(step,) if step else (),
            executor="aot",
        )

    # ---- entry ----

    def _call(
        self,
        usmp: tuple[str, EntryWrapper] | None,
        io: AotIo,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
    ) -> _Call:
        """The entry that is called, and what is passed to it."""
        if usmp is not None:
            return self._static_pools(usmp, (*inputs, *outputs))
        main = plain_main(self.source, self.prefix)
        if main is not None:
            return _Call(symbol=main.name, abi=call_with(map(Value.of_tensor, (*inputs, *outputs))))
        if self.interface is not None:
            return self._interface_call(self.interface, io, inputs, outputs)
        for suffix in _ENTRY_SUFFIXES:
            function = self.source.code.functions.get(self.prefix + suffix)
            if function is not None and function.is_packed:
                return _Call(symbol=function.name)
        return _Call(symbol=self.prefix + "_run")

    def _lacks_main(self) -> bool:
        """Return whether the archive declares a main function and defines none."""
        main = f"{self.prefix}_run_model"
        return self._declared(main) and not self.source.code.defines(main)

    def _report_missing_main(self) -> None:
        """Add the fault of an archive that TVM 0.8 built without a C host target."""
        self.source.faults.add(
            "./codegen/host",
            f"the main function '{self.prefix[:128]}_run_model' is declared but not defined: the model was "
            "built without a C host target, so that TVM put main into a module that the export leaves out. "
            "Build it again with the same C target as host, "
            "target=tvm.target.Target(TARGET, host=TARGET) in TVM 0.8, or "
            "target=tvm.target.Target('c', host='c'), executor=Executor('aot'), runtime=Runtime('crt') in "
            "TVM 0.9 to 0.18, and export it again",
        )

    def _usmp_wrapper(self) -> tuple[str, EntryWrapper] | None:
        """The wrapper that passes static pools to the entry, and the member it is in."""
        for member, scan in self.source.code.scans.items():
            pools = {pool.name for pool in scan.pools}
            for wrapper in scan.wrappers:
                if any(a.group == "&" and a.name in pools for a in wrapper.arguments):
                    return member, wrapper
        return None

    def _step(self, call: _Call, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Step | None:
        symbol = call.symbol
        if not self._complete(symbol):
            return None
        code = self.source.code
        linked = {*code.reachable([symbol]), *filter(None, [call.abi.unit])}
        return Step(
            index=0,
            name=symbol,
            symbol=symbol,
            abi=call.abi,
            inputs=inputs,
            outputs=outputs,
            workspaces=call.workspaces,
            kernels=tuple(
                name
                for name in self.module.metadata.operator_functions
                if not linked.isdisjoint(code.defined_in.get(name, ()))
            ),
        )

    def _complete(self, symbol: str) -> bool:
        """Check that everything the entry calls is there; what is missing is one fault each."""
        code = self.source.code
        if not code.defines(symbol):
            self._undefined(symbol, "the entry")
            return False
        complete = True
        for member in code.reachable([symbol]):
            if member not in code.scans:
                continue
            for name in sorted(code.scans[member].called):
                if name.startswith("tvmgen_") and not code.defines(name) and self._declared(name):
                    self._undefined(name, f"a function that {member} calls")
                    complete = False
        return complete

    def _declared(self, name: str) -> bool:
        return any(d.name == name for s in self.source.code.scans.values() for d in s.declarations)

    def _undefined(self, symbol: str, what: str) -> None:
        self.source.faults.add(
            "./codegen/host",
            f"no source or object defines '{symbol[:128]}', {what}: the archive was exported without its "
            "main function (TVM 0.8 does that for some ahead-of-time builds); export it with TVM 0.9 to "
            "0.18, or use the graph executor",
        )

    def _static_pools(self, usmp: tuple[str, EntryWrapper], tensors: tuple[int, ...]) -> _Call:
        """The entry of a static memory plan: its pools are objects of the file that its wrapper is in.

        Constants stay where they are; workspaces are placed in the arena instead.
        """
        member, wrapper = usmp
        known = {pool.name: pool for pool in self.source.code.scans[member].pools}
        values = [Value.of_tensor(tensor) for tensor in tensors]
        workspaces: list[Workspace] = []
        for slot, argument in enumerate(a for a in wrapper.arguments if a.group == "&"):
            pool = known.get(argument.name)
            if pool is None or (pool.size_bytes is None and not pool.is_constant):
                self._unknown_size(member, argument.name)
            elif pool.is_constant:
                values.append(Value.of_symbol(pool.name))
            else:
                values.append(Value.of_workspace(slot))
                workspaces.append(_pool_workspace(slot, pool.size_bytes or 0))
        abi = call_with(values, unit=member, header=member)
        return _Call(symbol=wrapper.callee, abi=abi, workspaces=tuple(workspaces))

    def _interface_call(
        self, header: InterfaceHeader, io: AotIo, inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> _Call:
        """The run function of the C interface: structs of inputs, outputs, pools and devices."""
        pools = self._interface_pools(header)
        fields = {
            "inputs": _fields(io.fields[0], map(Value.of_tensor, inputs)),
            "outputs": _fields(io.fields[1], map(Value.of_tensor, outputs)),
            "workspace_pools": _fields(pools, map(Value.of_workspace, range(len(pools)))),
            "devices": _fields(header.devices, (Value.null() for _ in header.devices)),
        }
        return _Call(
            symbol=header.run_function or f"{self.prefix}_run",
            abi=Abi(
                convention=Convention.C,
                arguments=tuple(
                    Argument(struct=f"{self.prefix}_{role}", fields=result)
                    for role, result in fields.items()
                    if result or role in ("inputs", "outputs")
                ),
                header=header_member(self.source),
            ),
            workspaces=tuple(_pool_workspace(slot, size) for slot, size in enumerate(pools.values())),
        )

    def _interface_pools(self, header: InterfaceHeader) -> dict[str, int]:
        """Sizes of the pools that the caller gives, by field of their struct, as macros state them."""
        pools: dict[str, int] = {}
        for name in header.workspace_pools:
            wanted = f"{self.prefix}_{name}_".upper()
            sizes = [v for k, v in header.macros.items() if k.startswith(wanted) and v >= 0]
            if len(sizes) == 1:
                pools[name] = sizes[0]
            else:
                self._unknown_size(header_member(self.source), name)
        return pools

    def _unknown_size(self, member: str, pool: str) -> None:
        self.source.faults.add(member, f"the size of the pool '{pool[:128]}' is not stated")


def _fields(names: Iterable[str], values: Iterable[Value]) -> tuple[Field, ...]:
    return tuple(Field(name=name, value=value) for name, value in zip(names, values, strict=False))


def _pool_workspace(slot: int, size_bytes: int) -> Workspace:
    return Workspace(slot=slot, size_bytes=size_bytes, span=Span(first=0, last=0))
