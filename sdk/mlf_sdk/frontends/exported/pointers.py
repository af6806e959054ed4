# SPDX-License-Identifier: Apache-2.0
"""Variables through which LLVM's kernels reach the runtime: defined by a source of our own.

An object that is no system library calls the runtime through weak variables, which TVM's loader fills. Here
constants of the same names take their place when the image is linked.
"""

from __future__ import annotations

from typing import Final

from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.code import CodeFile, CodeIndex, index_code
from mlf_sdk.tools.ctext import ALLOCATE

MEMBER: Final = "exported/pointers.c"

_TYPES: Final = {
    "TVMAPISetLastError": "void (*const {})(const char *)",
    "TVMBackendParallelLaunch": "int (*const {})(FTVMParallelLambda, void *, int)",
    "TVMBackendParallelBarrier": "int (*const {})(int, TVMParallelGroupEnv *)",
}
_UNUSED: Final = frozenset(
    {"__tvm_module_ctx", "__tvm_ffi_library_ctx", "__tvm_ffi__library_ctx", "__tvm_main__"}
)
_HEAD: Final = """\
/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the runtime that the model's objects call through variables. */
#include <tvm/runtime/c_backend_api.h>
"""


def pointers_of(code: CodeIndex) -> tuple[str, ...]:
    """Variables that objects of the code have for functions of the runtime."""
    names = (name for info in code.objects.values() for name in info.defined)
    return tuple(dict.fromkeys(n for n in names if n.startswith("__TVM") and n not in _UNUSED))


def with_pointers(code: CodeIndex, faults: FaultCollector) -> CodeIndex:
    """The code, with a source that defines these variables."""
    pointers = pointers_of(code)
    if not pointers:
        return code
    lines = [
        f"extern {declared};\n{declared} = {name[2:]};\n"
        for name in pointers
        if (declared := _TYPES.get(name[2:], "").format(name))
    ]
    file = CodeFile(member=MEMBER, kind="c", data=(_HEAD + "".join(lines)).encode())
    return index_code([*code.files.values(), file], faults)


def pointer_problem(code: CodeIndex) -> str:
    """The reason why no source can define these variables; empty for none."""
    other = [name[2:] for name in pointers_of(code) if name[2:] not in _TYPES]
    if not other:
        return ""
    what = f"its objects call {', '.join(other)} through variables, which is not supported"
    if ALLOCATE in other:
        what = f"its objects call {ALLOCATE} through a variable: their workspaces are not known"
    return f"{what}; export it with the C target, or as a system library"
