# SPDX-License-Identifier: Apache-2.0
"""Liveness inside a kernel and peaks of the workspace stack: each rule, and the real archives."""

import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlf_sdk.analysis.c.kernelbody import written_arguments
from mlf_sdk.analysis.c.liveness import KernelLiveness, analyse_kernel
from mlf_sdk.analysis.c.source import scan_source
from mlf_sdk.analysis.c.stackpeak import StackPeak, allocating_functions, stack_peak
from mlf_sdk.errors import InputError

SHARED = Path(__file__).resolve().parents[3] / "shared" / "mlf"
HEAD = (
    "int32_t k(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, "
    "int32_t* out_ret_tcode, void* resource_handle) {\n"
)


def unpack(count: int) -> str:
    """What TVM prints at the beginning of a kernel with arguments p0, p1, ..."""
    lines = []
    for i in range(count):
        lines += [
            f"void* arg_p{i} = (((TVMValue*)args)[{i}].v_handle);",
            f"int32_t c{i} = arg_type_ids[{i}];",
        ]
    for i in range(count):
        lines += [
            f"void* p{i} = (((DLTensor*)arg_p{i})[0].data);",
            f"void* arg_p{i}_shape = (((DLTensor*)arg_p{i})[0].shape);",
            f"void* arg_p{i}_strides = (((DLTensor*)arg_p{i})[0].strides);",
        ]
    lines.append("int32_t dev_id = (((DLTensor*)arg_p0)[0].device.device_id);")
    lines += [f"if (!(arg_p{i}_strides == NULL)) {{\n}}" for i in range(count)]
    return "\n".join(lines) + "\n"


def kernel(body: str, arguments: int = 3) -> str:
    return HEAD + unpack(arguments) + body + "\nreturn 0;\n}\n"


def alloc(name: str, size: object = "(uint64_t)64") -> str:
    return (
        f"void* {name} = TVMBackendAllocWorkspace(1, dev_id, {size}, 0, 16);\n"
        f"if ({name} == NULL) {{\n  return -1;\n}}\n"
    )


def free(name: str) -> str:
    return f"if (TVMBackendFreeWorkspace(1, dev_id, {name}) != 0) {{\n  return -1;\n}}\n"


def analyse(text: str, **options):
    (function,) = [f for f in scan_source(text, "lib.c").functions if f.name == "k"]
    return analyse_kernel(function, **options)


def kernel_liveness(scans, name: str) -> KernelLiveness:
    """Analyse the kernel ``name`` of an archive, all of whose sources and headers are in ``scans``."""
    (found,) = [function for scan in scans for function in scan.functions if function.name == name]
    macros = {macro for scan in scans if scan.member.endswith(".h") for macro in scan.macros}
    return analyse_kernel(found, allocating=allocating_functions(scans), macros=macros)


def span(thing) -> tuple[int | None, int | None]:
    return thing.first, thing.last


COPY = "for (int32_t i = 0; i < 4; ++i) {{ ((float*){0})[i] = ((float*){1})[(i + 1)]; }}\n"


class TestPlainKernels:
    def test_phases_of_arguments_and_a_workspace(self):
        found = analyse(
            kernel(
                alloc("X")
                + COPY.format("X", "p0")
                + COPY.format("p2", "X")
                + COPY.format("p2", "p1")
                + free("X")
            )
        )
        assert (found.exact, found.workspace_known, found.phases, found.reason) == (True, True, 3, "")
        assert [span(a) for a in found.arguments] == [(0, 0), (2, 2), (1, 2)]
        assert [(s.size_bytes, *span(s)) for s in found.slots] == [(64, 0, 1)]
        assert all(a.is_exact for a in (*found.arguments, *found.slots))

    def test_statements_that_touch_nothing_are_no_phases(self):
        found = analyse(
            kernel("float t[4];\nt[0] = 1.0f;\n" + COPY.format("p1", "p0") + "int x = 3;\n" + ";\n")
        )
        assert found.phases == 1

    def test_an_argument_that_is_never_accessed(self):
        found = analyse(kernel(COPY.format("p2", "p0")))
        assert span(found.argument(1)) == (None, None)
        assert span(found.argument(9)) == (None, None)  # never even unpacked

    def test_a_kernel_that_touches_nothing_has_one_phase(self):
        found = analyse(kernel(""))
        assert found.phases == 1
        assert [span(a) for a in found.arguments] == [(None, None)] * 3

    def test_the_spelling_of_tvm_0_8(self):
        text = kernel(COPY.format("p1", "p0")).replace("[i]", "[(i)]")
        text = text.replace("int32_t* arg_type_ids", "void* arg_type_ids").replace(
            "int32_t* out_r", "void* out_r"
        )
        text = text.replace("arg_type_ids[0]", "((int32_t*)arg_type_ids)[(0)]")
        found = analyse(text)
        assert found.exact
        assert [span(a) for a in found.arguments] == [(0, 0), (0, 0), (None, None)]

    def test_unpacked_parameters(self):
        text = (
            "int32_t k(const int8_t* p0, int16_t* T, void* v) {"
            "for (int i = 0; i < 2; ++i) { T[i] = p0[i]; }"
            "T[0] = ((float*)v)[1]; return 0; }"
        )
        found = analyse(text)
        assert found.exact
        assert [(a.name, *span(a)) for a in found.arguments] == [("p0", 0, 0), ("T", 0, 1), ("v", 1, 1)]

    def test_if_with_else_is_one_phase(self):
        text = "if (((float*)p0)[0] > 1.0f) { ((float*)p1)[0] = 1.0f; } else { ((float*)p2)[0] = 1.0f; }\n"
        found = analyse(kernel(text + "if (1) ((float*)p1)[1] = 2; else ((float*)p1)[1] = 3;"))
        assert found.phases == 2
        assert [span(a) for a in found.arguments] == [(0, 0), (0, 1), (0, 0)]

    def test_loops_without_braces(self):
        found = analyse(kernel("for (int i = 0; i < 2; ++i) ((float*)p0)[i] = 0;\n((float*)p1)[0] = 1;"))
        assert [span(a) for a in found.arguments][:2] == [(0, 0), (1, 1)]

    def test_one_name_for_one_argument_twice(self):
        text = kernel(COPY.format("q", "p1") + COPY.format("p1", "p0"))
        text = text.replace("void* p1 =", "void* q = (((DLTensor*)arg_p0)[0].data);\nvoid* p1 =")
        found = analyse(text)
        assert span(found.argument(0)) == (0, 1)


def test_an_address_as_the_first_word():
    assert not analyse("int32_t k(float* p0) { & p0[1]; p0[0] = 1; }").argument(0).is_exact


def test_names_that_stand_for_two_things():
    text = kernel(COPY.format("p1", "p0"))
    found = analyse(text.replace("void* p1 =", "void* arg_p0 ="))
    assert (found.exact, found.reason) == (False, "one name stands for two things")


def test_a_body_without_a_last_semicolon():
    found = analyse("int32_t k(float* p0, float* p1) { p1[0] = 1; p0[0] }")
    assert (found.exact, found.reason) == (False, "the body has something that is not C")
    assert [span(a) for a in found.arguments] == [(0, 0), (0, 0)]


# The same for a parameter that is a typed pointer.
@pytest.mark.parametrize(
    "use",
    [
        "float* q = &p0[1];",
        "float* q = &(p0[1]);",
        "float p0[2];",
        "float *p0[2];",
        "float* q = p0 + 1;",
        "float x = *p0;",
        "return & p0[1];",
        "& p0[1];",
        "float x = p0[1].x;",
        "sizeof p0[1];",
        "helper(p0);",
        "float x = p0[1][2];",
        "float x = p0;",
    ],
)
def test_what_of_a_parameter_goes_out_of_sight_stays_alive(use):
    found = analyse("int32_t k(float* p0, float* p1) { p1[0] = 1; " + use + " p1[1] = 2; return 0; }")
    assert not found.argument(0).is_exact
    assert span(found.argument(0)) == (0, found.phases - 1)


@pytest.mark.parametrize(
    "use",
    [
        "& p0[1]",
        "x = p0[0];",
        "x = (p0)[1];",
        "x += y * p0[0];",
        "if (p0[0] > 1) { }",
        "x = (int16_t)p0[1];",
        "x = f(p0[1], p0[2]);",
        "if (1) x = 1; else p0[0] = 3;",
        "p0[0] = p0[1] - (p0[2]);",
    ],
)
def test_what_of_a_parameter_is_only_read_in_place(use):
    found = analyse(
        "int32_t k(int8_t* p0, float* p1) { p1[0] = 1; " + use.replace("& p0", "y & p0") + "; p1[1] = 2; }"
    )
    assert found.argument(0).is_exact
    assert span(found.argument(0)) == (1, 1)


# Every way to use the name of some data but to index it: the data must stay alive throughout.
ESCAPES = [
    "helper(p0);",
    "memcpy(p1, p0, 4);",
    "void* q = p0;",
    "float* q = (float*)p0;",
    "float* q = ((float*)p0);",
    "float* q = (float*)p0 + 1;",
    "float* q = ((float*)p0 + 1);",
    "float x = ((float*)p0 + 1)[0];",
    "float x = *((float*)p0);",
    "float x = *(float*)p0;",
    "float* q = &((float*)p0)[1];",
    "float* q = (&(((float*)p0)[1]));",
    "float* q = (float*)(& ( ((float*)p0)[1] ) );",
    "void* q = (cond) & ((int32_t*)p0)[1];",
    "float x = ((float**)p0)[0][1];",
    "float x = ((row_t*)p0)[0];",
    "float x = ((row_t*)p0)[0][1];",
    "float x = ((struct s*)p0)[0].x;",
    "float x = ((struct s*)p0)->x;",
    "float x = ((float*)p0)[0](1);",
    "float x = 1[(float*)p0];",
    "float x = (1 ? (float*)p0 : q)[0];",
    "void** q = &p0;",
    "p0 = p1;",
    "++p0;",
    "float p0[4];",
    "float* p0 = 0;",
    "float *p0[3];",
    "if (p0 == NULL) { }",
    "{ void* q = (((DLTensor*)arg_p0)[0].data); }",
    "void** q = &(((DLTensor*)arg_p0)[0].data);",
    "void* q = &((DLTensor*)arg_p0)[0];",
    "DLTensor* q = (DLTensor*)arg_p0;",
    "int n = ((DLTensor*)arg_p0 + 1)[0].ndim;",
    "int n = ((DLTensor*)arg_p0)[1].ndim;",
    "int n = ((DLTensor*)arg_p0)[0];",
    "void* q = &((DLTensor*)arg_p0)[0].shape;",
    "void* q = (&(((DLTensor*)arg_p0)[0].shape));",
    "void* q = ((DLTensor*)arg_p0)->shape;",
    "helper(arg_p0);",
    "arg_p0 = arg_p1;",
    "return (int32_t)p0;",
    "x = ((int (*)(int))p0)(1);",
    "void* q = (((DLTensor*)arg_p0)[1].data);",
    "float t[2] = {[0] = ((float*)p0)[0]};",
    "int32_t* q = (x_t) & ((int32_t*)p0)[0];",
    "int32_t* q = __extension__ & ((int32_t*)p0)[0];",
]


@pytest.mark.parametrize("use", ESCAPES)
@pytest.mark.parametrize("where", ["start", "middle", "nested"])
def test_what_goes_out_of_sight_stays_alive(use, where):
    other = COPY.format("p2", "p1")
    body = {
        "start": use + "\n" + other + other,
        "middle": other + use + "\n" + other,
        "nested": other + "for (;;) { if (1) { " + use + " } }\n" + other,
    }[where]
    found = analyse(kernel(body))
    argument = found.argument(0)
    assert not argument.is_exact
    assert span(argument) == (0, found.phases - 1)


@pytest.mark.parametrize(
    "use",
    [
        "float x = -((float*)p0)[0] * ((float*)p0)[1];",
        "int x = (3 & ((int32_t*)p0)[1]);",
        "int x = y & ((int32_t*)p0)[1];",
        "int x = t[1] & ((int32_t*)p0)[1];",
        "int x = y && ((int32_t*)p0)[1];",
        "float x = expf(((const float*)p0)[0]);",
        "float x = (((float*)p0)[(0)]);",
        "unsigned x = ((unsigned long*)p0)[((uint8_t*)p0)[2]];",
        "return ((int32_t*)p0)[0];",
        "int x = c ? ((int8_t*)p0)[0] : ((int8_t*)p0)[1];",
    ],
)
def test_what_is_only_read_in_place_is_exact(use):
    found = analyse(kernel(COPY.format("p2", "p1") + use + COPY.format("p2", "p1")))
    assert found.argument(0).is_exact
    assert span(found.argument(0)) == (1, 1)


@pytest.mark.parametrize(
    "use",
    [
        "again: ((float*)p0)[0] = 1; goto again;",
        "do { ((float*)p0)[0] = 1; } while (1);",
        "switch (x) { case 1: ((float*)p0)[0] = 1; }",
        'asm("nop");',
        "setjmp(buffer);",
        "float f(int i) { return ((float*)p0)[i]; }",
        "float x = ((struct s){1}).a;",
        "float x = ({ ((float*)p0)[0]; });",
        "typedef float* int8_t;",
        "__attribute__((cleanup(f))) int x;",
        "float* restrict q;",
        "int* const q = 0;",
        "TVMFuncCall(f);",
        "TVMBackendParallelLaunch(f, 0, 0);",
        "helper(args);",
        "void* z = ((TVMValue*)args)[x].v_handle;",
        '\n#include "rest.c"\n',
        "x = @;",
        "x = (1];",
    ],
)
def test_what_breaks_the_order_takes_the_kernel_as_a_whole(use):
    found = analyse(kernel(COPY.format("p1", "p0") + use + COPY.format("p2", "p1")))
    assert not found.exact
    assert found.reason
    assert found.phases == 1
    assert [span(found.argument(i)) for i in range(3)] == [(0, 0)] * 3
    assert not found.argument(0).is_exact


def test_a_macro_of_the_source_or_of_a_header_takes_the_kernel_as_a_whole():
    text = kernel(COPY.format("p1", "p0"))
    assert analyse(text, macros={"unused"}).exact
    assert not analyse(text, macros={"p1"}).exact
    assert not analyse("#define p1 q\n" + text).exact
    assert not analyse("#define for while\n" + text).exact
    assert not analyse(text + "#define num_args q\n").exact


@pytest.mark.parametrize(
    "parameters",
    [
        "float* restrict p0, float* p1",
        "float* __restrict__ p0",
        "struct s* p0",
        "float* p0, int32_t n",
        "float** p0",
        "void* self, void* args, int32_t num_args, void* result",
        "float*, float* p1",
        "float* p0, float* p0",
    ],
)
def test_parameters_that_are_no_plain_data_take_the_kernel_as_a_whole(parameters):
    found = analyse(f"int32_t k({parameters}) {{ return 0; }}")
    assert not found.exact
    assert found.workspace_known
    assert span(found.argument(0)) == (0, 0)


def test_restrict_is_named_as_the_reason():
    assert analyse("int32_t k(float* restrict p0) { return 0; }").reason == "a parameter is restrict"


def test_a_source_that_is_not_c_takes_the_kernel_as_a_whole():
    (function,) = scan_source(kernel(COPY.format("p1", "p0")), "lib.cc").functions
    assert not analyse_kernel(function).exact


class TestWorkspaces:
    def test_slots_by_depth_of_nesting(self):
        inner = alloc("Y", "(uint64_t)100") + COPY.format("Y", "X") + free("Y")
        other = alloc("Z", "(uint64_t)300") + COPY.format("p1", "Z") + free("Z")
        found = analyse(kernel(alloc("X") + inner + COPY.format("X", "p0") + other + free("X")))
        assert [(s.size_bytes, *span(s)) for s in found.slots] == [(64, 0, 1), (300, 0, 2)]
        assert span(found.argument(0)) == (1, 1)

    def test_a_request_in_a_loop(self):
        loop = "for (int32_t i = 0; i < 4; ++i) {\n" + alloc("Y", 8192) + "((int*)Y)[i] = ((int*)X)[i];\n"
        found = analyse(kernel(alloc("X") + COPY.format("X", "p0") + loop + free("Y") + "}\n" + free("X")))
        assert found.exact
        assert [(s.size_bytes, *span(s)) for s in found.slots] == [(64, 0, 1), (8192, 1, 1)]

    def test_allocated_is_not_accessed(self):
        found = analyse(kernel(alloc("X") + alloc("Y") + COPY.format("X", "p0") + free("Y") + free("X")))
        assert [span(s) for s in found.slots] == [(0, 0), (None, None)]

    def test_an_escaping_workspace_lives_throughout(self):
        body = alloc("X") + COPY.format("p1", "p0") + "helper(X);\n" + COPY.format("p2", "p1") + free("X")
        found = analyse(kernel(body))
        assert [(span(s), s.is_exact) for s in found.slots] == [((0, 2), False)]

    def test_sizes_survive_when_the_order_does_not(self):
        found = analyse(kernel(alloc("X") + COPY.format("X", "p0") + "switch (1) { }\n" + free("X")))
        assert not found.exact
        assert found.workspace_known
        assert [(s.size_bytes, *span(s), s.is_exact) for s in found.slots] == [(64, 0, 0, False)]

    @pytest.mark.parametrize(
        ("size", "bytes_"),
        [
            ("(uint64_t)36992", 36992),
            ("36992", 36992),
            ("((uint64_t)(36992))", 36992),
            ("(int64_t)0x10UL", 16),
            ("(size_t)4294967295", 4294967295),
            ("4294967295u", 4294967295),
            ("(" * 40 + "1" + ")" * 40, 1),
            ("0", 0),
        ],
    )
    def test_literal_sizes(self, size, bytes_):
        found = analyse(kernel(alloc("X", size) + free("X")))
        assert [s.size_bytes for s in found.slots] == [bytes_]

    @pytest.mark.parametrize(
        "size",
        [
            "n",
            "(uint64_t)n",
            "16 * 4",
            "(uint64_t)4294967296",
            "010",
            "-1",
            "(int8_t)300",
            "sizeof(int)",
            "1.5",
            "4294967296u",
            '"1"',
        ],
    )
    def test_sizes_that_are_not_literal_are_unknown(self, size):
        found = analyse(kernel(alloc("X", size) + COPY.format("X", "p0") + free("X")))
        assert (found.exact, found.workspace_known, found.slots) == (False, False, ())
        assert "X" in found.reason

    UNKNOWN = (
        alloc("X"),  # never freed
        free("X"),
        alloc("X") + alloc("Y") + free("X") + free("Y"),
        alloc("X") + free("X") + free("X"),
        "if (1) {\n" + alloc("X") + free("X") + "}\n",
        "if (0) { } else {\n" + alloc("X") + free("X") + "}\n",
        "switch (1) {\n case 1: {" + alloc("X") + free("X") + "} }\n",
        "if (1) for (;;) {\n" + alloc("X") + free("X") + "}\n",
        "for (;;) {\n" + alloc("X") + "}\n" + free("X"),
        alloc("X") + "for (;;) {\n" + free("X") + "}\n",
        alloc("X") + "if (1) {\n" + free("X") + "}\n",
        alloc("X") + "if (1) " + free("X"),
        "for (;;) {\n" + alloc("X") + "if (1) { break; }\n" + free("X") + "}\n",
        "for (;;) {\n" + alloc("X") + "if (1) continue;\n" + free("X") + "}\n",
        "while (1) {\n{" + alloc("X") + free("X") + "}\n if (1) { break; } }\n",
        "for (;;) {\n" + alloc("X") + free("X") + "break; }\n",
        alloc("X") + "if (1) { return 0; }\n" + free("X"),
        alloc("X") + "return x;\n" + free("X"),
        alloc("X") + alloc("X") + free("X") + free("X"),
        alloc("X") + "TVMBackendFreeWorkspace(1, X);\n",
        "again:\n" + alloc("X") + free("X") + "goto again;\n",
        "do {\n" + alloc("X") + free("X") + "} while (1);\n",
        "void* X;\nX = TVMBackendAllocWorkspace(1, 0, 64, 0, 8);\n" + free("X"),
        "float* X = TVMBackendAllocWorkspace(1, 0, 64, 0, 8);\n" + free("X"),
        "helper(TVMBackendAllocWorkspace(1, 0, 64, 0, 8));\n",
        "void* X = TVMBackendAllocWorkspace(1, 0, 64, 0, 8), *Y = 0;\n" + free("X"),
        "void* X = TVMBackendAllocWorkspace(2, 0, 64, 0, 8);\n" + free("X"),
        "void* X = TVMBackendAllocWorkspace(1, 0, 64);\n" + free("X"),
        "void* f = TVMBackendAllocWorkspace;\n",
        alloc("X") + "for (; TVMBackendFreeWorkspace(1, 0, X); ) { }\n",
        alloc("X") + "int r = TVMBackendFreeWorkspace(1, 0, X);\n",
        alloc("X") + "if (TVMBackendFreeWorkspace(1, 0, X) != 0) {\n ((float*)p0)[0] = 1; return -1;\n}\n",
        alloc("X") + "if (TVMBackendFreeWorkspace(1, 0, X) != 0) {\n return -1;\n} else { }\n",
        alloc("X") + "if (TVMBackendFreeWorkspace(1, 0, X) == 0) {\n return -1;\n}\n",
        alloc("X") + "TVMFuncCall(f);\n" + free("X"),
        alloc("X") + "(*pointer)(1);\n" + free("X"),
        alloc("X") + "table[1](1);\n" + free("X"),
        alloc("X") + "s.f(1);\n" + free("X"),
        alloc("X") + "int (*f)(void) = g; f();\n" + free("X"),
        alloc("X") + "resource_handle(1);\n" + free("X"),
        alloc("X") + "k(args, 0, 0, 0, 0, 0);\n" + free("X"),
    )

    @pytest.mark.parametrize("body", UNKNOWN)
    def test_requests_that_are_not_plain_are_unknown(self, body):
        found = analyse(kernel(body))
        assert not found.exact
        assert not found.workspace_known
        assert found.slots == ()
        assert found.reason

    @pytest.mark.parametrize(
        "body",
        [
            "void* X = TVMBackendAllocWorkspace(1, 0, 64, 0, 8);\nTVMBackendFreeWorkspace(1, 0, X);\n",
            "void* X = TVMBackendAllocWorkspace(1, 0, 64, 0, 8);\nif (!X) return -1;\n" + free("X"),
            "{\n" + alloc("X") + free("X") + "}\n",
            "void* X = (TVMBackendAllocWorkspace(1, 0, 64, 0, 8));\n" + free("X"),
            alloc("X") + "if (f(1) != 0 ) return -1;\n" + free("X"),
            "while (1) {\nif (x) { break; }\n}\n" + alloc("X") + free("X"),
            "for (;;) {\n" + alloc("X") + "for (;;) { break; }\n" + free("X") + "}\n",
            alloc("X") + "int a[2] = {1, 2}, b[1][1] = {{1}};\n" + free("X"),
        ],
    )
    def test_other_plain_requests(self, body):
        found = analyse(kernel(body))
        assert (found.exact, [s.size_bytes for s in found.slots]) == (True, [64])

    def test_a_body_that_ends_with_a_workspace(self):
        found = analyse("int32_t k(float* dev_id) {\n" + alloc("X") + "}")
        assert (found.workspace_known, found.reason) == (False, "X is not freed")

    def test_a_helper_that_allocates_makes_the_slots_unknown(self):
        helper = "static int helper(void) {\n" + alloc("W") + free("W") + "return 0; }\n"
        text = "int outer(void) { return helper(); }\n" + helper + kernel("outer();\n")
        scan = scan_source(text, "lib.c")
        assert allocating_functions([scan]) == {"helper", "outer", "k"}
        assert not kernel_liveness([scan], "k").workspace_known
        assert kernel_liveness([scan], "k").reason == "outer allocates workspace too"
        named = scan_source(helper + kernel("x = helper;\n"), "lib.c")
        assert not kernel_liveness([named], "k").workspace_known

    def test_a_macro_that_may_allocate(self):
        text = "#define GET void* X = TVMBackendAllocWorkspace(1, 0, 64, 0, 8)\n" + kernel("GET;\n")
        assert not analyse(text).workspace_known
        hidden = scan_source("#define GET something\n", "net.h")
        assert not kernel_liveness([hidden, scan_source(kernel("GET;\n"), "lib.c")], "k").workspace_known


NAMES = ("p0", "p1", "p2", "X", "Y")
ACCESS = st.sampled_from(["((float*){0})[i] = 1;", "t[((int8_t*){0})[0]] += (1 * ((int8_t*){0})[(i + 1)]);"])
USE = st.tuples(st.sampled_from(NAMES), st.one_of(ACCESS, ACCESS, ACCESS, st.just("helper({0});")))
STATEMENT = st.lists(USE, max_size=3)
WRAPS = st.sampled_from(["{0}", "for (int i = 0; i < 3; ++i) {{ {0} }}", "if (c) {{ {0} }} else {{ }}"])


@given(st.lists(st.tuples(STATEMENT, WRAPS), max_size=8))
@settings(max_examples=200, deadline=None)
def test_spans_are_those_of_the_statements(statements):
    body, first, last, escaped = "", {}, {}, set()
    phase = 0
    for uses, wrap in statements:
        parts = [form.format(name) for name, form in uses]
        # without braces each use is a statement, and a phase, of its own
        groups = [[use] for use in uses] if wrap == "{0}" else [uses]
        body += (wrap.format(" ".join(parts)) if parts else "int n;") + "\n"
        for group in filter(None, groups):
            for name, form in group:
                first.setdefault(name, phase)
                last[name] = phase
                escaped |= {name} if "helper" in form else set()
            phase += 1
    found = analyse(kernel(alloc("X") + alloc("Y", 128) + body + free("Y") + free("X")))
    assert found.exact
    assert found.phases == max(1, phase)
    for name, thing in zip(NAMES, (*found.arguments, *found.slots), strict=True):
        whole = (0, found.phases - 1)
        assert span(thing) == (whole if name in escaped else (first.get(name), last.get(name)))
        assert thing.is_exact is (name not in escaped)


@given(
    st.lists(st.sampled_from([*ESCAPES, alloc("X"), free("X"), "{", "}", "if (1)", "((float*)p0)[0] = 1;"]))
)
@settings(max_examples=200, deadline=None)
def test_any_mixture_gives_an_answer_that_stays_within_its_phases(parts):
    for function in scan_source(kernel("\n".join(parts)), "lib.c").functions:
        found = analyse_kernel(function)
        assert found.phases >= 1
        assert found.exact or found.reason
        for thing in (*found.arguments, *found.slots):
            assert thing.first is None or 0 <= thing.first <= thing.last < found.phases


class TestStackPeak:
    def peak(self, text: str, entry: str = "main_", alignment: int = 16):
        return stack_peak([scan_source(text, "lib.c")], entry, alignment)

    MAIN = (
        "int32_t main_(float* x) {\n"
        + alloc("A", 100)
        + "if (inner(A) != 0 ) return -1;\n"
        + alloc("B", 10)
        + free("B")
        + free("A")
        + "return 0;\n}\n"
    )
    INNER = "static int32_t inner(void* a) {\n" + alloc("C", 50) + free("C") + "return 0; }\n"

    @pytest.mark.parametrize(("alignment", "expected"), [(1, 150), (8, 160), (16, 176), (64, 192)])
    def test_calls_stack_on_what_is_open(self, alignment, expected):
        found = self.peak(self.INNER + self.MAIN, alignment=alignment)
        assert found == StackPeak(bytes=expected, exact=True, reason="")

    def test_requests_one_after_the_other_do_not_add_up(self):
        body = "".join(alloc(name, 100) + free(name) for name in ("A", "B", "C"))
        found = self.peak("int main_(void) {\n" + body + "return 0; }")
        assert found.bytes == 112

    def test_a_function_that_several_call(self):
        text = (
            self.INNER
            + "static int32_t outer(void) { return inner(0); }\n"
            + "static int32_t last(void) { return inner(0); }\n"
            + "int main_(void) { if (inner(0)) return -1; if (outer()) return -1; return last(); }"
        )
        found = self.peak(text)
        assert (found.bytes, found.exact) == (64, True)

    def test_a_function_without_requests(self):
        assert self.peak("int main_(void) { return other(); }").bytes == 0

    def test_an_entry_without_own_requests_is_exact(self):
        found = self.peak(self.INNER + "int main_(void) { if (inner(0) != 0) return -1; return 0; }")
        assert (found.bytes, found.exact) == (64, True)

    def test_a_call_under_a_condition_gives_a_bound(self):
        found = self.peak(self.INNER + "int main_(void) { if (x) { inner(0); } return 0; }")
        assert (found.bytes, found.exact) == (64, False)

    def test_static_functions_of_the_same_source_come_first(self):
        other = scan_source(self.INNER.replace("50", "5000"), "other.c")
        found = stack_peak([other, scan_source(self.INNER + self.MAIN, "lib.c")], "main_")
        assert found.bytes == 176

    def test_static_functions_of_other_sources_are_not_seen(self):
        found = stack_peak([scan_source(self.INNER, "other.c"), scan_source(self.MAIN, "lib.c")], "main_")
        assert found.bytes == 128

    def test_global_functions_of_other_sources_are(self):
        inner = scan_source(self.INNER.replace("static ", ""), "other.c")
        assert stack_peak([inner, scan_source(self.MAIN, "lib.c")], "main_").bytes == 176

    def test_two_definitions_are_unknown(self):
        inner = self.INNER.replace("static ", "")
        scans = [scan_source(inner, "b.c"), scan_source(inner, "c.c"), scan_source(self.MAIN, "lib.c")]
        found = stack_peak(scans, "main_")
        assert (found.bytes, found.exact, found.reason) == (None, False, "inner is defined more than once")

    def test_an_entry_that_is_defined_twice_is_unknown(self):
        scans = [scan_source(self.MAIN, "b.c"), scan_source(self.MAIN, "c.c")]
        assert stack_peak(scans, "main_").bytes is None

    def test_unknown_below_is_unknown(self):
        found = self.peak(self.INNER.replace("50", "n") + self.MAIN)
        assert (found.bytes, found.exact, found.reason) == (
            None,
            False,
            "the size of C is not a literal number",
        )

    def test_a_function_that_is_handed_on_is_unknown(self):
        found = self.peak(self.INNER + "int main_(void) { apply(inner); return 0; }")
        assert found.bytes is None
        assert "inner" in found.reason

    def test_a_macro_that_calls(self):
        found = self.peak("#define STEP inner(0)\n" + self.INNER + "int main_(void) { STEP; return 0; }")
        assert (found.bytes, found.exact) == (64, False)

    @pytest.mark.parametrize(
        "text",
        [
            "int main_(void) { return main_(); }",
            "int a(void) { return main_(); }\nint main_(void) { return a(); }",
            "int a(void) { return b(); }\nint b(void) { return a(); }\nint main_(void) { return a(); }",
        ],
    )
    def test_recursion_is_an_error(self, text):
        with pytest.raises(InputError, match="calls itself"):
            self.peak(text)

    def test_an_entry_that_is_not_there(self):
        with pytest.raises(InputError, match="no source of nothing"):
            self.peak(self.MAIN, "nothing")

    def test_an_alignment_that_is_none(self):
        with pytest.raises(ValueError, match="alignment"):
            self.peak(self.MAIN, alignment=0)

    def test_a_chain_of_ten_thousand_calls(self):
        chain = "".join(f"int f{i}(void) {{ return f{i + 1}(); }}\n" for i in range(10_000))
        assert self.peak(chain + self.INNER.replace("inner", "f10000"), "f0").bytes == 64

    @given(st.lists(st.integers(0, 5000), max_size=12), st.sampled_from([1, 8, 16]))
    @settings(max_examples=50, deadline=None)
    def test_nested_requests_add_up(self, sizes, alignment):
        names = [f"X{i}" for i in range(len(sizes))]
        body = "".join(alloc(n, s) for n, s in zip(names, sizes, strict=True)) + "".join(
            map(free, names[::-1])
        )
        found = self.peak("int main_(void) {\n" + body + "return 0; }", alignment=alignment)
        assert found.bytes == sum(-(-size // alignment) * alignment for size in sizes)


def test_hostile_bodies_take_linear_time():
    deep = "for (;;) {" * 5_000 + alloc("X") + free("X") + "f(1);" * 5_000 + "}" * 5_000
    wide = "".join(alloc(f"X{i}") for i in range(2_000)) + "".join(
        free(f"X{i}") for i in reversed(range(2_000))
    )
    stars = "int x = (int" + "*" * 50_000 + ")(y);"
    for body in (deep, wide, stars, "((" * 30_000 + "p0" + "))" * 30_000 + ";"):
        analyse(kernel(body))


def scans_of(name: str):
    found = []
    with tarfile.open(SHARED / name) as tar:
        for member in tar:
            if "/codegen/" in member.name and member.name.endswith((".c", ".h")):
                text = tar.extractfile(member).read().decode("utf-8", "replace")
                found.append(scan_source(text, member.name))
    return found


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real archives are not there: ../shared/mlf")
class TestRealArchives:
    archives = tuple(sorted(SHARED.rglob("*.tar")))

    def test_every_kernel_is_exact(self):
        count = 0
        for archive in self.archives:
            scans = scans_of(archive.relative_to(SHARED))
            allocating = allocating_functions(scans)
            for function in [function for scan in scans for function in scan.functions]:
                if "_fused_" in function.name or function.name == "dbl":
                    found = analyse_kernel(function, allocating=allocating)
                    assert found.exact, (archive.name, function.name, found.reason)
                    count += 1
        assert count > 500

    def test_kernel_of_kws(self):
        name = (
            "tvmgen_kws_int8_fused_nn_conv2d_add_fixed_point_multiply_per_axis_add_clip_cast_cast_subtract_1"
        )
        found = kernel_liveness(scans_of("kws_int8-graph-tvm0.11.1.tar"), name)
        assert [(s.size_bytes, *span(s)) for s in found.slots] == [(24192, 0, 7), (32000, 1, 8)]
        data, output = found.argument(0), found.argument(8)
        assert data.is_exact
        assert output.is_exact
        assert data.last < output.first == output.last == found.phases - 1 == 8
        assert span(found.argument(4)) == (None, None)  # a shift of zero is not read

    def test_workspaces_of_resnet8(self):
        sizes = {}
        for scan in (scans := scans_of("resnet8_int8-graph-tvm0.11.1.tar")):
            for function in scan.functions:
                slots = kernel_liveness(scans, function.name).slots
                if slots:
                    sizes[function.name.rpartition("_fused_")[2]] = [s.size_bytes for s in slots]
        assert sorted(sizes.values(), reverse=True) == [
            *([36992], [36992], [34848], [30752], [20736], [18496], [14400], [12800], [6936], [1280]),
        ]

    def test_requests_in_loops_of_kws_for_cortex_m7(self):
        found = kernel_liveness(
            scans_of("kws_int8-graphm7-tvm0.11.1.tar"),
            "tvmgen_kws_int8_fused_nn_conv2d_subtract_add_fixed_point_multiply_per_axis_add_clip",
        )
        assert [(s.size_bytes, *span(s)) for s in found.slots] == [(16000, 0, 1), (8192, 1, 1)]

    @pytest.mark.parametrize(
        ("name", "entry", "alignment", "expected"),
        [
            ("resnet8_int8-aotc", "resnet8_int8", 16, 119_104),
            ("resnet8_int8-aot", "resnet8_int8", 16, 119_104),
            ("kws_int8-aotc", "kws_int8", 16, 105_360),
            ("vww_int8-aotc", "vww_int8", 16, 248_848),
            ("ad_int8-aotc", "ad_int8", 16, 165_264),
            ("ad_int8-aot", "ad_int8", 16, 165_264),
            ("kws_int8-aotc", "kws_int8", 4, 105_348),
            ("vww_int8-aotc", "vww_int8", 4, 248_840),
            ("two_in_two_out-aotc", "two_in_two_out", 16, 6_464),
            ("multi_lstm_conv1d-aotc", "lstm", 16, 2_336),
            ("resnet8_int8-aotusmp", "resnet8_int8", 16, 0),
        ],
    )
    def test_stack_peaks_of_aot_models(self, name, entry, alignment, expected):
        found = stack_peak(scans_of(f"{name}-tvm0.11.1.tar"), f"tvmgen_{entry}___tvm_main__", alignment)
        assert (found.bytes, found.exact, found.reason) == (expected, True, "")


def pointer_kernel(body: str) -> KernelLiveness:
    text = f"int32_t k(void* arg0, void* arg1) {{\n{body}\nreturn 0;\n}}\n"
    return analyse_kernel(scan_source(text, "k.c").functions[0])


COPIES = "void* a = arg0;\nvoid* b = arg1;\nfloat t[4];\n"


def test_arguments_that_are_written() -> None:
    text = kernel("((float*)p2)[0] = ((float*)p0)[1];\nif (1) { ((float*)p1)[0] += 1; }\nint x = 3; x = 4;")
    assert written_arguments(scan_source(text, "lib.c").functions[0]) == {1, 2}


def test_an_argument_of_something_else_is_none() -> None:
    found = analyse(kernel(COPY.format("p1", "p0") + "void* z = (((TVMValue*)other)[7].v_handle);"))
    assert (found.exact, span(found.argument(7))) == (True, (None, None))


def test_a_copy_of_an_untyped_parameter_is_one_more_name_for_its_data():
    found = pointer_kernel(
        COPIES
        + "for (int i = 0; i < 4; ++i) { t[i] = ((float*)a)[i]; }\n"
        + "for (int i = 0; i < 4; ++i) { ((float*)b)[i] = t[i]; }"
    )
    assert found.exact
    assert [(a.first, a.last) for a in found.arguments] == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    "use", ["f(arg0);", "((float*)arg0)[0] = 1.0f;", "void* c = a; ((float*)c)[0] = 1.0f;"]
)
def test_a_later_use_behind_the_copy_is_seen(use):
    found = pointer_kernel(
        COPIES
        + "for (int i = 0; i < 4; ++i) { t[i] = ((float*)a)[i]; }\n"
        + "for (int i = 0; i < 4; ++i) { ((float*)b)[i] = t[i]; }\n"
        + use
    )
    first = found.argument(0)
    assert not found.exact or first.last == found.phases - 1


def test_a_copy_under_the_name_of_another_argument_is_doubted():
    assert not pointer_kernel("void* arg1 = arg0;\n((float*)arg1)[0] = 1.0f;").exact


def test_null_as_the_preprocessor_gives_it() -> None:
    body = alloc("ws").replace("NULL", "((void *)0)") + "((float*)ws)[0] = 1;\n" + free("ws")
    found = analyse(kernel(body))
    assert found.exact and [slot.is_exact for slot in found.slots] == [True]


def test_a_kernel_that_is_taken_as_a_whole() -> None:
    found = analyse(kernel(alloc("ws") + free("ws")), whole="there is no compiler")
    assert (found.exact, found.workspace_known, found.reason) == (False, True, "there is no compiler")
    assert [slot.size_bytes for slot in found.slots] == [64]


def test_arguments_by_their_number() -> None:
    """Those that the kernel unpacks, in any order; another one is never accessed, if the kernel was looked into."""
    body = COPY.format("p2", "p1") + "((float*)p0)[0] = 1.0f;"
    text = kernel(body)
    for found, spans in ((analyse(text), [(1, 1), (0, 0), (0, 0)]), (analyse(text, whole="x"), [(0, 0)] * 3)):
        assert [(span(found.argument(i)), found.argument(i).is_exact) for i in range(3)] == [
            (at, found.exact) for at in spans
        ]
    known, unknown = analyse(text), analyse(text, whole="x")
    assert (span(known.argument(7)), known.argument(7).is_exact) == ((None, None), True)
    assert (span(unknown.argument(7)), unknown.argument(7).is_exact) == ((0, 0), False)
    plain = analyse("int32_t k(float* p0, float* p1) { p1[0] = p0[0]; }", whole="x")
    assert [(a.name, span(a), a.is_exact) for a in plain.arguments] == [
        (name, (0, 0), False) for name in ("p0", "p1")
    ]


@pytest.mark.parametrize(
    ("before", "use", "options", "reason", "known"),
    [
        ("", "helper();", {}, "", True),
        ("", "helper();", {"allocating": {"helper", "k"}}, "helper allocates workspace too", False),
        ("", "((float*)p0)[1] = 1;", {"allocating": {"k"}}, "", True),
        ("", "k(args);", {"allocating": {"k"}}, "the kernel calls itself", False),
        ("#define UNUSED helper()\n", "((float*)p0)[1] = 1;", {"allocating": {"helper"}}, "", True),
        ("#define USED 1\n", "((float*)p0)[USED] = 1;", {}, "USED is a macro", False),
        ("#define USED helper()\n", "USED;", {"allocating": {"helper"}}, "USED is a macro", False),
        (
            "#define UNUSED 1\n",
            "((float*)p0)[OF_HEADER] = 1;",
            {"macros": {"OF_HEADER"}},
            "OF_HEADER is",
            False,
        ),
    ],
)
def test_what_is_known_of_calls_and_macros(before, use, options, reason, known):
    """A macro may hold any code, one of a header any allocation; so may a function that allocates."""
    found = analyse(before + kernel(alloc("ws") + COPY.format("p1", "p0") + use + free("ws")), **options)
    assert found.exact == (not reason)
    assert found.workspace_known == known
    assert reason in found.reason
