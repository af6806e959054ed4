# SPDX-License-Identifier: Apache-2.0
"""Arguments that a kernel fills: it writes every element that it reaches before it reads any.

What was in the memory of such an argument before the call does not matter. The proof evaluates the subscripts
of all writes and reads at every point of their loops. A kernel that can't be evaluated fills nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from mlf_sdk.analysis.c.accesses import Access
from mlf_sdk.analysis.c.extents import ArgumentExtent, kernel_accesses
from mlf_sdk.analysis.c.ranges import BOUND, COUNTERS
from mlf_sdk.analysis.c.syntax import BINARY, CAST, CHOICE, CONSTANT, NAME, UNARY, Expr, UnreadableError
from mlf_sdk.analysis.c.unit import FunctionDefinition

MAX_POINTS: Final = 1 << 20
"""Points of the loops around one access that are evaluated."""

_Array = npt.NDArray[np.int64]
_Binary = Callable[[_Array, _Array], npt.NDArray[np.generic]]


class ArgumentUse(msgspec.Struct, frozen=True, kw_only=True):
    """Use of one argument by a kernel.

    Attributes:
        element_type: C type of the elements; empty when the argument is never accessed.
        elements: no access lies at or beyond; None when that is not known.
        is_filled: all ``elements`` are written, each before it is read.
        is_direct: it is accessed other than by its parts.
        part_of: argument that this is a named part of, and the byte at which it starts; None for a whole one.
    """

    index: int
    element_type: str
    elements: int | None
    is_filled: bool
    is_direct: bool
    part_of: tuple[int, int] | None = None


def argument_uses(function: FunctionDefinition) -> tuple[ArgumentUse, ...]:
    """Uses of all arguments of a kernel in order, then of the parts of them that it names.

    Raises:
        UnreadableError: the kernel is anything but loops with constant bounds around accesses to elements.
    """
    log, extents = kernel_accesses(function)
    return tuple(
        _use(
            extent,
            [access for access in log.accesses if access.argument == extent.index],
            log.names.parts.get(extent.index),
        )
        for extent in extents
    )


def _use(extent: ArgumentExtent, accesses: Sequence[Access], part_of: tuple[int, int] | None) -> ArgumentUse:
    is_written = any(access.is_write for access in accesses)
    return ArgumentUse(
        index=extent.index,
        element_type=extent.element_type,
        elements=extent.at_most,
        is_filled=is_written and extent.at_most is not None and _fills(extent.at_most, accesses),
        is_direct=bool(accesses),
        part_of=part_of,
    )


def _fills(elements: int, accesses: Sequence[Access]) -> bool:
    writes = [write for a in accesses if a.is_write and (write := _certain(a)) is not None]
    covered = np.zeros(elements, dtype=np.bool_)
    for write in writes:
        covered[write.subscripts] = True
    reads = (access for access in accesses if not access.is_write)
    return bool(covered.all()) and all(_is_written_before(read, writes, elements) for read in reads)


class _Points(msgspec.Struct, frozen=True):
    """Points at which an access happens: a value of each loop variable that matters, and the subscript."""

    access: Access
    variables: Mapping[str, _Array]
    subscripts: _Array


def _certain(write: Access) -> _Points | None:
    """Points of a write that certainly happens at all of them; None when that is not certain."""
    try:
        return _points(write, (), strict=True)
    except UnreadableError:
        return None


def _is_written_before(read: Access, writes: Iterable[_Points], elements: int) -> bool:
    """Return whether each element that a read may touch was written in the same turn of all common loops."""
    earlier = [w for w in writes if w.access.time < read.time]
    always = np.zeros(elements, dtype=np.bool_)
    for write in earlier:
        if not any(name in read.scope.names for name in write.variables):
            always[write.subscripts] = True
    if always.all():
        return True
    shared = {name for w in earlier for name in w.variables if name in read.scope.names}
    try:
        points = _points(read, shared, strict=False)
        done = np.zeros(points.subscripts.shape, dtype=np.bool_)
        for write in earlier:
            common = sorted(name for name in write.variables if name in read.scope.names)
            done |= np.isin(_keys(points, common, read), _keys(write, common, read))
    except UnreadableError:
        return False
    return bool(done.all())


def _keys(points: _Points, names: Sequence[str], read: Access) -> _Array:
    """One number for the values of ``names`` and the subscript at each point."""
    keys = points.subscripts.astype(np.int64)
    factor = BOUND + 1
    for name in names:
        low, high = read.scope.names[name]
        # A value that the read's loop does not take is moved onto none that it takes.
        keys = keys + (np.clip(points.variables[name], low - 1, high + 1) - (low - 1)) * factor
        factor *= high - low + 3
        if factor > 1 << 62:
            raise UnreadableError("too many loops")
    return keys


def _points(access: Access, more: Iterable[str], *, strict: bool) -> _Points:
    """Evaluate an access at every point of the loops that matter.

    Args:
        access: a read or write.
        more: loop variables that matter as well.
        strict: only points that are certain; else all that are possible.

    Raises:
        UnreadableError: it can't be evaluated, or there are too many points.
    """
    scope = access.scope
    conditions = [(c, holds) for c, holds in scope.conditions if strict or _is_readable(c, scope.loops)]
    expressions = [access.subscript, *(condition for condition, _ in conditions)]
    used = {part.text for e in expressions for part in e.walk() if part.kind == NAME}
    names = sorted(used | set(more))
    if not scope.loops.issuperset(names):
        raise UnreadableError("the loops have no constant bounds")
    count = 1
    for name in names:
        count *= scope.names[name][1] - scope.names[name][0] + 1
    if count > MAX_POINTS:
        raise UnreadableError("the loops are too long")
    ranges = [np.arange(scope.names[name][0], scope.names[name][1] + 1, dtype=np.int64) for name in names]
    grid = np.meshgrid(*ranges, indexing="ij") if ranges else []
    variables = {name: axis.ravel() for name, axis in zip(names, grid, strict=True)}
    taken = np.ones(count, dtype=np.bool_)
    for condition, holds in conditions:
        taken &= (_evaluate(condition, variables) != 0) == holds
    kept = {name: values[taken] for name, values in variables.items()}
    subscripts = np.broadcast_to(_evaluate(access.subscript, kept), (int(taken.sum()),))
    return _Points(access, kept, subscripts)


def _is_readable(condition: Expr, loops: frozenset[str]) -> bool:
    """Return whether the value of a condition follows from loop variables alone."""
    try:
        _evaluate(condition, {name: np.zeros(1, dtype=np.int64) for name in loops})
    except UnreadableError:
        return False
    return True


def _evaluate(expression: Expr, variables: Mapping[str, _Array]) -> _Array:
    """Value of an expression at every point, as C computes it in 32 bits.

    Raises:
        UnreadableError: it is no plain arithmetic of loop variables, or overflows.
    """
    kind, text = expression.kind, expression.text
    if kind == CONSTANT:
        return np.full((1,), expression.value, dtype=np.int64)
    if kind == NAME and text in variables:
        return variables[text]
    values = [_evaluate(argument, variables) for argument in expression.args]
    if kind == CAST and text in COUNTERS:
        result = values[0]
    elif kind == CHOICE:
        result = np.where(values[0] != 0, values[1], values[2])
    elif kind == UNARY and text in _UNARY:
        result = _UNARY[text](values[0])
    elif kind == BINARY and text in _BINARY:
        result = _BINARY[text](values[0], values[1]).astype(np.int64)
    else:
        raise UnreadableError("an index is more than arithmetic of loop variables")
    if result.size and np.abs(result).max() > BOUND:
        raise UnreadableError("an index overflows")
    return result


def _quotient(a: _Array, b: _Array) -> _Array:
    """Division of C: towards zero."""
    if not b.all():
        raise UnreadableError("an index is divided by zero")
    result: _Array = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    return result


_UNARY: Final[Mapping[str, Callable[[_Array], _Array]]] = {
    "-": lambda a: -a,
    "+": lambda a: a,
    "!": lambda a: (a == 0).astype(np.int64),
}
_BINARY: Final[Mapping[str, _Binary]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": lambda a, b: a - b * _quotient(a, b),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&&": lambda a, b: (a != 0) & (b != 0),
    "||": lambda a, b: (a != 0) | (b != 0),
}
