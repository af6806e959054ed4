# SPDX-License-Identifier: Apache-2.0
"""Template values of a laid-out model; those of its entry are in `mlf_sdk.codegen.entry`.

Everything is decided here; templates hold layout only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import asdict

from mlf_sdk.codegen.link import Linkage
from mlf_sdk.codegen.regions import (
    Region,
    apart_regions,
    regions_of,
    tensor_symbol,
    workspace_symbol,
)
from mlf_sdk.codegen.tensortext import c_type, positions, quantisation_text, type_text
from mlf_sdk.ir.abi import Convention
from mlf_sdk.ir.model import Model, Step, Tensor, TensorKind
from mlf_sdk.ir.names import input_symbol, legal_identifier
from mlf_sdk.ir.step import Frames, frames_of
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.tools.ctext import Values, byte_rows, c_comment, c_string

if TYPE_CHECKING:
    from mlf_sdk.codegen.places import Places

_ONE_MEMORY: Final[Values] = {"arenas": [], "params_parts": [], "state_section": ""}
DL_TENSOR_HANDLE = 7  # TVM's type code of a DLTensor*


def model_values(
    layout: ModelLayout, linkage: Linkage, params: str = "flash", executor: str = "static"
) -> Values:
    """Values for ``model.h.j2``, ``model.c.j2`` and ``params.S.j2``; ``params``: memory of the parameters."""
    values = {**ModelView(layout, linkage).values(), **region_values(layout, linkage, params)}
    return {**values, "sequence": values["sequence"] if executor == "static" else ""}


def is_sequence(steps: Sequence[Step]) -> bool:
    """Return whether one generated function can call all steps: plain functions that allocate nothing."""
    return len({step.abi.header for step in steps}) == 1 and all(
        step.abi.convention is Convention.C
        and not (step.is_direct or step.abi.unit)
        and not (step.allocated or step.workspace_stack_bytes)
        and all(argument.value is not None for argument in step.abi.arguments)
        for step in steps
    )


def _places(layout: ModelLayout, linkage: Linkage) -> Places | None:
    """Objects of a model in several memories; None: one memory holds all."""
    if not layout.arenas:
        return None
    from mlf_sdk.codegen.places import Places

    return Places(layout, linkage)


class ModelView:
    """Template values of one layout, and C expressions of addresses."""

    def __init__(self, layout: ModelLayout, linkage: Linkage) -> None:
        self.layout = layout
        self.model: Model = layout.model
        self.linkage = linkage
        self.c_name = self.model.c_name
        self.macro = self.c_name.upper()
        self.params_symbol = f"{self.c_name}_params"
        self.state_symbol = f"{self.c_name}_state"
        self._places = _places(layout, linkage)
        self._shapes: dict[tuple[int, ...], str] = {}
        # Tensors that steps take as DLTensors, each once, by id, with their places in the table.
        taken = sorted({i for step in layout.steps if step.takes_tensors for i in step.arguments})
        self._table = {tensor: index for index, tensor in enumerate(taken)}

    def values(self) -> Values:
        """Values that do not depend on where regions lie."""
        steps = [self._step(position, step) for position, step in enumerate(self.layout.steps)]
        inputs = [self._io(i, "input", self.model.tensors[i].name) for i in self.model.inputs]
        outputs = [
            self._io(i, "output", name)
            for i, name in zip(self.model.outputs, self.model.output_names, strict=True)
        ]
        for direction, tensors in (("inputs", inputs), ("outputs", outputs)):
            _number_duplicates(tensors)
            for number, tensor in enumerate(tensors):
                tensor["in_table"] = f"{self.c_name}_model.{direction}[{number}].data"
                tensor["call"] = self._call(tensor)
        tensors = [self._dl_tensor(index, i) for i, index in self._table.items()]
        sha256 = self.model.provenance.sha256
        return {
            "banner": c_comment(f"{self.model.name}: {self.model.executor} model"),
            "c_name": self.c_name,
            "macro": self.macro,
            "name_literal": c_string(self.model.name),
            "sha256": sha256,
            "sha256_bytes": [f"0x{sha256[i : i + 2]}" for i in range(0, 64, 2)],
            "arena_symbol": self.linkage.arena_symbol,
            "owns_arena": self.linkage.owns_arena,
            "arena_bytes": self.layout.arena_bytes,
            "arena_reserved_bytes": self.linkage.arena_reserved_bytes,
            "arena_alignment": self.linkage.arena_alignment,
            "alignment": self.layout.alignment,
            "shared": self.layout.shared,
            **(self._places.values if self._places else _ONE_MEMORY),
            "state_bytes": self.layout.state_bytes if self.layout.shared else 0,
            "state_symbol": self.state_symbol,
            "resets": [self._reset(state) for state in self.model.states if state.size_bytes],
            "params_bytes": self.layout.params_bytes,
            "params_symbol": self.params_symbol,
            "inputs_kept": self.layout.inputs_kept,
            "caller_inputs": bool(self.layout.input_offsets),
            "input_alignment": self.layout.input_alignment,
            "input_bytes": self.linkage.input_bytes,
            "input_symbol": input_symbol(self.c_name),
            "stream": self._stream(),
            "frames": self._frames(),
            "inputs": inputs,
            "outputs": outputs,
            "positions": positions(self.c_name, "input", inputs) + positions(self.c_name, "output", outputs),
            "tensors": tensors,
            "uses_packed": bool(tensors),
            "shapes": [{"symbol": s, "extents": list(e)} for e, s in self._shapes.items()],
            "sequence": f"{self.c_name}_sequence" if is_sequence(self.layout.steps) else "",
            "steps": steps,
            "kernels": list(dict.fromkeys(s["kernel"] for s in steps)),
            "type_codes": [DL_TENSOR_HANDLE] * max([len(s["args"]) for s in steps] + [1]),
        }

    def _call(self, tensor: Values) -> str:
        """C expression for people that reaches an input or output."""
        if tensor["address"] != "NULL":
            return f"{tensor['accessor']}()"
        if self.model.stream is not None:
            return f"{self.c_name}_row()"
        return f"{self.c_name}_run({tensor['stem']})"

    def adapter(self, step: Step) -> str:
        """Symbol of the generated adapter of ``step``."""
        return f"{self.c_name}_entry_{step.index}"

    def address(self, tensor: int) -> str:
        """C expression of a tensor's address."""
        root = self.model.root(tensor)
        if tensor == self.model.streamed or root.id in self.layout.input_offsets:
            return self._outside(tensor)
        if root.kind is TensorKind.CONSTANT and self._places:
            return self._places.constant(self.layout.offset(tensor))
        if root.kind is TensorKind.CONSTANT:
            return f"{self.params_symbol} + {self.layout.offset(tensor)}"
        if not self.layout.shared:
            symbol = tensor_symbol(self.c_name, root.id)
            return self._apart(symbol, self.model.offset_in_root(tensor))
        if self._places and root.kind is not TensorKind.STATE:
            return self._places.buffer(self.layout.offset(tensor))
        symbol = self.state_symbol if root.kind is TensorKind.STATE else self.linkage.arena_symbol
        return f"{symbol} + {self.linkage.guard_bytes + self.layout.offset(tensor)}"

    def _outside(self, tensor: int) -> str:
        """C expression of the address of an input that does not lie in the arena, or of a part of it."""
        if tensor == self.model.streamed:
            return "NULL"
        base = f"{self.c_name}_input_at[{self.model.inputs.index(self.model.root(tensor).id)}]"
        offset = self.model.offset_in_root(tensor)
        return f"(uintptr_t){base} + {offset}u" if offset else base

    def constant_address(self, tensor: int) -> str:
        """Constant expression of a tensor's address; NULL of an input that the caller has."""
        root = self.model.root(tensor)
        if root.id not in self.layout.input_offsets:
            return self.address(tensor)
        if not self.linkage.input_bytes:
            return "NULL"
        offset = self.layout.input_offsets[root.id] + self.model.offset_in_root(tensor)
        return f"{input_symbol(self.c_name)} + {self.linkage.guard_bytes + offset}"

    def _apart(self, symbol: str, offset: int = 0) -> str:
        """C expression of an address in an object that has guard bytes unless a sanitizer guards it."""
        guarded = f"{symbol} + MLF_GUARD({self.linkage.guard_bytes})"
        return f"{guarded} + {offset}" if offset else guarded

    def workspace(self, step: Step, slot: int) -> str:
        """C expression of the address of one of a step's workspaces."""
        if not self.layout.shared:
            return self._apart(workspace_symbol(self.c_name, step.index, slot))
        offset = self.layout.plan.workspace_offsets[step.index][slot]
        if self._places:
            return self._places.buffer(offset)
        return f"{self.linkage.arena_symbol} + {self.linkage.guard_bytes + offset}"

    def _stream(self) -> Values | None:
        """The input that comes row by row."""
        stream = self.model.stream
        if stream is None:
            return None
        step = self.model.steps[0]
        base = self.workspace(step, step.workspaces[0].slot)
        return {**asdict(stream), "counters": base, "ring": f"{base} + {stream.ring_offset_bytes}"}

    def _frames(self) -> Frames | None:
        """Frames of the input, where it comes so."""
        if len(self.model.inputs) != 1:
            return None
        return frames_of(self.model.provenance.options, self.model.tensors[self.model.inputs[0]].shape)

    def _reset(self, state: Tensor) -> Values:
        """Address of a state, and its initial bytes: rows, or one byte that all of them are equal to."""
        data = state.data or bytes(state.size_bytes)
        return {
            "address": self.address(state.id),
            "size_bytes": state.size_bytes,
            "fill": data[0],
            "rows": byte_rows(data) if len(set(data)) > 1 else [],
        }

    def _step(self, position: int, step: Step) -> Values:
        args = [self._table[i] for i in step.arguments] if step.takes_tensors else []
        slots = [
            {"address": self.workspace(step, w.slot), "size_bytes": w.size_bytes} for w in step.allocated
        ]
        return {
            "index": position,
            "number": step.index,
            "num_inputs": len(step.inputs),
            "arguments": [
                {"address": self.constant_address(i), "size_bytes": self.model.tensors[i].size_bytes}
                for i in step.arguments
            ],
            "comment": c_comment(step.name),
            "name_literal": c_string(step.name[:200]),
            "kernel": self.linkage.symbol(step.symbol) if step.is_direct else self.adapter(step),
            "args": args,
            "args_symbol": f"{self.c_name}_args_{position}" if args else "NULL",
            "slots": slots,
            "slots_symbol": f"{self.c_name}_slots_{position}" if slots else f"{self.c_name}_no_slots",
        }

    def _shape(self, shape: tuple[int, ...]) -> str:
        return self._shapes.setdefault(shape or (1,), f"{self.c_name}_shape_{len(self._shapes)}")

    def _dl_tensor(self, index: int, tensor: int) -> Values:
        result = self.model.tensors[tensor]
        return {
            "index": index,
            "comment": c_comment(f"{result.name} {type_text(result)}"),
            **self._typed(result),
        }

    def _typed(self, tensor: Tensor) -> Values:
        return {
            "address": self.constant_address(tensor.id),
            "ndim": len(tensor.shape),
            "code": tensor.dtype.code,
            "bits": tensor.dtype.bits,
            "lanes": tensor.dtype.lanes,
            "shape_symbol": self._shape(tensor.shape),
            "size_bytes": tensor.size_bytes,
            "elements": tensor.elements,
            "shape": list(tensor.shape),
        }

    def _io(self, tensor: int, direction: str, name: str) -> Values:
        result = self.model.tensors[tensor]
        short = legal_identifier(name, fallback=direction, max_length=40)
        stem = f"{direction}_{short}" if short != direction else direction
        return {
            "name_literal": c_string(name),
            "comment": c_comment(f"{direction} '{name}': {type_text(result)}"),
            "const": "" if direction == "input" else "const ",
            **quantisation_text(result),
            "c_type": c_type(result.dtype),
            "stem": stem,
            "macro": f"{self.macro}_{stem.upper()}",
            "accessor": f"{self.c_name}_{stem}",
            **self._typed(result),
        }


def _number_duplicates(tensors: list[Values]) -> None:
    """Append the index to names that are equal as C identifiers."""
    seen: set[str] = set()
    for index, tensor in enumerate(tensors):
        while tensor["macro"] in seen:
            tensor["macro"] += f"_{index}"
            tensor["accessor"] += f"_{index}"
        seen.add(tensor["macro"])


def region_values(layout: ModelLayout, linkage: Linkage, params: str) -> Values:
    """Objects that hold what the model writes, and those with guard bytes."""
    guard = linkage.guard_bytes
    state = bytes(guard) + layout.state_blob()
    guarded = regions_of(layout, linkage, params)
    in_asm = f"{layout.model.c_name}_params"  # symbols that begin so do not cover their guard bytes
    return {
        "guard_bytes": guard,
        "guard_params": guard if params == "ram" else 0,
        "params_gaps": [] if layout.shared else _params_gaps(layout),
        "state_rows": byte_rows(state) if any(state) else [],
        "apart": [] if layout.shared else [_apart_values(region, guard) for region in apart_regions(layout)],
        "guards": [
            {
                "address": region.symbol
                if region.symbol.startswith(in_asm)
                else f"{region.symbol} + {guard}",
                "size_bytes": region.size_bytes,
                "comment": c_comment(region.name),
            }
            for region in guarded
        ],
    }


def _params_gaps(layout: ModelLayout) -> list[tuple[int, int]]:
    """Offset and bytes of what lies between the constants of the parameter blob."""
    spans = sorted((at, layout.model.tensors[i].size_bytes) for i, at in layout.constant_offsets.items())
    ends = [at + size for at, size in spans]
    return [(end, at - end) for end, (at, _) in zip(ends, spans[1:], strict=False)]


def _apart_values(region: Region, guard: int) -> Values:
    rows = any(region.data)
    return {
        "symbol": region.symbol,
        "comment": c_comment(region.name),
        "size_bytes": max(region.size_bytes, 1),
        "rows": byte_rows(region.data) if rows else [],
        "guard_rows": byte_rows(bytes(guard)) if rows else [],
    }
