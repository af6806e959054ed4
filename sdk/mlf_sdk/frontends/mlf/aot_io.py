# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of an ahead-of-time model: types, names and order, from what the archive states."""

from __future__ import annotations

import dataclasses

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.frontends.mlf.aot_plain import last_output, plain_main
from mlf_sdk.frontends.mlf.graph_schedule import output_names
from mlf_sdk.frontends.mlf.interface import InterfaceHeader
from mlf_sdk.frontends.mlf.rawmetadata import MainMemory, TensorSize
from mlf_sdk.frontends.mlf.schedule import BuildInput
from mlf_sdk.frontends.mlf.signatures import Signature, parse_c_metadata, parse_main_signature
from mlf_sdk.ir.names import field_identifier


class AotIo(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs and outputs of an entry.

    Attributes:
        fields: of the interface's structs of inputs and of outputs; empty without an interface header.
    """

    inputs: tuple[Signature, ...]
    outputs: tuple[Signature, ...]
    fields: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


def read_io(source: BuildInput) -> AotIo:
    """Read inputs and outputs of an ahead-of-time module; missing facts become faults of ``source``."""
    return _IoReader(source).read()


def main_memory(source: BuildInput) -> MainMemory | None:
    """The metadata's figures of the whole model."""
    main = source.module.metadata.main
    return main[0] if main else None


def header_member(source: BuildInput) -> str:
    """Member of the interface header."""
    wanted = f"tvmgen_{source.module.metadata.name}.h"
    headers = [m for m in source.code.files if m.endswith(".h") and "/tvmgen_" in m]
    exact = [m for m in headers if m.endswith(f"/{wanted}")]
    return (exact or headers or [f"codegen/host/include/{wanted}"])[0]


class _IoReader:
    def __init__(self, source: BuildInput) -> None:
        self.source = source
        self.module = source.module
        self.interface: InterfaceHeader | None = source.module.interface

    def read(self) -> AotIo:
        """Types of the inputs and outputs, from the first place that states them; else a fault."""
        stated = self._tables() or self._relay() or self._sizes()
        if stated is None:
            self.source.faults.add(
                "./metadata.json",
                "the types of the inputs and outputs are stated neither here nor in C metadata tables nor in "
                "the relay text",
                field="memory.functions.main",
            )
            return AotIo(inputs=(), outputs=())
        if self.interface is None:
            return stated
        return self._in_header_order(stated, self.interface)

    def _tables(self) -> AotIo | None:
        for member, scan in self.source.code.scans.items():
            if any(f.name.endswith("_get_c_metadata") for f in scan.functions):
                text = self.source.code.files[member].data.decode("utf-8", "replace")
                try:
                    result = parse_c_metadata(text)
                except InputError:
                    result = None
                if result is not None:
                    inputs = tuple(self._real_name(i) for i in result[0])
                    return AotIo(inputs=inputs, outputs=result[1])
        return None

    def _real_name(self, signature: Signature) -> Signature:
        """C metadata tables hold legalised names; the metadata has the real ones."""
        main = main_memory(self.source)
        known = [
            n for n in (main.inputs if main and main.inputs else ()) if field_identifier(n) == signature.name
        ]
        return dataclasses.replace(signature, name=known[0]) if len(known) == 1 else signature

    def _relay(self) -> AotIo | None:
        """Shapes as the relay text declares main; results of an undeclared type come from the metadata."""
        signature = parse_main_signature(self.module.relay or "")
        main = main_memory(self.source)
        if signature is None:
            return None
        params = {p.name for p in self.module.params}
        if main is not None and main.inputs is not None:
            inputs = tuple(a for a in signature.arguments if a.name in main.inputs)
        elif self.interface is not None:
            wanted = set(self.interface.inputs)
            inputs = tuple(a for a in signature.arguments if field_identifier(a.name) in wanted)
        else:
            inputs = tuple(a for a in signature.arguments if a.name not in params)
        results = signature.results
        stated = self._stated_outputs(main)
        if stated is not None and (results is None or len(results) != len(stated)):
            results = stated
        if results is None:
            results = self._given_output(inputs, main)
        return None if results is None else AotIo(inputs=inputs, outputs=self._named(results))

    def _given_output(
        self, inputs: tuple[Signature, ...], main: MainMemory | None
    ) -> tuple[Signature, ...] | None:
        """The one output: its size is what the metadata counts beside the inputs, its type a kernel's."""
        if main is None or self.interface is None or len(self.interface.outputs) != 1:
            return None
        entry = plain_main(self.source, f"tvmgen_{field_identifier(self.module.metadata.name)}")
        if entry is None:
            return None
        size_bytes = main.io_size_bytes - sum(i.size_bytes for i in inputs)
        result = last_output(self.source, entry, size_bytes)
        return None if result is None else (result,)

    def _sizes(self) -> AotIo | None:
        """Inputs and outputs as the metadata states them: by size, as one dimension.

        The metadata does not state their order: that of several inputs is known from an interface header.
        """
        main = main_memory(self.source)
        outputs = self._stated_outputs(main)
        if main is None or not main.inputs or outputs is None:
            return None
        if self.interface is None and len(main.inputs) > 1:
            return None
        inputs = tuple(_flat(name, size) for name, size in main.inputs.items())
        return AotIo(inputs=inputs, outputs=self._named(outputs))

    def _stated_outputs(self, main: MainMemory | None) -> tuple[Signature, ...] | None:
        """Outputs by size, in the order of the interface header or of their numbers where one is known."""
        if main is None or not main.outputs:
            return None
        flat = [_flat(name, size) for name, size in main.outputs.items()]
        fields = self.interface.outputs if self.interface is not None else ()
        numbered = [f"output{i}" for i in range(len(flat))]
        for order in (fields, numbered):
            by_field = {field_identifier(s.name): s for s in flat}
            if len(flat) > 1 and sorted(by_field) == sorted(order):
                return tuple(by_field[name] for name in order)
        return tuple(flat) if len(flat) == 1 else None

    def _named(self, results: tuple[Signature, ...]) -> tuple[Signature, ...]:
        names = output_names(self.source, [r.size_bytes for r in results])
        return tuple(dataclasses.replace(r, name=n) for n, r in zip(names, results, strict=True))

    def _in_header_order(self, stated: AotIo, header: InterfaceHeader) -> AotIo:
        """The header's structs decide the order of the inputs; outputs are in order already."""
        by_field = {field_identifier(s.name): s for s in stated.inputs}
        if sorted(by_field) != sorted(header.inputs) or len(header.outputs) != len(stated.outputs):
            self.source.faults.add(
                header_member(self.source),
                f"inputs {list(header.inputs)} and {len(header.outputs)} outputs do not fit what the "
                f"archive states elsewhere: {sorted(by_field)} and {len(stated.outputs)}",
            )
            return stated
        return AotIo(
            inputs=tuple(by_field[f] for f in header.inputs),
            outputs=stated.outputs,
            fields=(header.inputs, header.outputs),
        )


def _flat(name: str, size: TensorSize) -> Signature:
    """A tensor of which only the size is stated."""
    return Signature(name=name, dtype=size.dtype, shape=(size.size_bytes // size.dtype.size_bytes,))
