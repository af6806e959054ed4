# SPDX-License-Identifier: Apache-2.0
"""Findings about a ``.tflite`` file: what it says that has no meaning, and what is done about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mlf_sdk.compiler.graph import UnsupportedError
from mlf_sdk.compiler.tflite.file import DamagedError, RawOperator, RawSubgraph
from mlf_sdk.compiler.tflite.tensors import RawTensor
from mlf_sdk.errors import InputError
from mlf_sdk.ir.model import Finding
from mlf_sdk.tools.checks import shown

KNOWN: Final = {
    "ABS": 5, "ADD": 5, "ARG_MAX": 3, "ARG_MIN": 3, "AVERAGE_POOL_2D": 3, "BATCH_MATMUL": 4,
    "BATCH_TO_SPACE_ND": 4, "BROADCAST_TO": 3, "CAST": 7, "CONCATENATION": 4, "CONV_2D": 8,
    "DEPTHWISE_CONV_2D": 7, "DEPTH_TO_SPACE": 2, "DEQUANTIZE": 6, "DIV": 2, "DYNAMIC_UPDATE_SLICE": 4,
    "EMBEDDING_LOOKUP": 4, "EQUAL": 4,
    "EXP": 2, "FILL": 4, "FLOOR_DIV": 3, "FLOOR_MOD": 2, "FULLY_CONNECTED": 13, "GATHER": 7, "GATHER_ND": 5,
    "GREATER": 2, "GREATER_EQUAL": 3, "L2_NORMALIZATION": 2, "LEAKY_RELU": 2, "LESS": 3, "LESS_EQUAL": 2,
    "LOG": 2, "LOGISTIC": 3, "LOG_SOFTMAX": 2, "MAXIMUM": 4, "MAX_POOL_2D": 3, "MEAN": 3, "MINIMUM": 4,
    "MIRROR_PAD": 3, "MUL": 7, "NOT_EQUAL": 3, "PACK": 4, "PAD": 4, "PADV2": 4, "QUANTIZE": 3,
    "REDUCE_MAX": 3, "REDUCE_MIN": 3, "RELU": 3, "RELU6": 3, "RESHAPE": 1, "RESIZE_BILINEAR": 4,
    "RESIZE_NEAREST_NEIGHBOR": 4, "REVERSE_V2": 3, "RSQRT": 3, "SELECT": 4, "SELECT_V2": 2, "SLICE": 6,
    "SOFTMAX": 3, "SPACE_TO_BATCH_ND": 4, "SPACE_TO_DEPTH": 2, "SPLIT": 4, "SPLIT_V": 2,
    "SQUARED_DIFFERENCE": 2, "SQUEEZE": 2, "STRIDED_SLICE": 8, "SUB": 5, "SUM": 2, "SVDF": 4, "TANH": 3,
    "TILE": 3, "TRANSPOSE": 6, "TRANSPOSE_CONV": 5, "UNIDIRECTIONAL_SEQUENCE_LSTM": 4, "UNPACK": 4,
}  # fmt: skip
"""Highest version of operators of TensorFlow Lite that is known; 1 for those that are not listed."""

UNREADABLE: Final = (UnsupportedError, DamagedError, ArithmeticError, LookupError, TypeError, ValueError)
"""Errors of a builder; arguments that contradict each other end in those of arithmetic."""

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


def file_findings(raw: RawSubgraph) -> Iterator[Finding]:
    """Findings about tensors and operators of a subgraph; like ones are one."""
    notes = [(t, note) for t in raw.tensors for note in (*t.notes, *filter(None, [t.flaw]))]
    yield from _alike(notes)
    for number in raw.inputs:
        yield from _open(raw.tensors[number])
    new = [o for o in raw.operators if not 1 <= o.version <= KNOWN.get(o.kind, 1)]
    for kind, version in dict.fromkeys((o.kind, o.version) for o in new):
        yield Finding(
            where=f"operator {kind}",
            what=f"its version is {version}; versions 1 to {KNOWN.get(kind, 1)} are known",
            handled="taken as the newest that is known; TFLM does not read versions",
        )


def _alike(notes: Iterable[tuple[RawTensor, str]]) -> Iterator[Finding]:
    """One finding of all notes that differ in numbers only."""
    groups: dict[str, list[tuple[RawTensor, str]]] = {}
    for tensor, note in notes:
        groups.setdefault(re.sub(r"[\d., ()]+", " ", note), []).append((tensor, note))
    for group in groups.values():
        tensor, note = group[0]
        more = f"; and {len(group) - 1} more such" if len(group) > 1 else ""
        yield Finding(
            where="tensors",
            what=f"{shown(tensor.name)} {note}{more}",
            handled="set aside, since no operator that is compiled needs it",
        )


def _open(tensor: RawTensor) -> Iterator[Finding]:
    for axis, is_open in enumerate(tensor.open[: len(tensor.shape)]):
        if is_open and axis:
            yield Finding(
                where=f"input {shown(tensor.name)}",
                what=f"leaves dimension {axis} open",
                handled=f"compiled for the extent that is stored, {tensor.shape[axis]}; "
                "for another, convert the model with a fixed shape",
            )


def fault_text(error: Exception) -> str:
    """A fault, and what to do about it."""
    if isinstance(error, InputError):
        return f"{error.what}; {error.hint or 'convert the model again'}"
    return f"its tensors do not fit it ({error}); convert the model again"
