# SPDX-License-Identifier: Apache-2.0
"""A ``.tflite`` file as plain data: the flatbuffer decoded behind bounds, every defect a fault.

The schema comes from the package ``tflite``, whose accessors trust the file: each table is read inside a
guard that turns an offset out of range into a fault of that table.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from mlf_sdk.compiler.operators import Array
from mlf_sdk.errors import FaultCollector, InputError
from mlf_sdk.ir.tensor import Quantisation
from mlf_sdk.tools.checks import shown

IDENTIFIER: Final = b"TFL3"
MAX_FILE_BYTES: Final = 256 << 20
MAX_SUBGRAPHS: Final = 64
MAX_TENSORS: Final = 1 << 16
MAX_OPERATORS: Final = 1 << 16
MAX_ARGUMENTS: Final = 1024
MAX_RANK: Final = 8
MAX_TENSOR_BYTES: Final = 1 << 30
MAX_NAME: Final = 1024

_DTYPES: Final = {
    0: np.float32, 1: np.float16, 2: np.int32, 3: np.uint8, 4: np.int64, 6: np.bool_, 7: np.int16,
    9: np.int8, 10: np.float64, 12: np.uint64, 15: np.uint32, 16: np.uint16,
}  # fmt: skip
RESOURCE: Final = 13
_BROKEN: Final = (struct.error, IndexError, ValueError, TypeError, OverflowError, UnicodeDecodeError)
_T = TypeVar("_T")


class DamagedError(InputError):
    """A table of the file that can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTensor:
    """A tensor as the file describes it.

    Attributes:
        dtype: None for a handle of a variable.
        open: dimensions that the model leaves to the run time; ``shape`` has the extents to compile for.
    """

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]
    open: tuple[bool, ...]
    quantisation: Quantisation | None
    data: Array | None = field(repr=False)
    variable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RawOperator:
    """An operator as the file describes it.

    Attributes:
        number: position in its subgraph.
        inputs: tensor numbers; -1 for an optional one that is absent.
        options: reads the table of options as the class it is given; None where the file has none.
        custom: bytes of the options of a custom operator.
    """

    number: int
    kind: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    options: Callable[[str], Any | None] = field(repr=False)
    custom: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSubgraph:
    """One subgraph of the file."""

    name: str
    tensors: tuple[RawTensor, ...]
    operators: tuple[RawOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read_tflite(path: Path, faults: FaultCollector, batch: int = 1) -> tuple[RawSubgraph, ...]:
    """Decode the file; raises InputError when it can't be read as a flatbuffer at all.

    Args:
        batch: extent of first dimensions that the file leaves open.
    """
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise InputError(f"{size} bytes; at most {MAX_FILE_BYTES} are read", where=str(path))
    data = path.read_bytes()
    if data[4:8] != IDENTIFIER:
        raise InputError("not a .tflite file: the identifier TFL3 is missing", where=str(path))
    return _Reader(data, faults, batch).subgraphs()


class _Reader:
    def __init__(self, data: bytes, faults: FaultCollector, batch: int) -> None:
        import tflite

        self.schema = tflite
        self.batch = batch
        self.faults = faults
        self.names = {v: k for k, v in vars(tflite.BuiltinOperator).items() if isinstance(v, int)}
        self.model: Any = tflite.Model.GetRootAs(data, 0)

    def guarded(self, place: str, what: Callable[[], _T]) -> _T | None:
        """The result of ``what``, or None and a fault when the table is damaged."""
        try:
            return what()
        except _BROKEN as error:
            self.faults.add(place, f"is damaged: {error}")
            return None

    def count(self, place: str, number: int, limit: int) -> int:
        if not 0 <= number <= limit:
            self.faults.add(place, f"{number} entries; at most {limit} are read")
            return 0
        return number

    def subgraphs(self) -> tuple[RawSubgraph, ...]:
        found = self.guarded("model", self._subgraphs)
        return found or ()

    def _subgraphs(self) -> tuple[RawSubgraph, ...]:
        total = self.count("model.subgraphs", self.model.SubgraphsLength(), MAX_SUBGRAPHS)
        if not total:
            self.faults.add("model.subgraphs", "the model has no graph")
        self.codes = self._operator_codes()
        return tuple(
            found
            for i in range(total)
            if (found := self.guarded(f"subgraphs[{i}]", partial(self._subgraph, i))) is not None
        )

    def _operator_codes(self) -> list[tuple[str, int]]:
        model = self.model
        codes = []
        for i in range(self.count("model.operator_codes", model.OperatorCodesLength(), MAX_ARGUMENTS)):
            code = model.OperatorCodes(i)
            number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
            kind = self.names.get(number, f"BUILTIN_{number}")
            if kind == "CUSTOM":
                kind = f"CUSTOM:{_text(code.CustomCode())}"
            codes.append((kind, code.Version()))
        return codes

    def _subgraph(self, index: int) -> RawSubgraph:
        graph = self.model.Subgraphs(index)
        place = f"subgraphs[{index}]"
        count = self.count(f"{place}.tensors", graph.TensorsLength(), MAX_TENSORS)
        tensors = [
            self.guarded(f"{place}.tensors[{i}]", partial(self._tensor, graph, place, i))
            for i in range(count)
        ]
        blank = RawTensor(
            name="", dtype=None, shape=(), open=(), quantisation=None, data=None, variable=False
        )
        whole = tuple(t or blank for t in tensors)
        number = self.count(f"{place}.operators", graph.OperatorsLength(), MAX_OPERATORS)
        operators = [
            self.guarded(f"{place}.operators[{i}]", partial(self._operator, graph, place, i, len(whole)))
            for i in range(number)
        ]
        return RawSubgraph(
            name=_text(graph.Name()),
            tensors=whole,
            operators=tuple(o for o in operators if o is not None),
            inputs=self._ids(f"{place}.inputs", graph.InputsAsNumpy(), len(whole)),
            outputs=self._ids(f"{place}.outputs", graph.OutputsAsNumpy(), len(whole)),
        )

    def _ids(self, place: str, numbers: object, limit: int, least: int = 0) -> tuple[int, ...]:
        ids = _numbers(numbers)
        self.count(place, len(ids), MAX_ARGUMENTS)
        wrong = [i for i in ids if not least <= i < limit]
        if wrong:
            self.faults.add(place, f"names tensor {wrong[0]}; there are {limit}")
            return ()
        return ids

    def _tensor(self, graph: Any, place: str, index: int) -> RawTensor:  # noqa: ANN401 - table of the schema
        tensor = graph.Tensors(index)
        at = f"{place}.tensors[{index}]"
        name = _text(tensor.Name())
        shape = _numbers(tensor.ShapeAsNumpy())
        kind = tensor.Type()
        if kind != RESOURCE and kind not in _DTYPES:
            self.faults.add(at, f"{shown(name)} has element type {kind}, which is not supported")
        dtype = np.dtype(_DTYPES[kind]) if kind in _DTYPES else None
        if len(shape) > MAX_RANK or any(e < 0 for e in shape):
            self.faults.add(at, f"{shown(name)} has shape {shape[:MAX_RANK]}")
            shape = ()
        unknown = tuple(e < 0 for e in _numbers(tensor.ShapeSignatureAsNumpy()))
        if self.batch != 1 and unknown[:1] == (True,) and shape[:1] == (1,):
            shape = (self.batch, *shape[1:])
        size = math.prod(shape) * (dtype.itemsize if dtype else 1)
        if size > MAX_TENSOR_BYTES:
            self.faults.add(at, f"{shown(name)} has {size} bytes; at most {MAX_TENSOR_BYTES} are read")
            shape = ()
        return RawTensor(
            name=name,
            dtype=dtype,
            shape=shape,
            open=unknown,
            quantisation=self._quantisation(tensor.Quantization(), dtype, shape, at, name),
            data=None if dtype is None else self._data(tensor.Buffer(), dtype, shape, at, name),
            variable=bool(tensor.IsVariable()),
        )

    def _data(
        self, buffer: int, dtype: np.dtype[Any], shape: tuple[int, ...], at: str, name: str
    ) -> Array | None:
        if not 0 <= buffer < self.model.BuffersLength():
            self.faults.add(
                at, f"{shown(name)} names buffer {buffer}; there are {self.model.BuffersLength()}"
            )
            return None
        raw = self.model.Buffers(buffer).DataAsNumpy()
        if isinstance(raw, int) or raw is None or raw.size == 0:
            return None
        need = math.prod(shape) * dtype.itemsize
        if raw.size != need:
            self.faults.add(at, f"{shown(name)} has {raw.size} bytes of data; its shape needs {need}")
            return None
        return np.frombuffer(raw.tobytes(), dtype).reshape(shape)

    def _quantisation(
        self,
        table: Any,  # noqa: ANN401 - table of the schema
        dtype: np.dtype[Any] | None,
        shape: tuple[int, ...],
        at: str,
        name: str,
    ) -> Quantisation | None:
        if table is None or not table.ScaleLength():
            return None
        scales = tuple(float(s) for s in table.ScaleAsNumpy())
        points = tuple(int(z) for z in _numbers(table.ZeroPointAsNumpy())) or (0,) * len(scales)
        bad = [s for s in scales if not (math.isfinite(s) and s > 0)]
        if bad:
            self.faults.add(at, f"{shown(name)} has the scale {bad[0]}; it must be finite and > 0")
            return None
        if dtype is not None and dtype.kind in "iu" and dtype.itemsize <= 2:
            limits = np.iinfo(dtype)
            wrong = [z for z in points if not limits.min <= z <= limits.max]
            if wrong:
                self.faults.add(at, f"{shown(name)} has the zero point {wrong[0]}; {dtype} can't hold it")
                return None
        if len(points) == 1:
            points *= len(scales)
        axis = None
        if len(scales) > 1:
            axis = table.QuantizedDimension()
            if not 0 <= axis < len(shape) or shape[axis] != len(scales):
                self.faults.add(
                    at, f"{shown(name)} of shape {shape} has {len(scales)} scales along dimension {axis}"
                )
                return None
        if len(points) != len(scales):
            self.faults.add(at, f"{shown(name)} has {len(points)} zero points for {len(scales)} scales")
            return None
        return Quantisation(scale=scales, zero_point=points, axis=axis)

    def _operator(self, graph: Any, place: str, index: int, tensors: int) -> RawOperator | None:  # noqa: ANN401
        operator = graph.Operators(index)
        at = f"{place}.operators[{index}]"
        code = operator.OpcodeIndex()
        if not 0 <= code < len(self.codes):
            self.faults.add(at, f"names operator code {code}; there are {len(self.codes)}")
            return None
        kind, version = self.codes[code]
        custom = operator.CustomOptionsAsNumpy()
        return RawOperator(
            number=index,
            kind=kind,
            version=version,
            inputs=self._ids(f"{at}.inputs", operator.InputsAsNumpy(), tensors, least=-1),
            outputs=self._ids(f"{at}.outputs", operator.OutputsAsNumpy(), tensors),
            intermediates=self._ids(f"{at}.intermediates", operator.IntermediatesAsNumpy(), tensors),
            options=lambda name: self._options(operator, name),
            custom=b"" if isinstance(custom, int) else custom.tobytes(),
        )

    def _options(self, operator: Any, name: str) -> Any | None:  # noqa: ANN401 - tables of the schema
        try:
            table, kind = operator.BuiltinOptions(), operator.BuiltinOptionsType()
        except _BROKEN as error:
            raise DamagedError(f"its options are damaged: {error}") from error
        if table is None or kind != getattr(self.schema.BuiltinOptions, name):
            return None
        options = getattr(self.schema, name)()
        options.Init(table.Bytes, table.Pos)
        return _Options(options)


class _Options:
    """A table of options whose every access is guarded."""

    def __init__(self, table: object) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Callable[[], Any]:
        """The reader of one field; raises DamagedError when the table is damaged."""

        def read() -> Any:  # noqa: ANN401 - a field of any type
            try:
                return getattr(self._table, name)()
            except _BROKEN as error:
                raise DamagedError(f"its options are damaged: {error}") from error

        return read


def _numbers(found: object) -> tuple[int, ...]:
    """Integers of a vector; the schema gives 0 for an absent one."""
    return () if isinstance(found, int) or found is None else tuple(int(x) for x in found)  # type: ignore[attr-defined]


def _text(found: bytes | None) -> str:
    """A name, with what is not printable escaped."""
    text = (found or b"")[:MAX_NAME].decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def tensors_of(graph: RawSubgraph, ids: tuple[int, ...]) -> Iterator[RawTensor]:
    """Tensors by their numbers; absent ones left out."""
    return (graph.tensors[i] for i in ids if i >= 0)
