# SPDX-License-Identifier: Apache-2.0
"""Kernels of an archive, compiled for this machine and run in the memory of a plan, or each tensor in its own.

Shares no code with the runtime or its templates: it calls the kernels through ctypes.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlf_sdk.ir.model import Model, Step, TensorKind, UnitKind
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.resources import data_dir

_OWN_BYTES = 1 << 16
_ALLOCATOR = """
#include <stdint.h>
void *mlf_slots[16];
int mlf_depth;
void *TVMBackendAllocWorkspace(int a, int b, uint64_t n, int c, int d) { return mlf_slots[mlf_depth++]; }
int TVMBackendFreeWorkspace(int a, int b, void *p) { --mlf_depth; return 0; }
"""


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class PlanRun:
    """Executor of a graph model: ``layout`` gives order and addresses; without it, nothing is shared."""

    def __init__(self, model: Model, folder: Path, layout: ModelLayout | None = None) -> None:
        self.model, self.layout = model, layout
        self.library = ctypes.CDLL(str(_compile(model, folder, "plan" if layout else "own")))
        self.kept: list[Any] = []
        self.arena = self._memory(layout.arena_reserved_bytes if layout else 0)
        self.data = {t.id: self._memory(t.size_bytes, t.data) for t in model.tensors if t.alias_of is None}

    def run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """One inference; memory keeps what the one before left."""
        model = self.model
        for tensor in model.inputs:
            data = np.ascontiguousarray(inputs[model.tensors[tensor].name]).tobytes()
            ctypes.memmove(self._address(tensor), data, len(data))
        for step in self.layout.steps if self.layout else model.steps:
            self._call(step)
        return [
            np.frombuffer(
                ctypes.string_at(self._address(i), model.tensors[i].size_bytes),
                model.tensors[i].dtype.name,
            )
            for i in model.outputs
        ]

    def _memory(self, size: int, data: bytes | None = None) -> int:
        buffer = (ctypes.c_uint8 * (size + 64)).from_buffer_copy((data or b"").ljust(size + 64, b"\xa5"))
        self.kept.append(buffer)
        return (ctypes.addressof(buffer) + 15) // 16 * 16 if data is None else ctypes.addressof(buffer)

    def _address(self, tensor: int) -> int:
        root = self.model.root(tensor)
        if self.layout is None or root.kind is TensorKind.CONSTANT:
            return self.data[root.id] + self.model.offset_in_root(tensor)
        return self.arena + self.layout.offset(tensor)

    def _call(self, step: Step) -> None:
        slots = (ctypes.c_void_p * 16).in_dll(self.library, "mlf_slots")
        assert not step.workspace_stack_bytes, "a bound is not run here"
        for depth, workspace in enumerate(step.allocated):
            if self.layout is None:
                slots[depth] = self._memory(_OWN_BYTES)
            else:
                slots[depth] = self.arena + self.layout.plan.workspace_offsets[step.index][workspace.slot]
        tensors = (_DLTensor * len(step.arguments))(
            *(_DLTensor(data=self._address(i)) for i in step.arguments)
        )
        size = ctypes.sizeof(_DLTensor)
        values = (ctypes.c_uint64 * len(tensors))(
            *(ctypes.addressof(tensors) + size * i for i in range(len(tensors)))
        )
        codes = (ctypes.c_int * len(tensors))()
        result = getattr(self.library, step.symbol)(values, codes, len(tensors), None, None, None)
        assert result == 0, f"{step.name} gave {result}"


def _compile(model: Model, folder: Path, name: str) -> Path:
    """Compile the linked sources into a shared library of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for unit in model.units:
        (folder / unit.member).parent.mkdir(parents=True, exist_ok=True)
        (folder / unit.member).write_bytes(unit.data)
    (folder / "allocator.c").write_text(_ALLOCATOR)
    headers = {(folder / u.member).parent for u in model.units if u.kind is UnitKind.HEADER}
    sources: Sequence[str] = [u.member for u in model.units if u.linked and u.kind is UnitKind.C]
    library = folder / f"{name}.so"
    folders = [data_dir("crt") / "include", *headers]
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-fno-strict-aliasing", "-w", "-o", str(library)]
        + [f"-I{path}" for path in folders]
        + ["allocator.c", *sources],
        cwd=folder,
        check=True,
        timeout=60,
    )
    return library
