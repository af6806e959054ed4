# SPDX-License-Identifier: Apache-2.0
"""Effects of kernels: what they write, whose address they keep, what outlives their call."""

from __future__ import annotations

import pytest

from mlf_sdk.analysis.c.effects import Effects, EffectsOfCode
from mlf_sdk.analysis.c.source import scan_source

PACKED = "int32_t k(void* args, int32_t* arg_type_ids, int32_t num_args, void* v, int32_t* c, void* r)"
NAMES = "".join(
    f"void* a{i} = (((TVMValue*)args)[{i}].v_handle);\nvoid* {name} = (((DLTensor*)a{i})[0].data);\n"
    for i, name in enumerate("xy")
)
UNKNOWN = "code that is not understood"


def effects(body: str, before: str = "", *, doubt: str = "") -> Effects:
    scan = scan_source(f"{before}\n{PACKED} {{\n{NAMES}{body}\nreturn 0;\n}}\n", "k.c", doubt=doubt)
    code = EffectsOfCode([scan])
    function = code.resolve("k.c", "k")
    assert function is not None
    assert code.of(function) is code.of(function)
    return code.of(function)


def of(body: str, before: str = "") -> tuple[set[int], set[int], set[str]]:
    """Written and kept arguments (x is 0, y is 1), and what outlives the call."""
    found = effects(body, before)
    return set(found.written), set(found.kept), set(found.lasting)


NOTHING: tuple[set[int], set[int], set[str]] = set(), set(), set()


@pytest.mark.parametrize(
    "body",
    [
        "int32_t n = ((int32_t*)x)[3] + *((int32_t*)x + 1);",
        "int32_t n = ((DLTensor*)a0)[0].ndim; int64_t* s = ((DLTensor*)a0)->shape;",
        "int32_t* q = (int32_t*)x; int32_t n = *q++ + *(q = q + 1);",
        "int32_t m[4]; m[0] = ((int32_t*)x)[0]; struct s t; t.n = 1;",
        "float f = expf(((float*)x)[0]) + __builtin_fmaxf(1.0f, 2.0f) + sqrt(2.0);",
        "arm_softmax_s8((int8_t*)x, 1, 2); for (;;) { break; }",
        "float* p = ((float*)x); int32_t n = sizeof(p) + (p == (float*)y);",
        "int32_t* q[1]; int32_t m[2]; q[0] = m; q[0][1] = (0, (int32_t*)x)[2];",
        "int32_t* q[1]; int32_t m[2]; q[0] = m; q[0][1] = (1 ? (int32_t*)x : (int32_t*)y)[2];",
        "goto end; end: ;",
        "int32_t m[2][2]; m[0][1] = 1; struct s t; t.u.n = 1;",
    ],
)
def test_reading_has_no_effects(body: str) -> None:
    assert of(body) == NOTHING


@pytest.mark.parametrize(
    "body",
    [
        "((int32_t*)x)[1] = 2;",
        "((int32_t*)x)[1] += 2;",
        "((int32_t*)x)[1]++;",
        "*(int32_t*)x = 1;",
        "int32_t* q = (int32_t*)x; *q++ = 2;",
        "int32_t* p; int32_t* q; for (;;) { *p = 1; p = q; q = (int32_t*)x; }",
        "int32_t* q = (1 ? (int32_t*)x : (int32_t*)0); q[0] = 1;",
        "int32_t* q = (0, (int32_t*)x); q[0] = 1;",
        "int32_t* q[2] = {(int32_t*)x}; q[0][1] = 1;",
        "struct s t; t.p = (int32_t*)x; t.p[0] = 1;",
        "int32_t* q = (int32_t*)x; int32_t** r = &q; (*r)[1] = 1;",
        "((struct s*)x)->n = 1;",
        "memcpy(x, y, 16);",
        "int32_t* q = memset((int32_t*)x + 4, 0, 4);",
        "uintptr_t u = (uintptr_t)x; *(int32_t*)u = 1;",
        "int32_t* q = ((quarter*)x)[0]; q[1] = 2;",
        "int32_t* q[2]; q[0] = (int32_t*)x; *q[0] = 1;",
        "int32_t* q = &((int32_t*)x)[3]; q[0] = 1;",
        "int32_t* q = (1 ? (quarter*)0 : (quarter*)x)[0]; q[1] = 2;",
        "memset(&((int32_t*)x)[3], 0, 4);",
        "int32_t* q = &*(int32_t*)x; q[1] = 1;",
        "int32_t* q = &((struct s*)x)->n; *q = 1;",
    ],
)
def test_writes(body: str) -> None:
    assert of(body) == ({0}, set(), set())


@pytest.mark.parametrize(
    ("body", "before", "lasting"),
    [
        ("saved = x;", "static void* saved;", "saved"),
        ("saved[1] = x;", "static void* saved[4];", "saved"),
        ("static int32_t* last; last = (int32_t*)x;", "", "last"),
        ("((void**)y)[0] = x;", "", "memory"),
        ("int32_t** q[2]; q[0] = (int32_t**)y; q[0][1] = (int32_t*)x;", "", "memory"),
        ("void* w = TVMBackendAllocWorkspace(1, 0, 16, 0, 32); ((void**)w)[0] = x;", "", "memory"),
        ("keep((int32_t*)x);", "static int32_t* s; void keep(int32_t* p) { s = p + 1; }", "s"),
        ("f((uintptr_t)x);", "int32_t f(uintptr_t n) { return 0; }", "an address as a number"),
        ("f(1, x);", "int32_t f(int32_t n) { return 0; }", "an address as a number"),
        ("elsewhere((int32_t*)x);", "", "elsewhere()"),
        ("int (*g)(void*); g(x);", "", "g()"),
        ("(*table[0])(x);", "", "a pointer()"),
        ('asm("nop" : : "r"(x));', "", UNKNOWN),
        ("__label__ l; int32_t n = ({ x; 1; });", "", UNKNOWN),
    ],
)
def test_keeps(body: str, before: str, lasting: str) -> None:
    _, kept, found = of(body, before)
    assert kept == {0}
    assert lasting in found


def test_what_is_handed_to_functions_that_may_write() -> None:
    helper = "static void helper(int8_t* p, int8_t* q) { arm_softmax_s8(p, 1, 2); q[0] = 1; }"
    assert effects("helper((int8_t*)y, (int8_t*)x);", helper).handed == {1}
    assert effects("struct s t; t.buf = x; arm_convolve_s8(&t, &((int8_t*)y)[4]);").handed == {0, 1}
    assert effects("float f = expf(((float*)x)[0]);").handed == frozenset()


def test_what_a_function_calls() -> None:
    again = "void again(int32_t* p, int32_t n) { p[0] = n; if (n) { again(p, n - 1); } }"
    assert of("again((int32_t*)x, 3);", again) == ({0}, {0}, {"again"})
    write = "static int32_t* next(int32_t* p) { *p = 1; return p + 1; }"
    assert of("int32_t* q = next((int32_t*)y); *q = 3;", write) == ({1}, set(), set())
    assert of("int32_t n = next((int32_t*)y);", write.replace("int32_t* next", "int32_t next")) == (
        {1},
        set(),
        set(),
    )


def test_state_without_addresses() -> None:
    assert of("n = n + 1;", "static int32_t n;") == (set(), set(), {"n"})
    assert of("n = n + 1;", "extern int32_t n;") == (set(), set(), {"n"})
    assert (
        of("int32_t m = n[1] + p[0] + q;", "const int32_t n[2]; int32_t* const p; float f(int);") == NOTHING
    )
    assert of("int32_t m = p[0];", "static const int32_t* p;") == (set(), set(), {"p"})
    assert of("static int32_t n; n += 1;") == (set(), set(), {"n"})
    assert of("static const int32_t n[1] = {3};") == NOTHING
    count = "static int32_t n; int32_t count(void) { return n++; }"
    assert of("int32_t m = count();", count) == (set(), set(), {"n"})
    assert of("int32_t (*f)(void) = count;", count) == (set(), set(), {"n"})


def test_what_is_not_certain() -> None:
    found = effects("", doubt="it is another text")
    assert (found.kept, found.lasting) == ({0, 1}, {UNKNOWN})
    assert of("typedef struct s half; half* h = (half*)x;")[1] == {0, 1}
    assert of("void* z = (((TVMValue*)args)[0].v_handle);")[2] == {UNKNOWN}


def test_a_name_means_the_function_of_its_own_source() -> None:
    own = scan_source("static int f(int* p) { return *p; }\nint g(int* p) { return f(p); }\n", "a.c")
    other = scan_source(
        "static int* s;\nint f(int* p) { s = p; return 0; }\nint h(int* p) { return f(p); }\n", "b.c"
    )
    code = EffectsOfCode([own, other])
    kept = {name: code.of(found).kept for name in "gh" if (found := code.resolve("", name)) is not None}
    assert kept == {"g": frozenset(), "h": {0}}
    assert code.resolve("a.c", "none") is None


@pytest.mark.parametrize(
    ("typedef", "is_clear"),
    [
        ("typedef int32_t half[4];", False),
        ("typedef struct { int a; } int8_t;", False),
        ("typedef int32_t (*half)(int32_t);", False),
        ("typedef uint16_t half;", True),
        ("typedef int32_t (*call)(int32_t);", True),
        ("typedef int32_t quarter[4];", True),
    ],
)
def test_types_of_numbers_that_are_something_else(typedef: str, is_clear: bool) -> None:
    assert (scan_source(typedef, "k.c").unclear == "") is is_clear
