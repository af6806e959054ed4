# SPDX-License-Identifier: Apache-2.0
"""Archives of legal C that a plan could break, and of kernels that reach beyond their tensors."""

from __future__ import annotations

from collections.abc import Mapping

from model_cases import PREAMBLE, SIGNATURE, Net, Ref

COUNT = 256
COPY = "for (int32_t i = 0; i < 256; ++i) { ((int32_t*)T)[i] = ((int32_t*)p0)[i] * 2 + i; }"
WORKSPACE = """\
  void* ws = TVMBackendAllocWorkspace(1, 0, (uint64_t)1024, 0, 32);
  if (ws == NULL) {
    return -1;
  }
  for (int32_t i = 0; i < 256; ++i) { ((int32_t*)ws)[i] = ((int32_t*)p0)[i] + 7; }
  for (int32_t i = 0; i < 256; ++i) { ((int32_t*)T)[i] = ((int32_t*)ws)[i] * 3; }
%s
  if (TVMBackendFreeWorkspace(1, 0, ws) != 0) {
    return -1;
  }"""
LATE_READ = WORKSPACE % "  for (int32_t i = 0; i < 256; ++i) { ((int32_t*)T)[i] += q[i]; }"
LATE_Q0 = WORKSPACE % "  for (int32_t i = 0; i < 256; ++i) { ((int32_t*)T)[i] += q[0][i]; }"
DECOY = WORKSPACE % ""
Files = dict[str, bytes]


def kernel(symbol: str, inputs: int, body: str, storage: str = "TVM_DLL") -> str:
    """A packed kernel whose arguments are called p0, p1... and T."""
    names = [f"p{i}" for i in range(inputs)] + ["T"]
    lines = [f"{storage} int32_t {symbol}{SIGNATURE} {{"]
    for index, name in enumerate(names):
        lines += [f"  void* arg_{name} = (((TVMValue*)args)[{index}].v_handle);"]
        lines += [f"  void* {name} = (((DLTensor*)arg_{name})[0].data);"]
    return "\n".join([*lines, body, "  return 0;", "}", ""])


def chain(body: str, *, before: str = "", first: str = COPY, last: str = COPY) -> Files:
    """Three kernels in a row; the body is that of the second one."""
    net = Net("a")
    ref: Ref = net.input("x", (COUNT,), "int32")
    for name in ("k1", "k2", "k3"):
        ref = net.call(name, [ref], shape=(COUNT,), define=False)
    bodies = {"k1": first, "k2": body, "k3": last}
    text = PREAMBLE + before
    text += "".join(kernel(net.symbol(name), 1, code) for name, code in bodies.items() if code)
    return {**net.files(ref), "codegen/host/src/a_lib1.c": text.encode()}


def branches(bodies: Mapping[str, tuple[int, str]], before: str = "") -> Files:
    """Kernels kb(x), kc(x, y), kr(kb), ka(kr, kc): kr shrinks what kb gives, so it would like to run first."""
    net = Net("a")
    x, y = net.input("x", (2048,), "int32"), net.input("y", (2048,), "int32")
    b = net.call("kb", [x], shape=(2048,), define=False)
    c = net.call("kc", [x, y], shape=(4,), define=False)
    r = net.call("kr", [b], shape=(4,), define=False)
    a = net.call("ka", [r, c], shape=(4,), define=False)
    text = PREAMBLE + before
    text += "".join(kernel(net.symbol(name), count, code) for name, (count, code) in bodies.items())
    return {**net.files(a), "codegen/host/src/a_lib1.c": text.encode()}


SUM = "for (int32_t i = 0; i < 4; ++i) { ((int32_t*)T)[i] = 0; for (int32_t j = 0; j < 512; ++j) { "
ADD = "((int32_t*)T)[i] = ((int32_t*)T)[i] + ((int32_t*)p0)[(i * 512 + j)] * ((int32_t*)p1)[(i * 512 + j)]"
FORK = {
    "kb": (1, "for (int32_t i = 0; i < 2048; ++i) { ((int32_t*)T)[i] = ((int32_t*)p0)[i] + i; }"),
    "kc": (2, SUM + ADD + "; } }"),
    "kr": (1, SUM + "((int32_t*)T)[i] = ((int32_t*)T)[i] + ((int32_t*)p0)[(i * 512 + j)] * (j + 1); } }"),
    "ka": (
        2,
        "for (int32_t i = 0; i < 4; ++i) { ((int32_t*)T)[i] = ((int32_t*)p0)[i] + 7 * ((int32_t*)p1)[i]; }",
    ),
}
IN_PLACE = "for (int32_t i = 0; i < 2048; ++i) { ((int32_t*)p0)[i] = ((int32_t*)p0)[i] * 3 + 1; }"
ALIAS = "int32_t* q = (int32_t*)p0;\n"
TWICE = chain(
    "#if defined(__ARM_FEATURE_DSP)\n  int32_t* q = (int32_t*)p0;\n"
    + LATE_READ
    + "\n#else\n"
    + COPY
    + "\n#endif"
)


def in_header() -> Files:
    head = '#define FAST\n#ifdef FAST\n#include "k2.h"\n#else\n'
    files = chain(COPY)
    source = files["codegen/host/src/a_lib1.c"].decode()
    at = source.index("TVM_DLL int32_t tvmgen_a_k2")
    end = source.index("TVM_DLL int32_t tvmgen_a_k3")
    dead = kernel("tvmgen_a_k2", 1, DECOY)
    text = source[:at] + head + dead + "#endif\n" + source[end:]
    return {
        **files,
        "codegen/host/src/a_lib1.c": text.encode(),
        "codegen/host/include/k2.h": kernel("tvmgen_a_k2", 1, ALIAS + LATE_READ).encode(),
    }


def only_in_header() -> Files:
    files = chain("", before='#include "k2.h"\n')
    return {**files, "codegen/host/include/k2.h": kernel("tvmgen_a_k2", 1, ALIAS + LATE_READ).encode()}


def beside_a_static() -> Files:
    """Another linked file has a static function of the kernel's name."""
    decoy = PREAMBLE + kernel("tvmgen_a_k2", 1, DECOY, "static")
    decoy += "int32_t user(void) { return (int32_t)(uintptr_t)tvmgen_a_k2; }\n"
    decoy += "int32_t helper(void) { return 5; }\n"
    body = ALIAS + LATE_READ + "\n  ((int32_t*)T)[0] += helper();"
    return {
        **chain(body, before="int32_t helper(void);\n"),
        "codegen/host/src/a_lib2.c": decoy.encode(),
    }


RIGHT = {
    "an alias": chain(ALIAS + LATE_READ),
    "a body in a header, and a dead one": in_header(),
    "a body in a header alone": only_in_header(),
    "a static decoy in another file": beside_a_static(),
    "an address behind __extension__": chain("int32_t* q = __extension__ & ((int32_t*)p0)[0];\n" + LATE_READ),
    "an address behind a macro": chain(
        "int32_t* q = AT ((int32_t*)p0)[0];\n" + LATE_READ, before="#define AT (void*) &\n"
    ),
    "an address in a designated array": chain("int32_t* q[1] = {[0] = (int32_t*)p0};\n" + LATE_Q0),
    "an array type": chain(
        "int32_t* q = ((quarter*)p0)[0];\n" + LATE_READ, before="typedef int32_t quarter[4];\n"
    ),
    "an address in a global": chain(
        COPY,
        before="static void* saved;\n",
        first="saved = p0;\n" + COPY,
        last="for (int32_t i = 0; i < 256; ++i) { ((int32_t*)T)[i] = ((int32_t*)p0)[i] + ((int32_t*)saved)[i]; }",
    ),
    "an address kept by a helper": chain(
        COPY,
        before="static int32_t* saved;\nstatic void keep(int32_t* p) { int32_t* q = p; saved = q; }\n",
        first="keep((int32_t*)p0 + 1);\n" + COPY,
        last="for (int32_t i = 0; i < 256; ++i) { ((int32_t*)T)[i] = ((int32_t*)p0)[i] + saved[(i / 2)]; }",
    ),
    "an address in a tensor": chain(
        "for (int32_t i = 0; i < 256; ++i) { ((int32_t*)T)[i] = i; }\n((void**)T)[0] = p0;",
        last="int32_t* q = ((int32_t**)p0)[0];\n"
        "for (int32_t i = 0; i < 256; ++i) { ((int32_t*)T)[i] = ((int32_t*)p0)[(i | 2)] + q[i]; }",
    ),
    "both branches of a condition": TWICE,
    "a kernel that writes its input": branches({**FORK, "kb": (1, FORK["kb"][1] + IN_PLACE)}),
    "a helper that writes the input": branches(
        {**FORK, "kb": (1, FORK["kb"][1] + "touch((int32_t*)p0);")},
        "static void touch(int32_t* p) { for (int32_t i = 0; i < 2048; ++i) { *p = *p * 3 + 1; p++; } }\n",
    ),
    "a global that changes": branches(
        {
            **FORK,
            "kb": (1, FORK["kb"][1] + "state = state + 5;"),
            "kc": (2, SUM + ADD + " + state; } }"),
        },
        "static int32_t state = 1;\n",
    ),
    "a static variable of a function": branches(
        {
            **FORK,
            "kb": (1, FORK["kb"][1] + "count();"),
            "kc": (2, SUM + ADD + " + count(); } }"),
        },
        "static int32_t count(void) { static int32_t n; n += 3; return n; }\n",
    ),
}


REACH = "for (int32_t i = 0; i < {}; ++i) {{ ((int32_t*)T)[{}] = ((int32_t*)p0)[(i % 256)]; }}"
REFUSED = {
    "300 elements into 256": (
        chain(REACH.format(300, "i")),
        "reaches byte 1200 of 'tvmgen_a_k2', which has 1024",
    ),
    "one too many": (chain(REACH.format(257, "i")), "reaches byte 1028 .* which has 1024"),
    "one before": (chain(REACH.format(256, "i - 1")), "4 bytes before the first of .* which has 1024"),
    "one byte before": (
        chain(REACH.format(256, "i - 1").replace("((int32_t*)T)", "((int8_t*)T)")),
        "reaches 1 byte before the first of .* which has 1024",
    ),
    "an old designator": (
        chain("int32_t* q[1] = { [0] & ((int32_t*)p0)[0] };\n" + LATE_Q0),
        "workspace of 'tvmgen_a_k2' is stated neither by its code",
    ),
    "a type of numbers that is none": (
        chain("int32_t* q = ((half*)p0)[0];\n" + LATE_READ, before="typedef int32_t half[4];\n"),
        "workspace of 'tvmgen_a_k2' is stated neither by its code .*another meaning",
    ),
    "two definitions": (
        {**chain(COPY), "codegen/host/src/a_lib2.c": (PREAMBLE + kernel("tvmgen_a_k2", 1, COPY)).encode()},
        "'tvmgen_a_k2' is defined in codegen/host/src/a_lib1.c as well",
    ),
}
