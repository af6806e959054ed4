# SPDX-License-Identifier: Apache-2.0
"""How much of its arguments a kernel touches: exact where it is certain, silent where it is not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlf_sdk.analysis.c.extents import KernelExtents, kernel_extents
from mlf_sdk.analysis.c.source import scan_source

PACKED = "int32_t k(void* args, int32_t* arg_type_ids, int32_t num_args, void* v, int32_t* c, void* r)"


def extents(body: str, head: str = "int32_t k(void* arg0, void* arg1)", before: str = "") -> KernelExtents:
    names = "void* x = arg0;\nvoid* y = arg1;\n" if head.startswith("int32_t k(void* arg0") else ""
    found = scan_source(f"{before}\n{head} {{\n{names}{body}\nreturn 0;\n}}\n", "k.c").functions
    return kernel_extents(found[-1])


def reach(body: str) -> tuple[int, int | None]:
    """The extents of the argument ``x``, which ``body`` is an index of."""
    found = extents(body)
    assert not found.reason
    return found.arguments[0].at_least, found.arguments[0].at_most


def loop(index: str, bound: int = 12, more: str = "") -> str:
    return f"for (int32_t i = 0; i < {bound}; ++i) {{ {more} ((float*)y)[(i)] = ((float*)x)[{index}]; }}"


def test_a_copy() -> None:
    found = extents(loop("(i)"))
    source, target = found.arguments
    assert (source.element_type, source.at_least, source.at_most) == ("float", 12, 12)
    assert (target.at_least, target.at_most) == (12, 12)


@pytest.mark.parametrize(
    ("index", "least", "most"),
    [
        ("((i * 3) + 2)", 36, 36),
        ("(11 - i)", 12, 12),
        ("((i / 4) * 100 + (i % 4))", 204, 204),
        ("((i >> 1) + ((i & 1) * 50))", 56, 56),
        ("((i % 5) * 10)", 11, 41),  # i = 11 gives 10; that 40 is reached is not seen
        ("(i << 2)", 45, 45),
        ("(i & 3)", 4, 4),
        ("(i & 15)", 12, 12),
        ("((12 < i) ? n : i)", 12, 12),  # it never is
        ("(i ^ 1)", 11, 16),
        ("(i - 5)", 7, None),  # below zero
        ("(i * n)", 0, None),
        ("((int32_t)i)", 12, 12),
        ("((uint8_t)i)", 0, None),
        ("((i < 6) ? i : (i - 6))", 6, 6),
        ("((3 < i) ? 2 : (i + 7))", 8, 11),
        ("(i * 1000000000)", 1, None),
        ("(-i + 11)", 12, 12),
        ("(((i - 5) % 3) + 4)", 5, 7),
        ("(i % 0)", 0, None),
        ("((i - 20) & 3)", 0, None),
        ("((i < 3) ? i : n)", 1, None),
        ("(i / n)", 0, None),
        ("(n ? i : 3)", 0, 12),
        ("(0x10 + i)", 28, 28),
        ("(((float*)x)[(i)])", 12, None),
    ],
)
def test_indices(index: str, least: int, most: int | None) -> None:
    assert reach(loop(index)) == (least, most)


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("((2 <= i) && (i < 10)) ? ((float*)x)[(i - 2)] : 0.0f", 8, 8),
        ("(4 <= i) ? 1.0f : ((float*)x)[(i)]", 4, 4),
        ("!(i < 4) ? 1.0f : ((float*)x)[(i)]", 4, 4),
        ("(i == 7) ? ((float*)x)[(i)] : 0.0f", 8, 8),
        ("((i < 3) || (9 <= i)) ? ((float*)x)[(i)] : 0.0f", 12, 12),
        ("((1 <= (i % 5)) && ((i % 5) < 4)) ? ((float*)x)[((i % 5) - 1)] : 0.0f", 1, 3),
        ("(i > 90) ? ((float*)x)[(500)] : 0.0f", 0, 0),
        ("f(z) ? ((float*)x)[(i)] : 0.0f", 0, 12),
    ],
)
def test_conditions_narrow_and_make_uncertain(value: str, least: int, most: int) -> None:
    body = f"for (int32_t i = 0; i < 12; ++i) {{ ((float*)y)[(i)] = ({value}); }}"
    assert reach(body) == (least, most)


def test_if_and_else() -> None:
    body = (
        "for (int32_t i = 0; i < 12; ++i) { if (i < 5) { ((float*)y)[(i)] = ((float*)x)[(i)]; } "
        "else if (i < 7) { ((float*)y)[(i)] = 0.0f; } else { ((float*)y)[(i)] = 1.0f; } }"
    )
    found = extents(body)
    assert (found.arguments[0].at_least, found.arguments[0].at_most) == (5, 5)
    assert (found.arguments[1].at_least, found.arguments[1].at_most) == (12, 12)


def test_numbers_that_are_declared() -> None:
    assert reach(loop("(c + 1)", more="int32_t c = (i * 2);")) == (24, 24)
    assert reach(loop("(c)", more="int32_t b = (i * 2); int32_t c = (b - i);")) == (12, None)
    assert reach(loop("(c)", more="int8_t c = (i * 2);")) == (0, None)
    assert reach(loop("(c)", more="int32_t c = f(i);")) == (0, None)


def test_loops() -> None:
    assert reach("for (int32_t i = 2; i < 2; ++i) { ((float*)y)[(0)] = ((float*)x)[(i)]; }") == (0, 0)
    nested = "for (int32_t i = 0; i < 3; ++i) { for (int32_t j = i; j < 5; ++j) { ((float*)y)[(0)] = ((float*)x)[(i * 5) + j]; } }"
    assert reach(nested) == (0, 15)


def test_a_compound_assignment_reads_and_writes() -> None:
    found = extents("for (int32_t i = 0; i < 4; ++i) { ((float*)y)[(i)] += ((float*)x)[(i)]; }")
    assert found.arguments[1].at_least == 4


def test_elements_before_the_first() -> None:
    found = extents("for (int32_t i = 0; i < 4; ++i) { ((float*)y)[(i - 3)] = ((float*)x)[(i)]; }")
    assert [argument.before for argument in found.arguments] == [0, 3]
    assert (found.arguments[1].at_least, found.arguments[1].at_most) == (1, None)


def test_early_returns() -> None:
    ends = "for (int32_t i = 0; i < 4; ++i) { if (i == 2) { return 0; } ((float*)y)[(i)] = 1.0f; }"
    assert extents(ends).reason == "the kernel may return early"
    assert extents(ends.replace("return 0", "return -1")).arguments[1].at_least == 4


def test_the_packed_interface_and_typed_pointers() -> None:
    body = (
        "void* arg0 = (((TVMValue*)args)[0].v_handle);\nint32_t arg0_code = ((int32_t*)arg_type_ids)[(0)];\n"
        "void* arg1 = (((TVMValue*)args)[1].v_handle);\nvoid* x = (((DLTensor*)arg0)[0].data);\n"
        "void* arg0_shape = (((DLTensor*)arg0)[0].shape);\nvoid* y = (((DLTensor*)arg1)[0].data);\n"
        "int32_t dev_id = (((DLTensor*)arg0)[0].device.device_id);\nif (!(arg0_strides == NULL)) {\n}\n"
        "void* w = TVMBackendAllocWorkspace(1, dev_id, (uint64_t)64, 2, 32);\n"
        "for (int32_t i = 0; i < 16; ++i) { ((float*)w)[(i)] = ((int8_t*)x)[(i)]; ((int8_t*)y)[(0)] = 1; }"
    )
    found = extents(body, PACKED)
    assert not found.reason
    assert [(a.element_type, a.at_most) for a in found.arguments] == [("int8_t", 16), ("int8_t", 1)]
    typed = extents(
        "for (int32_t i = 0; i < 16; ++i) { y[i] = x[i]; }", "int32_t k(const int8_t* x, int16_t* y)"
    )
    assert [(a.element_type, a.at_most) for a in typed.arguments] == [("int8_t", 16), ("int16_t", 16)]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("f(x);", "used as a whole"),
        ("f(arg0);", "used as a whole"),
        ("float* p = ((float*)x) + 4;", "used as a whole"),
        ("((float*)y)[(0)] = x[0];", "used as a whole"),
        ("((float*)y)[(0)] = 1.0f; ((int8_t*)y)[(0)] = 1;", "two types"),
        ("while (1) { ((float*)y)[(0)] = 1.0f; }", "statement is not understood"),
        ("for (int32_t i = 9; i > 0; --i) { }", "count up"),
        ("for (i = 0; i < 9; ++i) { }", "count up"),
        ("for (float i = 0; i < 9; ++i) { }", "count up"),
        ("for (int32_t i = 0; i < 9; i += 2) { }", "count up"),
        ("x[0] ?: 1;", "expression is not understood"),
        ("for (int32_t i = 0; i < n; ++i) { }", "bounds of the loop"),
        ("for (int32_t i = 0; i < 9; ++i) { i = 3; }", "changes"),
        ("int32_t c = 3; c = 9; ((float*)y)[(c)] = 1.0f;", "something else than an element"),
        ("for (int32_t i = 0; i < 9; ++i) { for (int32_t i = 0; i < 3; ++i) { } }", "declared again"),
        ("float y[3]; y[0] = 1.0f;", "declared again"),
        ("y++;", "used as a whole"),
        ("*y = 3;", "something else than an element"),
        ("((float*)y)[(0)] = " + "(" * 120 + "1" + ")" * 120 + ";", "expression is not understood"),
        ("((float*)y)[(0)] = " + "1 + " * 200 + "1;", "expression is not understood"),
        ("{" * 70 + "}" * 70, "statement is not understood"),
        ("#if A\n((float*)y)[(0)] = 1.0f;\n#endif", "preprocessor"),
        ("void* t[2] = {x, 0};", "used as a whole"),
        ("int ;", "statement is not understood"),
        ("float (*a)[3];", "statement is not understood"),
        ("x[(" + "- " * 100 + "1)];", "expression is not understood"),
        ("((float*)y)[(0)] = (int + 3);", "not C"),
        ("f(1 2);", "not C"),
        ("((float*)y)[(0)] = ({ 1; });", "not understood"),
        ("float* p = &((float*)y)[(0)];", "address"),
        ("int32_t t[((float*)x)];", "used as a whole"),
        ("x.z;", "used as a whole"),
    ],
)
def test_what_has_no_answer(body: str, reason: str) -> None:
    found = extents(body)
    assert reason in found.reason
    assert found.arguments == ()


def test_local_numbers_do_not_grow_without_bound() -> None:
    doubling = "int32_t a0 = i;" + "".join(f"int32_t a{n} = (a{n - 1} + a{n - 1});" for n in range(1, 60))
    assert reach(loop("(a59)", more=doubling)) == (0, None)


def test_code_that_does_not_matter() -> None:
    body = '#pragma GCC unroll 4\nfloat t[2] = {1, 2}; f("a", q.z); ' + loop("(i)")
    dead = "for (int32_t i = 0; i < 4; ++i) { if (i > 9) { ((float*)x)[(99)] = 1.0f; } if (i < 9) { } else { ((float*)x)[(99)] = 1.0f; } }"
    assert reach(body + dead) == (12, 12)


def test_statements_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlf_sdk.analysis.c.extents.MAX_STATEMENTS", 5)
    assert "too many statements" in extents("f(); " * 9).reason


def test_macros_have_no_answer() -> None:
    body = "((float*)y)[(0)] = ((float*)x)[(N)];"
    assert "macros" in extents(body, before="#define N 4").reason


def test_arguments_that_are_missing_or_doubled() -> None:
    one = "void* a = (((TVMValue*)args)[1].v_handle);"
    assert "not every argument" in extents(one, PACKED).reason
    assert "twice" in extents(f"{one}\n{one.replace(' a ', ' b ')}", PACKED).reason
    assert "two things" in extents(f"{one}\n{one}", PACKED).reason
    late = "void* a = (((TVMValue*)args)[0].v_handle);\nvoid* x;\nx = (((DLTensor*)a)[0].data);"
    assert "late" in extents(late, PACKED).reason
    assert "no pointer" in extents("", "int32_t k(float** x)").reason
    assert "two things" in extents("", "int32_t k(float* x, float* x)").reason


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=3),
    st.sampled_from(["{}", "({} / 3)", "({} % 3)", "({} & 3)", "({} >> 1)", "(({} < 4) ? {} : 1)"]),
)
@settings(max_examples=150)
def test_never_too_narrow_and_never_too_sure(loops: list[tuple[int, int]], form: str) -> None:
    terms = [f"(i{n} * {factor})" for n, (_, factor) in enumerate(loops)]
    index = form.replace("{}", f"({' + '.join(terms)})")
    body = f"((float*)y)[(0)] = ((float*)x)[{index}];"
    for n, (count, _) in enumerate(loops):
        body = f"for (int32_t i{n} = 0; i{n} < {count}; ++i{n}) {{ {body} }}"
    least, most = reach(body)
    python = index.replace("/", "//")
    if "?" in python:
        value = f"({' + '.join(terms)})"
        python = f"({value} if {value} < 4 else 1)"
    points = [{}]
    for n, (count, _) in enumerate(loops):
        points = [{**point, f"i{n}": i} for point in points for i in range(count)]
    reached = {eval(python, {}, point) for point in points}
    assert most is not None
    assert least <= max(reached) + 1 <= most


@given(st.text(alphabet="xyi(){}[]<=;+*0123 ?:&|,forint_t", max_size=60))
@settings(max_examples=300)
def test_any_body_has_an_answer_or_a_reason(body: str) -> None:
    found = scan_source(f"int32_t k(float* x, float* y) {{ {body} }}", "k.c").functions
    for function in found:
        result = kernel_extents(function)
        assert bool(result.reason) != bool(result.arguments) or not function.parameters


def test_statements_that_are_cut() -> None:
    assert extents("if x { }").reason == "the body has something that is not C"
    (found,) = scan_source("int32_t k(void* x) { int32_t n = 1 }", "k.c").functions
    assert kernel_extents(found).reason == "the body has something that is not C"


def test_loops_and_conditions_without_braces() -> None:
    assert reach("for (int32_t i = 0; i < 9; ++i) if (i < 5) ((float*)y)[(i)] = ((float*)x)[(i)];") == (5, 5)


def test_a_statement_that_does_nothing() -> None:
    assert reach("; " + loop("(i)") + " ;") == (12, 12)


def test_a_variable_without_a_value() -> None:
    """What it holds is not known, and so is what it indexes."""
    assert reach("int32_t k; " + loop("(i)")) == (12, 12)
    assert reach("int32_t k; " + loop("(k)"))[1] is None
