# SPDX-License-Identifier: Apache-2.0
"""Arguments that a kernel fills before it reads them: proven point by point, or not at all."""

from __future__ import annotations

import itertools
import random

import pytest

from mlf_sdk.analysis.c.arguments import MAX_ARGUMENTS
from mlf_sdk.analysis.c.fills import MAX_POINTS, ArgumentUse, argument_uses
from mlf_sdk.analysis.c.liveness import analyse_kernel
from mlf_sdk.analysis.c.source import scan_source
from mlf_sdk.analysis.c.syntax import UnreadableError

HEAD = "int32_t k(float* x, int32_t* y, uint8_t* pool)"


def uses(body: str, head: str = HEAD) -> tuple[ArgumentUse, ...]:
    (function,) = scan_source(f"{head} {{\n{body}\nreturn 0;\n}}\n", "k.c").functions
    return argument_uses(function)


def y_of(body: str) -> ArgumentUse:
    return uses(body)[1]


def loop(inner: str, bound: int = 12, name: str = "i") -> str:
    return f"for (int32_t {name} = 0; {name} < {bound}; ++{name}) {{ {inner} }}"


@pytest.mark.parametrize(
    "body",
    [
        loop("y[i] = 1;"),
        loop("y[((i / 4) * 4) + (i % 4)] = 1;"),
        loop(loop("y[(i * 3) + j] = 1;", 3, "j"), 4),
        loop("int32_t n = (i * 2); y[n] = 1; y[n + 1] = 2;", 6),
        loop("if (i < 6) { y[i] = 1; } else { y[i] = 2; }"),
        loop("y[(i < 6) ? i : (17 - i)] = 1;"),
        loop("if (!(i == 5) && (-i != -6 || i >= 20)) { y[i] = 1; }") + " y[5] = 1; y[6] = 1;",
        loop("y[(int32_t)i] = +i;"),
        loop("y[i] = 0; if (i < 5) { x[0] = y[i]; }"),
        loop("y[i] = 0; y[i] = (y[i] + 1);"),
        loop("y[i] = 0; for (int32_t j = 0; j < 3; ++j) { y[i] += 1; }"),
        loop("y[i] = 0;") + loop("y[j] = (y[11 - j] + y[(int32_t)j]);", 12, "j"),
        loop("y[i] = 0;") + loop("y[i] = (y[i] + 1);"),
        loop("if (i > 1 || i <= 1) { y[i] = 0; }") + loop("x[0] = y[i];", 12),
        "y[0] = 1; x[0] = y[0];",
        loop("y[i] = 0;") + loop("if (x[0] > 1.0f) { x[1] = y[i]; }"),
        # Each turn of the outer loop writes what its inner loops read.
        loop(loop("y[(i * 4) + j] = 0;", 4, "j") + loop("x[0] = y[(i * 4) + (3 - k)];", 4, "k"), 3),
        # More points around the read than are ever looked at: all was written before.
        loop("y[i] = 0;") + loop(loop("x[0] = y[(a * 6) + (b / 1000000)];", 6000000, "b"), 2, "a"),
    ],
)
def test_is_filled(body: str) -> None:
    assert y_of(body).is_filled


@pytest.mark.parametrize(
    "body",
    [
        loop("y[(i * 2)] = 1;"),  # gaps
        loop("y[i] = (y[i] + 1);"),  # what was there matters
        loop("y[i] += 1;"),
        "x[0] = y[3]; " + loop("y[i] = 1;"),
        loop("y[i] = 0; x[0] = y[11 - i];"),  # of a later turn
        loop("if (i < 11) { y[i] = 1; }") + " x[0] = y[11];",
        loop("if (x[0] > 0.5f) { y[i] = 1; }"),
        loop("if (i & 1) { y[i] = 1; }"),
        loop("y[i] = 1; x[0] = y[i & 3];", 4),
        loop("if (((i * 1000000000) / 2) >= 0) { y[i] = 1; }"),
        loop("y[i / 0] = 1;"),
        loop("y[i] = 1; if (1 / (i - i)) { x[0] = y[i]; }") + loop("y[i - 12] = 1;"),
        loop("y[i * 100000000] = 1;"),
        loop("y[n] = 1;"),
        loop("y[(uint8_t)i] = 1;"),
        loop(loop("y[j] = 1;", 4, "j").replace("j < 4", "j < (i + 1)"), 3),
        loop("x[0] = y[0];", 12) + loop("y[i] = 1;"),
        loop("y[i] = 1;", MAX_POINTS + 1),
        loop("int32_t n = ((int32_t)x[0]); y[i] = 1; x[1] = y[n];"),
        # Loops of one name: each has its own turns.
        loop("y[i] = 0;", 4) + loop("x[0] = y[i];", 8) + loop("y[i] = 1;", 8),
        "x[0] = 1.0f;",
    ],
)
def test_is_not_filled(body: str) -> None:
    assert not y_of(body).is_filled


@pytest.mark.parametrize(("depth", "is_known"), [(10, True), (16, False)])
def test_common_loops(depth: int, is_known: bool) -> None:
    """In too many of them a point has no number of its own."""
    names = [f"i{place}" for place in range(depth)]
    body = f"y[{' + '.join(names)}] = 0; x[0] = y[{' + '.join(names)}];"
    for name in names:
        body = loop(body, 2, name)
    assert y_of(body).is_filled is is_known


def test_what_is_said_of_each_argument() -> None:
    found = uses(loop("y[i] = ((int32_t)x[i]);"))
    assert [(u.element_type, u.elements, u.is_filled, u.is_direct) for u in found] == [
        ("float", 12, False, True),
        ("int32_t", 12, True, True),
        ("", 0, False, False),
    ]
    with pytest.raises(UnreadableError, match="an address is taken"):
        uses("float* p = &x[0];")


PARTS = (
    "void* a = (&(pool[64]));\nvoid* b = (&(pool[16]));\n"
    + loop("((int16_t*)a)[i] = 1;")
    + loop("void* c = &(pool[0]); ((int8_t*)c)[0] = 1; ((float*)b)[i] = ((int16_t*)a)[i] + ((int8_t*)c)[0];")
)


def test_parts_of_a_pool() -> None:
    found = {use.part_of: use for use in uses(PARTS)}
    assert [(p, u.elements, u.is_filled) for p, u in found.items() if p is not None] == [
        ((2, 64), 12, True),
        ((2, 16), 12, True),
        ((2, 0), 1, True),
    ]
    assert (uses(PARTS)[2].element_type, uses(PARTS)[2].is_direct) == ("uint8_t", False)
    assert uses(PARTS + "pool[0] = 1;")[2].is_direct


def test_phases_of_parts() -> None:
    """A part is in use where it is accessed, and so is the pool that it is part of."""
    (function,) = scan_source(f"{HEAD} {{\n{PARTS}\nreturn 0;\n}}\n", "k.c").functions
    found = analyse_kernel(function)
    spans = [(a.first, a.last) for a in map(found.argument, (2, *range(MAX_ARGUMENTS, MAX_ARGUMENTS + 3)))]
    assert (found.exact, spans) == (True, [(0, 1), (0, 1), (1, 1), (1, 1)])


def test_two_parts_of_one_name() -> None:
    same = loop("void* c = &(pool[0]); ((int8_t*)c)[0] = 1;")
    assert uses(same + same)[-1].is_filled
    with pytest.raises(UnreadableError, match="one name stands for two things"):
        uses(same + same.replace("pool[0]", "pool[4]"))


@pytest.mark.parametrize(
    "value", ["&(pool[n])", "&(x[0])", "&((float*)pool)[0]", "&q[4]", "-pool[0]", "&pool"]
)
def test_no_part_of_a_pool(value: str) -> None:
    with pytest.raises(UnreadableError):
        uses(f"uint8_t* q = pool; int32_t n = ((int32_t)x[0]); void* a = {value}; ((int8_t*)a)[0] = 1;")


def test_random_kernels_against_a_run() -> None:
    """What is said to be filled is filled when the loops are run one point at a time."""
    generator = random.Random(5)
    said = 0
    for _ in range(100):
        bounds = [generator.randint(1, 4) for _ in range(4)]
        factors = [generator.randint(0, 4) for _ in range(4)]
        order = generator.random() < 0.5
        write = f"y[(i * {factors[0]}) + (j * {factors[1]})] = 1;"
        read = f"x[0] = y[(i * {factors[2]}) + (j * {factors[3]})];"
        inner = loop(f"{write} {read}" if order else f"{read} {write}", bounds[1], "j")
        before = loop("y[k] = 0;", bounds[2], "k") if generator.random() < 0.7 else ""
        found = y_of(before + loop(inner, bounds[0]))
        written = set(range(bounds[2])) if before else set()
        ok = True
        for i, j in itertools.product(range(bounds[0]), range(bounds[1])):
            events = [("w", i * factors[0] + j * factors[1]), ("r", i * factors[2] + j * factors[3])]
            for kind, at in events if order else events[::-1]:
                ok = ok and (kind == "w" or at in written)
                written |= {at} if kind == "w" else set()
        truth = ok and written == set(range(found.elements or 0))
        assert truth or not found.is_filled
        said += found.is_filled
    assert said > 10
