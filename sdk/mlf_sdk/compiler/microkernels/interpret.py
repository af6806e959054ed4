# SPDX-License-Identifier: Apache-2.0
"""Recorded operations run in numpy: what assembly and C are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlf_sdk.compiler.microkernels.builder import Builder, Operation, Register
from mlf_sdk.compiler.microkernels.operations import PYTHON_FUNCTIONS, signed

Memory = Mapping[str, NDArray[np.int64]]


def interpret(builder: Builder, meanings: Mapping[str, str], given: Memory, **words: int) -> None:
    """Run a function on several sets of data at once.

    Args:
        meanings: expression of each operation.
        given: elements behind each pointer parameter, of shape (sets, elements); outputs are written.
        words: values of the other parameters.
    """
    values: dict[Register, Any] = {
        p: (given[p.name], 0) if p.kind.unit else words[p.name] for p in builder.parameters
    }
    codes = {name: compile(text, name, "eval") for name, text in meanings.items()}
    labels = {o.i: at for at, o in enumerate(builder.operations) if o.name == "label"}
    at = 0
    while at < len(builder.operations):
        o = builder.operations[at]
        at += 1
        if o.name == "again":
            one, other = (values[r] for r in o.operands)
            at = labels[o.i] if one[1] != other[1] else at
        elif o.name in codes and not (o.operands and o.operands[0].kind.unit):
            names = dict(zip("abc", (values[r] for r in o.operands), strict=False))
            value = eval(codes[o.name], PYTHON_FUNCTIONS, {**names, "i": o.i})  # noqa: S307 - of our own tables
            values[o.results[0]] = signed(value)
        elif o.operands:
            _access(o, values)


def _access(o: Operation, values: dict[Register, Any]) -> None:
    """Run an operation of memory or on a pointer: elements, and a place in them."""
    base = o.operands[0] if o.name in ("advance", "place", "add") else o.operands[-1]
    elements, place = values[base]
    if o.name == "load":
        for k, r in enumerate(o.results):
            values[r] = elements[:, place + k]
        values[base] = elements, place + len(o.results)
    elif o.name == "store_byte":
        elements[:, place + o.i] = signed(values[o.operands[0]], 8)
    elif o.name == "add":
        values[o.results[0]] = elements, place + values[o.operands[1]]
    else:
        values[o.results[0]] = elements, place + o.i // base.kind.unit
