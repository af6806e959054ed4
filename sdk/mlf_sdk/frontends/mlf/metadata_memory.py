# SPDX-License-Identifier: Apache-2.0
"""The ``memory`` summary of ``metadata.json``: sizes as TVM counted them, for comparison only."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import msgspec

from mlf_sdk.errors import FaultCollector, InputError
from mlf_sdk.frontends.mlf.rawgraph import shape_problem
from mlf_sdk.frontends.mlf.rawmetadata import MainMemory, OperatorArg, TensorSize
from mlf_sdk.ir.dtype import DType
from mlf_sdk.tools.checks import function_name_problem, shown, tensor_name_problem
from mlf_sdk.tools.jsontext import convert
from mlf_sdk.tools.rowfile import described

MEMBER: Final = "metadata.json"
MAX_BYTES: Final = 1 << 53
MAX_DEVICE_TYPE: Final = 1 << 15


class _Storage(msgspec.Struct):
    storage_id: int
    size_bytes: int


class _Device(msgspec.Struct):
    device: int
    workspace_size_bytes: int


class _Main(msgspec.Struct):
    device: int
    workspace_size_bytes: int
    constants_size_bytes: int = 0
    io_size_bytes: int = 0
    inputs: dict[str, Any] | None = None
    outputs: dict[str, Any] | None = None


class _Io(msgspec.Struct):
    size: int
    dtype: str


class _Operator(msgspec.Struct):
    function_name: str
    workspace: list[Any] = msgspec.field(default_factory=list)


class _Arg(msgspec.Struct):
    size_bytes: int
    shape: list[int]
    dtype: str
    input_binding: str


def storage_bytes(memory: object) -> dict[int, int]:
    """Read ``memory.sids`` (in version 1 ``memory``) for information only; bad entries are left out."""
    rows = memory.get("sids") if isinstance(memory, dict) else memory
    result: dict[int, int] = {}
    for row in rows if isinstance(rows, list) else ():
        with suppress(msgspec.ValidationError):
            storage = msgspec.convert(row, described(_Storage))
            if 0 <= storage.size_bytes <= MAX_BYTES:
                result[storage.storage_id] = storage.size_bytes
    return result


class MemoryReader:
    """Reads parts of the metadata and reports what is wrong; goes on with what it can."""

    def __init__(self, faults: FaultCollector) -> None:
        """Report to ``faults``."""
        self.faults = faults

    def fault(self, field: str, what: str) -> None:
        """Record one fault of ``metadata.json``."""
        self.faults.add(MEMBER, what, field=field)

    def get(self, table: dict[str, Any], key: str, type_: Any, field: str) -> Any:  # noqa: ANN401
        """A value that must be there, of the given type; None and a fault otherwise."""
        if key not in table:
            self.fault(f"{field}.{key}", "is missing")
            return None
        return convert(table[key], type_, MEMBER, f"{field}.{key}", self.faults)

    def list_of(self, value: object, field: str) -> list[Any]:
        """A list; empty with a fault when it is none."""
        return convert(value, list[Any], MEMBER, field, self.faults) or []

    def bounded(self, value: int, limit: int, field: str) -> int:
        """A number from 0 to ``limit``; recorded when it is not."""
        if not 0 <= value <= limit:
            self.fault(field, f"{value} is out of range")
        return value

    def functions(self, memory: object, field: str) -> dict[str, Any]:
        """``memory.functions``; version 1 has a list of storage ids in place of ``memory``."""
        if isinstance(memory, list):
            return {}
        table = convert(memory, dict[str, Any], MEMBER, field, self.faults) or {}
        inner = table.get("functions", {})
        return convert(inner, dict[str, Any], MEMBER, f"{field}.functions", self.faults) or {}

    def main(self, value: object, field: str) -> tuple[MainMemory, ...]:
        """``memory.functions.main``: one a device."""
        result = []
        for index, item in enumerate(self.list_of(value, field)):
            at = f"{field}[{index}]"
            raw = convert(item, _Main, MEMBER, at, self.faults)
            if raw is None:
                continue
            result.append(
                MainMemory(
                    device=self.bounded(raw.device, MAX_DEVICE_TYPE, f"{at}.device"),
                    workspace_size_bytes=self.bounded(
                        raw.workspace_size_bytes, MAX_BYTES, f"{at}.workspace_size_bytes"
                    ),
                    constants_size_bytes=self.bounded(
                        raw.constants_size_bytes, MAX_BYTES, f"{at}.constants_size_bytes"
                    ),
                    io_size_bytes=self.bounded(raw.io_size_bytes, MAX_BYTES, f"{at}.io_size_bytes"),
                    inputs=None if raw.inputs is None else self.sizes(raw.inputs, f"{at}.inputs"),
                    outputs=None if raw.outputs is None else self.sizes(raw.outputs, f"{at}.outputs"),
                )
            )
        return tuple(result)

    def sizes(self, table: dict[str, Any], field: str) -> dict[str, TensorSize]:
        """``inputs`` or ``outputs`` of an entry of main."""
        result = {}
        for name, item in table.items():
            at = f"{field}[{shown(name)}]"
            problem = tensor_name_problem(name)
            if problem is not None:
                self.fault(field, f"the name of a tensor {problem}")
            raw = convert(item, _Io, MEMBER, at, self.faults)
            dtype = self.dtype(raw.dtype, f"{at}.dtype") if raw is not None else None
            if raw is not None and dtype is not None:
                size_bytes = self.bounded(raw.size, MAX_BYTES, f"{at}.size")
                result[name] = TensorSize(size_bytes=size_bytes, dtype=dtype)
        return result

    def dtype(self, text: str, field: str) -> DType | None:
        """An element type; None with a fault when it is none."""
        try:
            return DType.parse(text)
        except InputError as error:
            self.fault(field, error.what)
            return None

    def function_name(self, name: str, field: str) -> None:
        """Check the name of a function."""
        problem = function_name_problem(name)
        if problem is not None:
            self.fault(field, f"the name of a function {problem}")

    def operators(self, value: object, field: str) -> dict[str, int]:
        """``operator_functions``, documented as a map, in fact a list: bytes summed over devices."""
        if isinstance(value, dict):
            value = [{"function_name": name, "workspace": item} for name, item in value.items()]
        result: dict[str, int] = {}
        for index, item in enumerate(self.list_of(value, field)):
            at = f"{field}[{index}]"
            raw = convert(item, _Operator, MEMBER, at, self.faults)
            if raw is None:
                continue
            self.function_name(raw.function_name, f"{at}.function_name")
            used = sum(self.workspace(use, f"{at}.workspace[{i}]") for i, use in enumerate(raw.workspace))
            result[raw.function_name] = result.get(raw.function_name, 0) + used
        return result

    def workspace(self, value: object, field: str) -> int:
        """Bytes of workspace on one device."""
        raw = convert(value, _Device, MEMBER, field, self.faults)
        if raw is None:
            return 0
        self.bounded(raw.device, MAX_DEVICE_TYPE, f"{field}.device")
        return self.bounded(raw.workspace_size_bytes, MAX_BYTES, f"{field}.workspace_size_bytes")

    def operator_args(self, memory: object, field: str) -> dict[str, tuple[OperatorArg, ...]]:
        """``memory`` of the operator style: the arguments of each function."""
        table = convert(memory, dict[str, Any], MEMBER, field, self.faults)
        if table is not None and not table:
            self.fault(field, "describes no function")
        result = {}
        for name, value in (table or {}).items():
            at = f"{field}[{shown(name)}]"
            self.function_name(name, field)
            items = [self.argument(item, f"{at}[{i}]") for i, item in enumerate(self.list_of(value, at))]
            result[name] = tuple(item for item in items if item is not None)
        return result

    def argument(self, value: object, field: str) -> OperatorArg | None:
        """One argument of an operator."""
        raw = convert(value, _Arg, MEMBER, field, self.faults)
        dtype = self.dtype(raw.dtype, f"{field}.dtype") if raw is not None else None
        if raw is None or dtype is None:
            return None
        name_problem = tensor_name_problem(raw.input_binding)
        if name_problem is not None:
            self.fault(f"{field}.input_binding", f"the name of a tensor {name_problem}")
        problem = shape_problem(raw.shape, dtype)
        if problem is None and dtype.bytes_of(raw.shape) != raw.size_bytes:
            problem = f"{raw.size_bytes} bytes stated, {raw.shape} {dtype} has others"
        if problem is not None:
            self.fault(f"{field}.shape", problem)
        return OperatorArg(
            name=raw.input_binding, dtype=dtype, shape=tuple(raw.shape), size_bytes=raw.size_bytes
        )
