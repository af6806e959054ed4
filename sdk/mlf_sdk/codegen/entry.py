# SPDX-License-Identifier: Apache-2.0
"""Template values of a model's entry: adapters of steps for the runtime, and direct calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlf_sdk.codegen.context import ModelView, is_sequence
from mlf_sdk.codegen.link import Linkage
from mlf_sdk.codegen.regions import apart_regions, placed_workspaces
from mlf_sdk.codegen.tensortext import type_text
from mlf_sdk.ir.abi import Convention, Value, ValueKind
from mlf_sdk.ir.model import Step, TensorKind
from mlf_sdk.ir.names import NameTable
from mlf_sdk.planner.layout import ModelLayout, align_up
from mlf_sdk.tools.ctext import Values, c_comment

_KINDS = {TensorKind.CONSTANT: "param", TensorKind.STATE: "state"}


def entry_values(layout: ModelLayout, linkage: Linkage, steps: Sequence[Step], unit: str = "") -> Values:
    """Values for ``entry.c.j2``.

    Args:
        steps: of one unit; where they have none, of one header.
        unit: that of the steps, as a path from the entry.
    """
    view = _EntryView(layout, linkage)
    entries = [view.entry(step) for step in steps]
    calls = [view.entry(step) for step in layout.steps if is_sequence([step])]
    declared = {
        entry["symbol"]: entry for entry, step in zip(entries, steps, strict=True) if not step.abi.header
    }
    return {
        "unit": unit,
        "header": steps[0].abi.header.rpartition("/")[2],
        "declared": list(declared.values()),
        "uses_ffi": any(step.abi.convention is Convention.FFI for step in steps),
        "regions": [region.symbol for region in apart_regions(layout)] if not layout.shared else [],
        "names": list(view.names.values()),
        "entries": entries,
        "calls": calls,
    }


def passed_values(step: Step, pointer: Callable[[Step, Value], str]) -> Values:
    """Arguments of a plain C function as C expressions, and the structs that some of them point to."""
    arguments = list(enumerate(step.abi.arguments))
    return {
        "structs": [
            {
                "tag": argument.struct,
                "name": f"argument_{index}",
                "fields": [(f.name, pointer(step, f.value)) for f in argument.fields],
            }
            for index, argument in arguments
            if argument.value is None
        ],
        "passed": [
            f"&argument_{index}" if argument.value is None else pointer(step, argument.value)
            for index, argument in arguments
        ],
    }


class _EntryView(ModelView):
    """Template values of a model's entry.

    Attributes:
        names: macros of the addresses that calls pass, by tensor, or by step and workspace.
    """

    def __init__(self, layout: ModelLayout, linkage: Linkage) -> None:
        super().__init__(layout, linkage)
        self.names: dict[tuple[int, ...], Values] = {}
        self._table_of_names = NameTable()

    def entry(self, step: Step) -> Values:
        """Values of the adapter of ``step``, or of its call in a sequence."""
        stack_bytes = step.workspace_stack_bytes
        return {
            "convention": step.abi.convention.value,
            "count": len(step.arguments),
            "symbol": self.linkage.symbol(step.symbol),
            "result": step.abi.result,
            "adapter": self.adapter(step),
            "comment": c_comment(step.name),
            "streamed": step.stream is not None,
            "stack_bytes": align_up(stack_bytes),
            "stack_address": self.workspace(step, step.stack_slot) if stack_bytes else "NULL",
            **passed_values(step, self._pointer),
        }

    def _pointer(self, step: Step, value: Value) -> str:
        """C expression of a pointer that is passed to a step's function."""
        if value.kind is ValueKind.TENSOR and value.tensor is not None:
            return self._tensor(value.tensor)
        if value.kind is ValueKind.NULL:
            return "NULL"
        if value.slot is not None:
            base = self._workspace(step, value.slot)
        else:
            base = f"MLF_ABI_POINTER(&{value.symbol})"
        if not value.offset_bytes:
            return base
        # As a number: the address may lie before the object, of which the code uses what is in it alone.
        sign = "-" if value.offset_bytes < 0 else "+"
        return f"(void *)((uintptr_t){base} {sign} {abs(value.offset_bytes)}u)"

    def _tensor(self, tensor: int) -> str:
        result = self.model.tensors[tensor]
        kind = _KINDS.get(self.model.root(tensor).kind, "tensor")
        short = result.name.partition(";")[0]
        return self._named((tensor,), f"{kind}_{short}", self.address(tensor), type_text(result))

    def _workspace(self, step: Step, slot: int) -> str:
        size_bytes = dict(placed_workspaces(step))[slot]
        suffix = f"_{slot}" if len(placed_workspaces(step)) > 1 else ""
        name = f"workspace_{step.index}{suffix}"
        return self._named((step.index, slot), name, self.workspace(step, slot), f"{size_bytes} bytes")

    def _named(self, key: tuple[int, ...], name: str, address: str, comment: str) -> str:
        """Macro of an address."""
        if key not in self.names:
            short = self._table_of_names.unique(name, max_length=48)
            macro = f"{self.macro}_{short}".upper()
            self.names[key] = {"macro": macro, "address": address, "comment": c_comment(comment)}
        return str(self.names[key]["macro"])
