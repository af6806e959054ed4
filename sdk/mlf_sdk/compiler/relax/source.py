# SPDX-License-Identifier: Apache-2.0
"""C text of one function of loops, by TVM's generator, as a kernel.

Three defects of that generator are avoided. It remembers the operands of a maximum or minimum by their text
and reuses old values after the memory behind them has changed; these become calls. It prints real numbers
with seven digits, and infinities as ``inff``; these become the shortest numbers that are read back as the
same. It knows no ``restrict``; the kernels' own heads have it. Arrays on the stack of more than a few bytes
become parts of the workspace.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.kernels.kernel import Kernel, Parameter, Role, c_type
from mlf_sdk.compiler.relax.lower import flattened
from mlf_sdk.compiler.relax.package import TvmObject, require_tvm, tvm_version
from mlf_sdk.errors import InputError

_ON_STACK_BYTES: Final = 256
_ALIGNMENT: Final = 16
_REAL: Final = re.compile(r"\bmlf_real_([0-9a-f]+)\(\)")
_ARRAY: Final = re.compile(r"^( *)(\w+) (\w+)\[(\d+)\];$", re.MULTILINE)
_SIZES: Final = {
    "float": 4, "double": 8, "bool": 1, "int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2,
    "int32_t": 4, "uint32_t": 4, "int64_t": 8, "uint64_t": 8,
}  # fmt: skip
_BOOL: Final = "#include <stdbool.h>\n"
_OF_C: Final = {  # functions that TVM's generator doesn't know
    f"tirx.{name}": name
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos", "cosh", "erf",
        "exp", "exp2", "fabs", "floor", "fmod", "hypot", "log", "log10", "log1p", "log2", "nearbyint",
        "nextafter", "pow", "round", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    )
}  # fmt: skip
_EXTREME: Final = """static inline {type} mlf_{what}_{dtype}({type} a, {type} b)
{{
    return {test} ? a : b;
}}
"""


def kernel_of(function: TvmObject, name: str, inputs: Sequence[Value], outputs: Sequence[Value]) -> Kernel:
    """The kernel of a function of loops.

    Args:
        name: of the function, for the kernel's family.
        inputs, outputs: what its parameters point to, in order.

    Raises:
        InputError: it calls functions of TVM's runtime, which small processors don't have.
    """
    used: dict[str, str] = {}
    text = _generated(_safe(flattened(function), len(inputs), used))
    text = _REAL.sub(lambda m: _literal(bytes.fromhex(m[1])), text)
    text, workspace_bytes = _with_workspace(text)
    if re.search(r"\bbool\b", text) or any(v.dtype == np.bool_ for v in (*inputs, *outputs)):
        used["bool"] = _BOOL
    parameters = [Parameter(Role.INPUT, i, _type(v.dtype)) for i, v in enumerate(inputs)]
    parameters += [Parameter(Role.OUTPUT, i, _type(v.dtype)) for i, v in enumerate(outputs)]
    unread = [p.name for p in parameters if not re.search(rf"\b{p.name}\b", text)]
    text = "".join(f"  (void){name};\n" for name in unread) + text
    if workspace_bytes:
        parameters.append(Parameter(Role.WORKSPACE, 0, "uint8_t"))
    return Kernel(
        family=f"tvm_{re.sub('[^A-Za-z0-9_]', '_', name)[:48]}",
        parameters=tuple(parameters),
        body=text,
        helpers=dict(sorted(used.items())),
        workspace_bytes=workspace_bytes,
        origin=f"TVM {tvm_version()}",
    )


def _type(dtype: np.dtype[Any]) -> str:
    return "bool" if dtype == np.bool_ else c_type(dtype)


def _safe(function: TvmObject, inputs: int, used: dict[str, str]) -> TvmObject:
    """The function with pointers as parameters, and without what the generator gets wrong."""
    tvm = require_tvm("Relax module")
    from tvm_ffi import structural_map, structural_walk

    tirx = tvm.tirx
    foreign: set[str] = set()

    def look(call: TvmObject) -> None:
        if "packed" in str(call.op):
            foreign.add(str(call.args[0]).strip('"'))

    def extreme(node: TvmObject) -> TvmObject:
        what, dtype = ("max", ">") if isinstance(node, tirx.Max) else ("min", "<"), str(node.ty.dtype)
        test = f"a {what[1]} b" + (" || a != a" if dtype.startswith("float") else "")
        key = f"mlf_{what[0]}_{dtype}"
        used[key] = _EXTREME.format(what=what[0], dtype=dtype, type=_type(np.dtype(dtype)), test=test)
        return tirx.call_pure_extern(dtype, key, node.a, node.b)

    def real(node: TvmObject) -> TvmObject:
        dtype = str(node.ty.dtype)
        if dtype not in ("float32", "float64"):
            return node
        stored = np.array(node.value, np.dtype(dtype).newbyteorder(">")).tobytes()
        return tirx.call_pure_extern(dtype, f"mlf_real_{stored.hex()}")

    def known(call: TvmObject) -> TvmObject:
        dtype, name = str(getattr(call.ty, "dtype", "")), str(getattr(call.op, "name", ""))
        if name not in _OF_C or dtype not in ("float32", "float64"):
            return call
        return tirx.call_pure_extern(dtype, _OF_C[name] + ("f" if dtype == "float32" else ""), *call.args)

    structural_walk(function.body, (tvm.ir.Call, look))
    if foreign:
        raise InputError(f"it needs {', '.join(sorted(foreign))} of TVM's runtime", where="function of TVM")
    changes = [((tirx.Max, tirx.Min), extreme), (tirx.FloatImm, real), (tvm.ir.Call, known)]
    body = structural_map(function.body, changes)
    pointers, declared = [], []
    for position, parameter in enumerate(function.params):
        name = f"x{position}" if position < inputs else f"y{position - inputs}"
        pointer = tirx.Var(name, tvm.ir.PointerType(parameter.ty.dtype))
        pointers.append(pointer)
        offset = getattr(parameter.ty, "elem_offset", None)
        if isinstance(offset, tirx.Var):
            declared.append(tirx.Bind(offset, tirx.IntImm(str(offset.ty.dtype), 0)))
        declared.append(tirx.DeclBuffer(parameter, data=pointer))
    made = tirx.PrimFunc(pointers, tirx.SeqStmt([*declared, body]), attrs=function.attrs)
    return made.without_attr("tirx.is_entry_func")


def _generated(function: TvmObject) -> str:
    """Body of the function in C, without its braces."""
    tvm = require_tvm("Relax module")
    generate = tvm.get_global_func("target.build.c")
    try:
        made = generate(tvm.IRModule({"kernel": function}), tvm.target.Target("c"))
    except tvm.error.InternalError as error:
        said = str(error).strip().splitlines()[-1][:200]
        raise InputError(f"TVM's generator of C refuses it: {said}", where="function of TVM") from error
    text = str(made.inspect_source())
    start = text.rindex(" kernel(")
    return text[text.index("{\n", start) + 2 : text.rindex("}")]


def _literal(stored: bytes) -> str:
    """Constant of C for a real number of 4 or 8 bytes: the shortest one that is read back as the same."""
    dtype, suffix = (">f4", "f") if len(stored) == 4 else (">f8", "")
    number = str(np.frombuffer(stored, dtype)[0])
    special = {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}
    shown = special.get(number, f"{number}{suffix}")
    return f"({shown})" if shown.startswith("-") else shown


def _with_workspace(text: str) -> tuple[str, int]:
    """The text with its large arrays in the workspace, and the bytes of that."""
    taken = 0

    def place(result: re.Match[str]) -> str:
        nonlocal taken
        indent, type_, name, count = result[1], result[2], result[3], int(result[4])
        size = _SIZES.get(type_, 16) * count
        if size <= _ON_STACK_BYTES:
            return result[0]
        offset, taken = taken, taken + math.ceil(size / _ALIGNMENT) * _ALIGNMENT
        return f"{indent}{type_} *restrict {name} = ({type_} *)(b0 + {offset});"

    return _ARRAY.sub(place, text), taken


__all__ = ["kernel_of"]
