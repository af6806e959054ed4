# SPDX-License-Identifier: Apache-2.0
"""Main functions of ahead-of-time models as lists of calls, and the reasons why some are none."""

from __future__ import annotations

import pytest

from mlf_sdk.analysis.c.calllist import CallList, PassedArgument, read_calls
from mlf_sdk.analysis.c.source import scan_source
from mlf_sdk.analysis.c.symbols import Place, Request
from mlf_sdk.ir.dtype import DType

PLAIN = "int32_t m(float* x, float* y, uint8_t* pool)"
PACKED = "int32_t m(void* args, int32_t* arg_type_ids, int32_t num_args, void* v, int32_t* c, void* r)"
START = """
TVMValue stack[2]; void* stack_tcode = stack; TVMValue stack_1[3]; void* stack_value = stack_1;
TVMValue stack_2[18]; void* stack_array = stack_2; TVMValue stack_3[2]; void* stack_shape = stack_3;
void* arg_x = (((TVMValue*)args)[0].v_handle); int32_t arg_x_code = arg_type_ids[0];
void* x = (((DLTensor*)arg_x)[0].data); void* x_strides = (((DLTensor*)arg_x)[0].strides);
int32_t dev_id = (((DLTensor*)arg_x)[0].device.device_id);
void* arg_y = (((TVMValue*)args)[1].v_handle); void* y = (((DLTensor*)arg_y)[0].data);
if (!(x_strides == NULL)) { }
((int64_t*)stack_shape)[0] = (int64_t)1; ((int64_t*)stack_shape)[1] = (int64_t)8;
"""
CALL = (
    "TVMValue ret; int code; if (f((TVMValue*) stack_value, (int*) stack_tcode, 2, &ret, &code, NULL) != 0) "
    "{ return -1; }"
)


def read(body: str, head: str = PLAIN, before: str = "", end: str = "return 0;") -> CallList:
    function = scan_source(f"{before}\n{head} {{\n{body}\n{end}\n}}\n", "m.c").functions[-1]
    return read_calls(function, [Place("x"), Place("y"), Place("pool")][: 2 if head == PACKED else 3])


def descriptor(index: int, data: str) -> str:
    tensor = f"((DLTensor*)stack_array)[{index}]"
    fields = {
        "data": data,
        "shape": "(&(((int64_t*)stack_shape)[0]))",
        "strides": f"(int64_t*)(*(void* *)(&(__{index})))",
        "ndim": "(uint32_t)2",
        "dtype.code": "(uint8_t)2",
        "dtype.bits": "(uint8_t)32",
        "dtype.lanes": "(uint16_t)1",
        "byte_offset": "(uint64_t)0",
        "device.device_id": "dev_id",
        "device.device_type": "(DLDeviceType)1",
    }
    lines = [f"uint64_t __{index} = (uint64_t)0;", *(f"({tensor}.{f}) = {v};" for f, v in fields.items())]
    lines.append(f"(((TVMValue*)stack_value)[{index}].v_handle) = (((DLTensor*)stack_array) + {index});")
    return "\n".join([*lines, f"((int32_t*)stack_tcode)[{index}] = 7;"])


def packed(*changes: tuple[str, str]) -> str:
    """Body of a main function with one packed call."""
    body = START + descriptor(0, "x") + descriptor(1, "y") + CALL
    for old, new in changes:
        assert old in body, old
        body = body.replace(old, new)
    return body


def test_plain_calls() -> None:
    found = read(
        "void* sid = TVMBackendAllocWorkspace(1, 0, (uint64_t)96, 0, 8);\nif (sid == NULL) {\nreturn -1;\n}\n"
        "void* a_let = (&(pool[64]));\nvoid* part = ((int16_t*)sid) + 8;;\n"
        "if (f(x, sid) != 0 ) return -1;\nif (g(part, a_let, &y[3], x) != 0) { return -1; }\n"
        "if (TVMBackendFreeWorkspace(1, 0, sid) != 0) {\nreturn -1;\n}"
    )
    assert found.reason == ""
    assert dict(found.workspaces) == {"sid": 96}
    first, second = found.calls
    assert (first.symbol, first.is_packed) == ("f", False)
    assert first.arguments == (PassedArgument(place=Place("x")), PassedArgument(place=Place(Request("sid"))))
    places = [argument.place for argument in second.arguments]
    assert places == [Place(Request("sid"), 16), Place("pool", 64), Place("y", 12), Place("x")]


def test_packed_calls() -> None:
    found = read(packed(), PACKED)
    assert found.reason == ""
    (call,) = found.calls
    wanted = {"shape": (1, 8), "dtype": DType.parse("float32")}
    assert call.is_packed
    assert call.arguments == (
        PassedArgument(place=Place("x"), **wanted),  # type: ignore[arg-type]
        PassedArgument(place=Place("y"), **wanted),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("if (n) { f(x); }", "it has a branch"),
        ("switch (1) { default: ; }", "it has a branch"),
        ("for (int32_t i = 0; i < 2; ++i) { f(x); }", "it has a loop"),
        ("if (f(x) != 0) { return -1; } else { }", "it has a branch"),
        ("if (f(x) != 1) { return -1; }", "it has a branch"),
        ("if (f(x) == 0) { return -1; }", "it has a branch"),
        ("if (f(x) != 0) { return -2; }", "it has a branch"),
        ("if (x != 0) { return -1; }", "it has a branch"),
        ("if (n = 1) { }", "it has a branch"),
        ("return 0;", "it returns early"),
        ("f(x);", "a statement is not a call whose result is checked"),
        ("if (x(y) != 0) return -1;", "x is called through a pointer"),
        ("if (TVMFuncCall(x) != 0) return -1;", "TVMFuncCall may call any function"),
        ("if (f(3) != 0) return -1;", "a kernel gets something else than the address of data"),
        ("if (f(w) != 0) return -1;", "a value is not understood: w"),
        ("if (f(x - y) != 0) return -1;", "a value is not understood: -"),
        ("float a[2] = {1.0f};", "the array a has initial values"),
        ("float a = 1.0f;", "a value is not understood: 1.0f"),
        ("void* a = x; void* a = y;", "a is declared again"),
        ("void* a = x; a += 1;", "a variable is changed in place"),
        ("void* a = x; a = y;", "memory is read or written in a way that is not understood"),
        ("x[0] = y;", "memory is read or written in a way that is not understood"),
        ("void* a = *x;", "a value behind a pointer is not understood"),
        ("void* a = &(*x);", "an address is not understood"),
        ("float b[2]; void* a = &b;", "an address is not understood"),
        ("void* b = x; void* a = &(b[x]);", "an address is computed in a way that is not understood"),
        ("struct s* b = x; void* a = b + 1;", "an address is computed in a way that is not understood"),
        ("void* a = x; void* c = (&a) + 1;", "an address is computed in a way that is not understood"),
        ("float b[2]; ((int*)b)[0] = 1; ((float*)b)[0] = 1;", "the array b is used as two types"),
        ("float b[2]; b[0] = 1;", "the array b is used as two types"),
        ("float b[2]; void* a = ((float*)b)[0];", "b is read before it is set"),
        ("goto end; end: ;", "a statement is not a call whose result is checked"),
        ("void* s = TVMBackendAllocWorkspace(1, 0, n, 0, 8);", "the size of s is not a literal number"),
    ],
)
def test_what_is_more_than_calls(body: str, reason: str) -> None:
    assert read(body).reason == reason


def test_two_workspaces_of_one_name() -> None:
    one = (
        "void* s = TVMBackendAllocWorkspace(1, 0, (uint64_t)8, 0, 8);\n"
        "if (TVMBackendFreeWorkspace(1, 0, s) != 0) return -1;\n"
    )
    assert read(one).reason == ""
    assert read(one + one).reason == "two workspaces have one name"


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("stack_tcode)[1] = 7", "stack_tcode)[1] = 3"), "a packed call gets something else than tensors"),
        (("(((DLTensor*)stack_array) + 1)", "x"), "a packed call gets something else than tensors"),
        (("&code, NULL)", "&code, x)"), "a packed call gets a resource or shares its result"),
        (("int code;", "int code = 1;"), "a packed call gets a resource or shares its result"),
        (("&ret,", "x,"), "a packed call gets a resource or shares its result"),
        (("(int*) stack_tcode, 2", "(int*) stack_tcode, dev_id"), "a packed call is not understood"),
        (("(int*) stack_tcode, 2", "x, 2"), "a packed call is not understood"),
        (("__1 = (uint64_t)0", "__1 = (uint64_t)4"), "a tensor has strides, an offset, no data, or lies on another device"),
        (("byte_offset) = (uint64_t)0", "byte_offset) = (uint64_t)4"), "a tensor has strides, an offset, no data, or lies on another device"),
        (("device_type) = (DLDeviceType)1", "device_type) = (DLDeviceType)2"), "a tensor has strides, an offset, no data, or lies on another device"),
        (("data) = y", "data) = NULL"), "a tensor has strides, an offset, no data, or lies on another device"),
        (("ndim) = (uint32_t)2", "ndim) = (uint32_t)65"), "the shape of a tensor is not understood"),
        (("(&(((int64_t*)stack_shape)[0]))", "x"), "the shape of a tensor is not understood"),
        (("ndim) = (uint32_t)2", "ndim) = (uint32_t)3"), "stack_3 is read before it is set"),
        (("ndim) = (uint32_t)2", "ndim) = dev_id"), "the ndim of a tensor is not a number"),
        (("[1] = (int64_t)8", "[1] = dev_id"), "the extent of a tensor is not a number"),
        (("int32_t dev_id = (((DLTensor*)arg_x)[0].device.device_id)", "int32_t dev_id = (((DLTensor*)arg_x)[0].ctx)"), "argument 0 is read before it is set"),
    ],
)  # fmt: skip
def test_packed_calls_that_are_not_understood(pair: tuple[str, str], reason: str) -> None:
    assert read(packed(pair), PACKED).reason == reason


def test_an_argument_passed_on() -> None:
    """The descriptor of an argument of main has a shape that only its caller knows."""
    body = packed(("(((DLTensor*)stack_array) + 1)", "arg_y"))
    assert read(body, PACKED).reason == "the ndim of a tensor is not a number"


def test_the_function_itself() -> None:
    assert read("", before="#define ZERO 0\n", end="return ZERO;").reason == "ZERO is a macro"
    assert read("", end="return 1;").reason == "it does not end with return 0"
    assert read("", end="").reason == "it does not end with return 0"
    assert read("\n#if 1\n;\n#endif\n").reason == "a preprocessor line is in the body"
    assert read("", "int32_t m(float* x)").reason == "3 arguments for 1 parameters"
