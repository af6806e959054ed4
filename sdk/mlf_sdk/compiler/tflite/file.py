# SPDX-License-Identifier: Apache-2.0
"""A ``.tflite`` file as plain data: the flatbuffer decoded behind bounds, every defect a fault.

The schema comes from the package ``tflite``, whose accessors trust the file: each table is read inside a
guard that turns an offset out of range into a fault of that table.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from mlf_sdk.compiler.graph import UnsupportedError
from mlf_sdk.compiler.tflite.tensors import BLANK, RawTensor, TensorReader, numbers, text
from mlf_sdk.errors import FaultCollector, InputError
from mlf_sdk.tools.checks import shown

IDENTIFIER: Final = b"TFL3"
MAX_FILE_BYTES: Final = 256 << 20
MAX_SUBGRAPHS: Final = 64
MAX_TENSORS: Final = 1 << 16
MAX_OPERATORS: Final = 1 << 16
MAX_ARGUMENTS: Final = 1024
_BROKEN: Final = (struct.error, IndexError, ValueError, TypeError, OverflowError, UnicodeDecodeError)
_T = TypeVar("_T")


CUSTOM: Final = "CUSTOM:"
"""Beginning of the kind of a custom operator, before its name."""


class DamagedError(UnsupportedError):
    """A table of the file that can't be read."""


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
        self.faults = faults
        self.size = len(data)
        self.names = {v: k for k, v in vars(tflite.BuiltinOperator).items() if isinstance(v, int)}
        self.model: Any = tflite.Model.GetRootAs(data, 0)
        self.tensors = TensorReader(self.model, batch)

    def guarded(self, place: str, what: Callable[[], _T]) -> _T | None:
        """The result of ``what``, or None and a fault when the table is damaged."""
        try:
            return what()
        except struct.error:
            self.faults.add(place, f"is cut off or damaged: it refers to bytes past the file's {self.size}")
            self.faults.hint = "Compare the file's size with that at its source, and copy it again."
            return None
        except _BROKEN as error:
            self.faults.add(place, f"is damaged: {error}")
            return None

    def count(self, place: str, number: int, limit: int) -> int:
        if not 0 <= number <= limit:
            self.faults.add(place, f"{number} entries; at most {limit} are read")
            return 0
        return number

    def subgraphs(self) -> tuple[RawSubgraph, ...]:
        result = self.guarded("model", self._subgraphs)
        return result or ()

    def _subgraphs(self) -> tuple[RawSubgraph, ...]:
        total = self.count("model.subgraphs", self.model.SubgraphsLength(), MAX_SUBGRAPHS)
        if not total:
            self.faults.add("model.subgraphs", "the model has no graph")
        self.codes = self._operator_codes()
        return tuple(
            result
            for i in range(total)
            if (result := self.guarded(f"subgraphs[{i}]", partial(self._subgraph, i))) is not None
        )

    def _operator_codes(self) -> list[tuple[str, int]]:
        model = self.model
        codes = []
        for i in range(self.count("model.operator_codes", model.OperatorCodesLength(), MAX_ARGUMENTS)):
            code = model.OperatorCodes(i)
            number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
            kind = self.names.get(number, f"BUILTIN_{number}")
            if kind == "CUSTOM":
                kind = CUSTOM + text(code.CustomCode())
            codes.append((kind, code.Version()))
        return codes

    def _subgraph(self, index: int) -> RawSubgraph:
        graph = self.model.Subgraphs(index)
        place = f"subgraphs[{index}]"
        count = self.count(f"{place}.tensors", graph.TensorsLength(), MAX_TENSORS)
        tensors = [
            self.guarded(f"{place}.tensors[{i}]", partial(self._tensor, graph, i)) for i in range(count)
        ]
        whole = tuple(t or BLANK for t in tensors)
        number = self.count(f"{place}.operators", graph.OperatorsLength(), MAX_OPERATORS)
        operators = [
            self.guarded(f"{place}.operators[{i}]", partial(self._operator, graph, place, i, len(whole)))
            for i in range(number)
        ]
        return RawSubgraph(
            name=text(graph.Name()),
            tensors=whole,
            operators=tuple(o for o in operators if o is not None),
            inputs=self._ids(f"{place}.inputs", graph.InputsAsNumpy(), len(whole)),
            outputs=self._ids(f"{place}.outputs", graph.OutputsAsNumpy(), len(whole)),
        )

    def _ids(self, place: str, vector: object, limit: int, least: int = 0) -> tuple[int, ...]:
        ids = numbers(vector)
        self.count(place, len(ids), MAX_ARGUMENTS)
        wrong = [i for i in ids if not least <= i < limit]
        if wrong:
            self.faults.add(place, f"names tensor {wrong[0]}; there are {limit}")
            return ()
        return ids

    def _tensor(self, graph: Any, index: int) -> RawTensor:  # noqa: ANN401 - table of the schema
        return self.tensors.read(graph.Tensors(index))

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


def tensors_of(graph: RawSubgraph, ids: tuple[int, ...]) -> Iterator[RawTensor]:
    """Tensors by their numbers; absent ones left out."""
    return (graph.tensors[i] for i in ids if i >= 0)


UNSCALED: Final = frozenset(
    (
        *(
            "RESHAPE",
            "SQUEEZE",
            "EXPAND_DIMS",
            "PACK",
            "UNPACK",
            "SPLIT",
            "SPLIT_V",
            "SLICE",
            "STRIDED_SLICE",
        ),
        *("TRANSPOSE", "GATHER", "GATHER_ND", "TILE", "BROADCAST_TO", "REVERSE_V2", "SPACE_TO_DEPTH"),
        *("DEPTH_TO_SPACE", "MIRROR_PAD", "RESIZE_NEAREST_NEIGHBOR", "READ_VARIABLE", "ASSIGN_VARIABLE"),
        *("SHAPE", "ARG_MAX", "ARG_MIN", "DYNAMIC_UPDATE_SLICE", "CALL_ONCE", "VAR_HANDLE"),
    )
)
"""Operators that never read a scale or a zero point."""


def flaw_of(raw: RawSubgraph, operator: RawOperator) -> str:
    """Reason why a tensor of an operator can't be what the operator needs; empty: none.

    A scale matters to values of up to 16 bits only: no operator reads the one of a bias or of a shape.
    """
    for number in (*operator.inputs, *operator.outputs):
        tensor = raw.tensors[number] if number >= 0 else None
        if tensor is None:
            continue
        if tensor.flaw:
            return f"{shown(tensor.name)} {tensor.flaw}"
        small = tensor.dtype is not None and tensor.dtype.itemsize <= 2
        if tensor.scale_flaw and small and operator.kind not in UNSCALED:
            return f"{shown(tensor.name)} {tensor.scale_flaw}"
    return ""
