# SPDX-License-Identifier: Apache-2.0
"""The C code and the graph nodes of the archives that ``archives`` builds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archives import Spec

_PREAMBLE = """\
// tvm target: c -keys=cpu
#define TVM_EXPORTS
#include "tvm/runtime/c_runtime_api.h"
#include "tvm/runtime/c_backend_api.h"
#include <math.h>
"""
_EXTERN = '#ifdef __cplusplus\nextern "C"\n#endif\n'
_CTYPE = {"float32": "float", "int8": "int8_t"}
_STEPS = {
    "fused_multiply": ("x", "(void*)constant_p0", "sid_1"),
    "fused_smooth": ("sid_1", "sid_2"),
    "fused_add_relu": ("sid_2", "(void*)constant_p1", "output"),
}
_KERNELS = tuple(_STEPS)


# ---- graph nodes ----


def null_node(name: str) -> dict[str, Any]:
    return {"op": "null", "name": name, "inputs": []}


def call_node(spec: Spec, function: str, inputs: list[int]) -> dict[str, Any]:
    name = spec.prefix + function
    attrs = {"num_outputs": "1", "num_inputs": str(len(inputs)), "flatten_data": "0", "func_name": name}
    return {"op": "tvm_op", "name": name, "attrs": attrs, "inputs": [[node, 0, 0] for node in inputs]}


def nop_node(source: int) -> dict[str, Any]:
    attrs = {"num_outputs": "1", "num_inputs": "1", "flatten_data": "0", "func_name": "__nop"}
    return {"op": "tvm_op", "name": "reshape_nop", "attrs": attrs, "inputs": [[source, 0, 0]]}


def relay(spec: Spec) -> str:
    tensor = f"Tensor[(1, 8), {spec.dtype}]"
    return f"def @main(%x: {tensor}, %w: {tensor}, %b: {tensor}) {{\n  multiply(%x, %w)\n}}\n"


# ---- kernels ----


def code(spec: Spec) -> dict[str, str]:
    """Code files by their name under codegen/host."""
    if spec.kind == "operator":
        return {"src/lib0.c": _registry(spec, ["scale", "__tvm_main__"]), "src/lib1.c": _operator(spec)}
    if spec.kind == "graph":
        names = [spec.prefix + kernel for kernel in _KERNELS]
        kernels = _PREAMBLE + "".join(_packed(spec, kernel) for kernel in _KERNELS)
        return {f"src/{spec.stem}lib0.c": _registry(spec, names), f"src/{spec.stem}lib1.c": kernels}
    if spec.kind == "aot-packed":
        kernels = _PREAMBLE + _constants(spec) + "".join(_packed(spec, kernel) for kernel in _KERNELS)
        return {
            f"src/{spec.stem}lib0.c": _packed_run(spec),
            f"src/{spec.stem}lib1.c": kernels + _packed_main(spec),
        }
    kernels = _PREAMBLE + _constants(spec) + "".join(_unpacked(spec, kernel) for kernel in _KERNELS)
    return {
        f"src/{spec.stem}lib0.c": _interface_run(spec),
        f"src/{spec.stem}lib1.c": kernels + _unpacked_main(spec),
        f"include/tvmgen_{spec.name}.h": header(spec),
    }


def _arguments(kernel: str) -> list[str]:
    return ["in", "out"] if kernel == "fused_smooth" else ["in", "other", "out"]


def _body(spec: Spec, kernel: str) -> str:
    """Statements of a kernel over the pointers of ``_arguments``."""
    t = _CTYPE[spec.dtype]
    integer = spec.dtype == "int8"
    if kernel == "fused_multiply":
        value = f"(({t}*)in)[i] * (({t}*)other)[i]"
        inner = _store(f"({value}) >> 4", -128) if integer else f"    ((float*)out)[i] = {value};\n"
        return _loop(8, inner)
    if kernel == "fused_add_relu":
        value = f"(({t}*)in)[i] + (({t}*)other)[i]"
        if integer:
            return _loop(8, _store(value, 0))
        return _loop(
            8, f"    float v = {value};\n    ((float*)out)[i] = v > 0.000000e+00f ? v : 0.000000e+00f;\n"
        )
    wide, code_, size = ("int32_t", 0, 40) if integer else ("float", 2, 40)
    neighbours = f"((({wide}*)pad)[i] + (({wide}*)pad)[i + 1]) + (({wide}*)pad)[i + 2]"
    inside = f"(1 <= i) && (i < 9) ? ({wide})((({t}*)in)[i - 1]) : ({wide})0"
    return (
        f"  void* pad = TVMBackendAllocWorkspace(1, dev_id, (uint64_t){size}, {code_}, 32);\n"
        "  if (pad == NULL) {\n    return -1;\n  }\n"
        + _loop(10, f"    (({wide}*)pad)[i] = {inside};\n")
        + _loop(
            8, _store(f"({neighbours}) >> 1", -128) if integer else f"    ((float*)out)[i] = {neighbours};\n"
        )
        + "  if (TVMBackendFreeWorkspace(1, dev_id, pad) != 0) {\n    return -1;\n  }\n"
    )


def _loop(count: int, inner: str) -> str:
    return f"  for (int32_t i = 0; i < {count}; ++i) {{\n{inner}  }}\n"


def _store(value: str, low: int) -> str:
    return (
        f"    int32_t v = {value};\n"
        f"    v = v < {low} ? {low} : v;\n"
        "    ((int8_t*)out)[i] = (int8_t)(v > 127 ? 127 : v);\n"
    )


def _packed_signature(spec: Spec) -> str:
    codes = "int32_t*" if spec.version >= 6 else "void*"
    return (
        f"(void* args, {codes} arg_type_ids, int32_t num_args, void* out_ret_value, "
        f"{codes} out_ret_tcode, void* resource_handle)"
    )


def _unpack(names: list[str]) -> str:
    lines = []
    for index, name in enumerate(names):
        lines += [f"  void* arg{index} = (((TVMValue*)args)[{index}].v_handle);"]
        lines += [f"  void* {name} = (((DLTensor*)arg{index})[0].data);"]
    lines += ["  int32_t dev_id = (((DLTensor*)arg0)[0].device.device_id);"]
    return "\n".join(lines) + "\n  (void)dev_id;\n"


def _packed(spec: Spec, kernel: str) -> str:
    signature = f"TVM_DLL int32_t {spec.prefix}{kernel}{_packed_signature(spec)} {{\n"
    return _EXTERN + signature + _unpack(_arguments(kernel)) + _body(spec, kernel) + "  return 0;\n}\n\n"


def _unpacked(spec: Spec, kernel: str) -> str:
    parameters = ", ".join(f"void* {name}" for name in _arguments(kernel))
    signature = f"TVM_DLL int32_t {spec.prefix}{kernel}({parameters}) {{\n"
    return (
        _EXTERN
        + signature
        + "  int32_t dev_id = 0;\n  (void)dev_id;\n"
        + _body(spec, kernel)
        + "  return 0;\n}\n\n"
    )


def _operator(spec: Spec) -> str:
    t = _CTYPE[spec.dtype]
    body = _unpack(["A", "B"]) + _loop(8, f"    (({t}*)B)[i] = ({t})((({t}*)A)[i] * ({t})2);\n")
    main = "  return scale(args, arg_type_ids, num_args, out_ret_value, out_ret_tcode, resource_handle);\n"
    return (
        f"{_PREAMBLE}{_EXTERN}TVM_DLL int32_t scale{_packed_signature(spec)} {{\n{body}  return 0;\n}}\n\n"
        f"{_EXTERN}TVM_DLL int32_t __tvm_main__{_packed_signature(spec)} {{\n{main}}}\n"
    )


def _registry(spec: Spec, names: list[str]) -> str:
    """The system-lib registry, whose prototypes are not those of the kernels."""
    last = ", void* resource_handle" if spec.version >= 6 else ""
    arguments = (
        f"(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code{last})"
    )
    prototypes = "".join(f"{_EXTERN}TVM_DLL int32_t {name}{arguments};\n" for name in names)
    table = "".join(f"    (TVMBackendPackedCFunc){name},\n" for name in names)
    packed_names = f"\\{len(names):03o}\\000" + "".join(f"{name}\\000" for name in names)
    return (
        "#include <tvm/runtime/crt/module.h>\n"
        + prototypes
        + "static TVMBackendPackedCFunc _tvm_func_array[] = {\n"
        f'{table}}};\nstatic const TVMFuncRegistry _tvm_func_registry = {{\n    "{packed_names}", _tvm_func_array,\n}};\n'
        "static const TVMModule _tvm_system_lib = {\n    &_tvm_func_registry,\n};\n"
        "const TVMModule* TVMSystemLibEntryPoint(void) {\n    return &_tvm_system_lib;\n}\n;"
    )


# ---- ahead of time ----


def _constants(spec: Spec) -> str:
    from archives import parameters

    lines = []
    for name, value in parameters(spec).items():
        numbers = ", ".join(
            f"{number!r}f" if spec.dtype == "float32" else str(number) for number in value.flat
        )
        numbers = numbers.replace("np.float32(", "").replace(")", "")
        lines += [f"static const {_CTYPE[spec.dtype]} constant_{name}[8] = {{{numbers}}};\n"]
    return "".join(lines)


def main_name(spec: Spec) -> str:
    return spec.prefix + ("__tvm_main__" if spec.version == 7 else "run_model")


def _around(spec: Spec, calls: str) -> str:
    """Calls between the allocation and the release of the intermediate tensors."""
    size = 8 * spec.element.size_bytes
    alloc = "".join(
        f"  void* {sid} = TVMBackendAllocWorkspace(1, 0, (uint64_t){size}, 0, 8);\n"
        f"  if ({sid} == NULL) {{\n    return -1;\n  }}\n"
        for sid in ("sid_1", "sid_2")
    )
    free = "".join(
        f"  if (TVMBackendFreeWorkspace(1, 0, {sid}) != 0) {{\n    return -1;\n  }}\n"
        for sid in ("sid_2", "sid_1")
    )
    return alloc + calls + free + "  return 0;\n}\n"


def _unpacked_main(spec: Spec) -> str:
    calls = "".join(
        f"  if ({spec.prefix}{name}({', '.join(arguments)}) != 0 ) return -1;\n"
        for name, arguments in _STEPS.items()
    )
    return f"{_EXTERN}TVM_DLL int32_t {main_name(spec)}(void* x, void* output) {{\n" + _around(spec, calls)


def _packed_main(spec: Spec) -> str:
    """Straight-line code that describes the tensors of each call on the stack."""
    start = (
        f"TVM_DLL int32_t {main_name(spec)}{_packed_signature(spec)} {{\n"
        "  TVMValue stack[2];\n  void* stack_tcode = stack;\n  TVMValue stack_1[3];\n  void* stack_value = stack_1;\n"
        "  TVMValue stack_2[18];\n  void* stack_array = stack_2;\n  TVMValue stack_3[2];\n"
        "  void* stack_shape = stack_3;\n"
        "  void* arg_x = (((TVMValue*)args)[0].v_handle);\n  void* arg_output = (((TVMValue*)args)[1].v_handle);\n"
        "  void* x = (((DLTensor*)arg_x)[0].data);\n  void* output = (((DLTensor*)arg_output)[0].data);\n"
        "  ((int64_t*)stack_shape)[0] = (int64_t)1;\n  ((int64_t*)stack_shape)[1] = (int64_t)8;\n"
    )
    steps = [
        _packed_call(spec, name, index, arguments) for index, (name, arguments) in enumerate(_STEPS.items())
    ]
    return _EXTERN + start + _around(spec, "".join(steps))


def _packed_call(spec: Spec, name: str, index: int, arguments: tuple[str, ...]) -> str:
    dtype = spec.element
    lines = []
    for i, data in enumerate(arguments):
        tensor = f"((DLTensor*)stack_array)[{i}]"
        lines += [
            f"  ({tensor}.data) = {data};",
            f"  ({tensor}.shape) = (&(((int64_t*)stack_shape)[0]));",
            f"  ({tensor}.strides) = NULL;",
            f"  ({tensor}.ndim) = (uint32_t)2;",
            f"  ({tensor}.dtype.code) = (uint8_t){dtype.code};",
            f"  ({tensor}.dtype.bits) = (uint8_t){dtype.bits};",
            f"  ({tensor}.dtype.lanes) = (uint16_t)1;",
            f"  ({tensor}.byte_offset) = (uint64_t)0;",
            f"  ({tensor}.device.device_id) = 0;",
            f"  ({tensor}.device.device_type) = (DLDeviceType)1;",
            f"  (((TVMValue*)stack_value)[{i}].v_handle) = (((DLTensor*)stack_array) + {i});",
            f"  ((int32_t*)stack_tcode)[{i}] = 7;",
        ]
    lines += [
        f"  TVMValue ret_val{index};",
        f"  int ret_type_code{index};",
        f"  if ({spec.prefix}{name}( (TVMValue*) stack_value , (int*) stack_tcode, {len(arguments)}, "
        f"&ret_val{index}, &ret_type_code{index}, NULL) != 0){{",
        "    return -1;",
        "  }",
    ]
    return "\n".join(lines) + "\n"


_RUN = "(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code, void* resource_handle)"


def _packed_run(spec: Spec) -> str:
    return (
        '#include "tvm/runtime/c_runtime_api.h"\n#ifdef __cplusplus\nextern "C" {\n#endif\n'
        f"TVM_DLL int32_t {main_name(spec)}{_RUN};\nint32_t {spec.prefix}run{_RUN} {{\n"
        "TVMValue tensors[2];\ntensors[0] = ((TVMValue*)args)[0];\ntensors[1] = ((TVMValue*)args)[1];\n"
        f"return {main_name(spec)}((void*)tensors, type_code, num_args, out_value, out_type_code, resource_handle);\n"
        "}\n#ifdef __cplusplus\n}\n#endif\n;"
    )


def _interface_run(spec: Spec) -> str:
    p = spec.prefix
    return (
        '#include "tvm/runtime/c_runtime_api.h"\n#ifdef __cplusplus\nextern "C" {\n#endif\n'
        f"#include <tvmgen_{spec.name}.h>\nTVM_DLL int32_t {main_name(spec)}(void* x,void* output0);\n"
        f"int32_t {p}run(struct {p}inputs* inputs,struct {p}outputs* outputs) {{"
        f"return {main_name(spec)}(inputs->x,outputs->output);\n}}\n#ifdef __cplusplus\n}}\n#endif\n;"
    )


def header(spec: Spec) -> str:
    """The C interface header, with macros as wrong as TVM's."""
    p = spec.prefix
    guard = f"{p.upper()}H_"
    return (
        f'#ifndef {guard}\n#define {guard}\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern "C" {{\n#endif\n\n'
        f'/*!\n * \\brief Input tensor x size (in bytes) for TVM module "{spec.name}"\n */\n'
        f"#define {p.upper()}X_SIZE -1717804352\n"
        f"struct {p}inputs {{\n  void* x;\n}};\n\nstruct {p}outputs {{\n  void* output;\n}};\n\n"
        f"int32_t {p}run(\n  struct {p}inputs* inputs,\n  struct {p}outputs* outputs\n);\n"
        f"#define {p.upper()}WORKSPACE_SIZE {16 * spec.element.size_bytes + 40}\n\n"
        "#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
    )
