# SPDX-License-Identifier: Apache-2.0
"""Archives compiled ahead of time whose main function is known to the byte, in each interface.

Five kernels in a row share two storages, each of which holds values of two sizes:
pad (x -> s1, with a workspace of its own), half (s1 -> s2), wide (s2 -> s1, twice as large), sums (s1 -> s2,
added up in place) and last (s2, x -> output).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from archives import build

INTERFACES: Final = ("packed", "c", "pools", "static")
LIB0: Final = "codegen/host/src/{}_lib0.c"
LIB1: Final = "codegen/host/src/{}_lib1.c"
HEADER: Final = "codegen/host/include/tvmgen_{}.h"
POOL_BYTES: Final = 192
PAD_AT: Final = 144  # of the workspace of ``pad`` in a pool; s1 lies at 0, s2 at 64

KERNELS: Final = {
    "pad": (
        ("x", "y"),
        "  for (int32_t i = 0; i < 10; ++i) {\n"
        "    ((float*)w)[i] = (1 <= i) && (i < 9) ? ((float*)x)[i - 1] : 0.0f;\n  }\n"
        "  for (int32_t j = 0; j < 8; ++j) {\n"
        "    ((float*)y)[j] = (((float*)w)[j] + ((float*)w)[j + 1]) + ((float*)w)[j + 2];\n  }\n",
    ),
    "half": (
        ("x", "y"),
        "  for (int32_t i = 0; i < 8; ++i) {\n    ((float*)y)[i] = ((float*)x)[i] * HALF;\n  }\n",
    ),
    "wide": (
        ("x", "y"),
        "  for (int32_t i = 0; i < 16; ++i) {\n    ((float*)y)[i] = ((float*)x)[i / 2] + 1.0f;\n  }\n",
    ),
    "sums": (
        ("x", "y"),
        "  for (int32_t i = 0; i < 4; ++i) {\n    ((float*)y)[i] = 0.0f;\n"
        "    for (int32_t j = 0; j < 4; ++j) {\n"
        "      ((float*)y)[i] = ((float*)y)[i] + ((float*)x)[(i * 4) + j];\n    }\n  }\n",
    ),
    "last": (
        ("x", "z", "y"),
        "  for (int32_t i = 0; i < 8; ++i) {\n"
        "    ((float*)y)[i] = ((float*)x)[i / 2] + ((float*)z)[i];\n  }\n",
    ),
}
CALLS: Final = (
    ("pad", ("x", "s1"), (8, 8)),
    ("half", ("s1", "s2"), (8, 8)),
    ("wide", ("s2", "s1"), (8, 16)),
    ("sums", ("s1", "s2"), (16, 4)),
    ("last", ("s2", "x", "output"), (4, 8, 8)),
)

_HEAD: Final = (
    '#define TVM_EXPORTS\n#include "tvm/runtime/c_runtime_api.h"\n#include "tvm/runtime/c_backend_api.h"\n'
    "#include <math.h>\n"
)
_PACKED: Final = (
    "(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, int32_t* out_ret_tcode, "
    "void* resource_handle)"
)
_CONSTANTS: Final = (
    '__attribute__((section(".rodata.tvm"), ))\nstatic struct global_const_workspace {\n'
    "  float half_let[1] __attribute__((aligned(16)));\n} global_const_workspace = {\n"
    "  .half_let = {\n    0x1p-1\n  },\n};// of total size 4 bytes\n"
    '__attribute__((section(".bss.noinit.tvm"), aligned(16)))\n'
    f"static uint8_t global_workspace[{POOL_BYTES}];\n"
)


def reference(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """What the model computes, in numbers that floats hold."""
    padded = np.pad(x.reshape(8), 1)
    halves = (padded[:-2] + padded[1:-1] + padded[2:]) * np.float32(0.5)
    sums = (np.repeat(halves, 2) + np.float32(1.0)).reshape(4, 4).sum(axis=1, dtype=np.float32)
    return (np.repeat(sums, 2) + x.reshape(8)).reshape(x.shape)


def build_aot(
    interface: str, name: str = "tiny", changes: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """Files of an archive.

    Args:
        interface: one of `INTERFACES`.
        changes: texts of the code to replace, each of which must be there.
    """
    files = build(kind="aot-packed" if interface == "packed" else "aot-c", name=name)
    prefix = f"tvmgen_{name}_"
    code = {LIB1.format(name): _HEAD + "".join(_kernel(prefix, k, interface) for k in KERNELS)}
    code[LIB1.format(name)] += _packed_main(prefix) if interface == "packed" else _main(prefix, interface)
    if interface != "packed":
        code[LIB0.format(name)] = _run(name, prefix, interface)
        code[HEADER.format(name)] = files[HEADER.format(name)].decode()
    if interface == "pools":
        code[HEADER.format(name)] = _pool_header(prefix, code[HEADER.format(name)])
    for old, new in (changes or {}).items():
        assert any(old in text for text in code.values()), old
        code = {member: text.replace(old, new) for member, text in code.items()}
    return {**files, **{member: text.encode() for member, text in code.items()}}


def _has_pools(interface: str) -> bool:
    return interface in ("pools", "static")


def _kernel(prefix: str, kernel: str, interface: str) -> str:
    """One kernel: packed, or with a pointer for each tensor and perhaps for each pool."""
    names, body = KERNELS[kernel]
    body = body.replace(
        "HALF", "((float*)half_let)[0]" if interface == "static" and kernel == "half" else "0.5f"
    )
    if interface == "packed":
        lines = [_PACKED + " {\n"]
        for i, name in enumerate(names):
            lines += [f"  void* arg_{name} = (((TVMValue*)args)[{i}].v_handle);\n"]
            lines += [f"  void* {name} = (((DLTensor*)arg_{name})[0].data);\n"]
        start = "".join(lines)
    else:
        parameters = [f"void* {name}" for name in names]
        parameters += ["uint8_t* constants"] * (interface == "static") + ["uint8_t* pool"] * _has_pools(
            interface
        )
        start = f"({', '.join(parameters)}) {{\n"
    end = "  return 0;\n}\n"
    if kernel == "pad" and _has_pools(interface):
        start += f"  void* w = (&(pool[{PAD_AT}]));\n"
    elif kernel == "pad":
        start += "  void* w = TVMBackendAllocWorkspace(1, 0, (uint64_t)40, 2, 32);\n  if (w == NULL) {\n    return -1;\n  }\n"
        end = "  if (TVMBackendFreeWorkspace(1, 0, w) != 0) {\n    return -1;\n  }\n" + end
    elif "half_let" in body:
        start += "  void* half_let = (&(constants[0]));\n"
    return f"TVM_DLL int32_t {prefix}{kernel}{start}{body}{end}"


def _allocated(body: str) -> str:
    sizes = {"s1": 64, "s2": 32}
    start = "".join(
        f"  void* {name} = TVMBackendAllocWorkspace(1, 0, (uint64_t){size}, 0, 8);\n"
        f"  if ({name} == NULL) {{\n    return -1;\n  }}\n"
        for name, size in sizes.items()
    )
    end = "".join(
        f"  if (TVMBackendFreeWorkspace(1, 0, {name}) != 0) {{\n    return -1;\n  }}\n"
        for name in reversed(sizes)
    )
    return f"{start}{body}{end}  return 0;\n}}\n"


def _main(prefix: str, interface: str) -> str:
    more = ["constants"] * (interface == "static") + ["pool"] * _has_pools(interface)
    calls = "".join(
        f"  if ({prefix}{kernel}({', '.join([*arguments, *more])}) != 0 ) return -1;\n"
        for kernel, arguments, _ in CALLS
    )
    parameters = ", ".join(["float* x", "float* output", *(f"uint8_t* {name}" for name in more)])
    head = f"TVM_DLL int32_t {prefix}__tvm_main__({parameters}) {{\n"
    if not more:
        return head + _allocated(calls)
    lets = "  void* s1 = (&(pool[0]));\n  void* s2 = (&(pool[64]));\n"
    return f"{head}{lets}{calls}  return 0;\n}}\n"


def _packed_main(prefix: str) -> str:
    lines = [
        f"TVM_DLL int32_t {prefix}__tvm_main__{_PACKED} {{",
        "  TVMValue stack[2];\n  void* stack_tcode = stack;\n  TVMValue stack_1[3];\n  void* stack_value = stack_1;",
        "  TVMValue stack_2[18];\n  void* stack_array = stack_2;\n  TVMValue stack_3[6];",
        "  void* stack_shape = stack_3;",
    ]
    for index, name in enumerate(("x", "output")):
        lines.append(f"  void* arg_{name} = (((TVMValue*)args)[{index}].v_handle);")
        lines.append(f"  void* {name} = (((DLTensor*)arg_{name})[0].data);")
    calls = "\n".join(_packed_call(prefix, index, *call) for index, call in enumerate(CALLS))
    return "\n".join(lines) + "\n" + _allocated(calls + "\n")


def _packed_call(prefix: str, call: int, kernel: str, names: tuple[str, ...], sizes: tuple[int, ...]) -> str:
    lines = []
    for i, (name, size) in enumerate(zip(names, sizes, strict=True)):
        tensor = f"((DLTensor*)stack_array)[{i}]"
        fields = {
            "data": name,
            "shape": f"(&(((int64_t*)stack_shape)[{2 * i}]))",
            "strides": "NULL",
            "ndim": "(uint32_t)2",
            "dtype.code": "(uint8_t)2",
            "dtype.bits": "(uint8_t)32",
            "dtype.lanes": "(uint16_t)1",
            "byte_offset": "(uint64_t)0",
            "device.device_id": "0",
            "device.device_type": "(DLDeviceType)1",
        }
        lines += [f"  ((int64_t*)stack_shape)[{2 * i}] = (int64_t)1;"]
        lines += [f"  ((int64_t*)stack_shape)[{2 * i + 1}] = (int64_t){size};"]
        lines += [f"  ({tensor}.{field}) = {value};" for field, value in fields.items()]
        lines += [f"  (((TVMValue*)stack_value)[{i}].v_handle) = (((DLTensor*)stack_array) + {i});"]
        lines += [f"  ((int32_t*)stack_tcode)[{i}] = 7;"]
    lines += [f"  TVMValue ret{call};\n  int code{call};"]
    lines += [
        f"  if ({prefix}{kernel}( (TVMValue*) stack_value , (int*) stack_tcode, {len(names)}, &ret{call}, "
        f"&code{call}, NULL) != 0){{\n    return -1;\n  }}"
    ]
    return "\n".join(lines)


def _run(name: str, prefix: str, interface: str) -> str:
    """The run function, which passes the fields of its structs, or pools of its own file, to main."""
    more = {"static": ",&global_const_workspace,&global_workspace", "pools": ",workspace_pools->sram"}
    parameter = f",struct {prefix}workspace_pools* workspace_pools" if interface == "pools" else ""
    types = ",uint8_t* constants" * (interface == "static") + ",uint8_t* pool" * _has_pools(interface)
    return (
        '#include "tvm/runtime/c_runtime_api.h"\n'
        f"{_CONSTANTS if interface == 'static' else ''}#include <tvmgen_{name}.h>\n"
        f"TVM_DLL int32_t {prefix}__tvm_main__(void* x,void* output0{types});\n"
        f"int32_t {prefix}run(struct {prefix}inputs* inputs,struct {prefix}outputs* outputs{parameter}) {{"
        f"return {prefix}__tvm_main__(inputs->x,outputs->output{more.get(interface, '')});\n}}\n"
    )


def _pool_header(prefix: str, text: str) -> str:
    macro = f"#define {prefix.upper()}SRAM_WORKSPACE_POOL_SIZE {POOL_BYTES}\n"
    struct = f"struct {prefix}workspace_pools {{\n  void* sram;\n}};\n"
    run = f"int32_t {prefix}run(\n"
    text = text.replace(run, struct + macro + run)
    last = f"  struct {prefix}outputs* outputs\n"
    return text.replace(last, f"{last.rstrip()},\n  struct {prefix}workspace_pools* workspace_pools\n")
