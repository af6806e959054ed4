# SPDX-License-Identifier: Apache-2.0
"""Recorded operations run in numpy: what assembly and C are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlf_sdk.compiler.microkernels.assignments import is_assignments, run
from mlf_sdk.compiler.microkernels.builder import Builder, Operation, Register
from mlf_sdk.compiler.microkernels.operations import PYTHON_FUNCTIONS, signed

Elements = NDArray[np.int64]
Memory = Mapping[str, Elements | tuple[Elements, int] | list[tuple[Elements, int]]]


def interpret(builder: Builder, meanings: Mapping[str, str], given: Memory, **words: int) -> None:
    """Run a function on several sets of data at once.

    Args:
        meanings: expression of each operation.
        given: elements behind each pointer parameter, of shape (sets, elements), or these and the place that
            it points to; outputs are written.
            Pointers behind one are elements and a place in them each.
        words: values of the other parameters.
    """
    places = {name: one if isinstance(one, tuple) else (one, 0) for name, one in given.items()}
    values: dict[Register, Any] = {
        p: places[p.name] if p.kind.unit else words[p.name] for p in builder.parameters
    }
    codes = {n: compile(text, n, "eval") for n, text in meanings.items() if not is_assignments(text)}
    labels = {o.i: at for at, o in enumerate(builder.operations) if o.name in ("label", "skip_end")}
    sets = max(len(elements) for elements, _ in places.values() if isinstance(elements, np.ndarray))
    at = 0
    while at < len(builder.operations):
        o = builder.operations[at]
        at += 1
        if o.name in ("count", "count_lanes"):
            counter = o.results[0]
            values[counter] = values[counter] - o.step
        if o.name in ("count_down", "count_lanes"):
            at = labels[o.i] if np.any(values[counter] > 0) else at
        elif o.name in ("count", "give_back"):
            continue
        elif o.name == "skip":
            at = at if np.any(values[o.operands[0]]) else labels[o.i]
        elif o.name in meanings and o.name not in codes:
            run(o, meanings[o.name], values, sets)
        elif o.name in ("again", "leave_if", "skip_equal"):
            one, other = (values[r][1] for r in o.operands)
            if o.name == "leave_if" and one == other:
                return
            at = labels[o.i] if o.name == "skip_equal" and one == other else at
            at = labels[o.i] if o.name == "again" and one != other else at
        elif o.name == "copy":
            values[o.results[0]] = values[o.operands[0]]
        elif o.name in codes and not (o.operands and o.operands[0].kind.unit):
            names = dict(zip("abc", (values[r] for r in o.operands), strict=False))
            value = eval(codes[o.name], PYTHON_FUNCTIONS, {**names, "i": o.i})
            values[o.results[0]] = signed(value)
        elif o.operands:
            _access(o, values)


def _access(o: Operation, values: dict[Register, Any]) -> None:
    """Run an operation of memory or on a pointer: elements, and a place in them."""
    base = o.operands[0] if o.name in ("advance", "place", "add", "subtract") else o.operands[-1]
    elements, place = values[base]
    unit = base.kind.unit
    if o.name == "load_at" and o.results[0].kind.unit:
        values[o.results[0]] = elements[place + o.i // unit]
    elif o.name in ("load", "load_at", "load_back"):
        first = place + (o.i // unit if o.name == "load_at" else 0)
        first -= len(o.results) * 4 // unit if o.name == "load_back" else 0
        for k, r in enumerate(o.results):
            values[r] = _word(elements, first + k * 4 // unit, unit)
        if o.name != "load_at":
            values[base] = elements, first + (len(o.results) * 4 // unit if o.name == "load" else 0)
    elif o.name == "store_many":
        for k, r in enumerate(o.operands[:-1]):
            elements[:, place + k] = signed(values[r])
        values[base] = elements, place + len(o.operands) - 1
    elif o.name == "store_byte":
        elements[:, place + o.i] = signed(values[o.operands[0]], 8)
    elif o.name in ("add", "subtract"):
        amount = int(np.max(values[o.operands[1]])) // unit
        values[o.results[0]] = elements, place + (amount if o.name == "add" else -amount)
    else:
        values[o.results[0]] = elements, place + o.i // unit


def _word(elements: NDArray[np.int64], place: int, unit: int) -> NDArray[np.int64]:
    if unit > 1:
        return elements[:, place].copy()  # what is stored there later is another value
    parts = [(elements[:, place + k] & 255) << 8 * k for k in range(4)]
    return signed(parts[0] | parts[1] | parts[2] | parts[3])
