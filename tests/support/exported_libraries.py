# SPDX-License-Identifier: Apache-2.0
"""Exported libraries in the form of TVM's, made byte by byte: serialized modules, bytecode, archives."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import archives
from glow_bundles import FUNCTION, OBJECT, Elf
from mlf_sdk.frontends.exported.bytecode import SCOPED_MAGIC
from mlf_sdk.frontends.mlf.content import NamedTensor
from mlf_sdk.frontends.mlf.params import write_params
from mlf_sdk.ir.dtype import DType

OLD, MIDDLE, NEW = "__tvm_dev_mblob", "__tvm_ffi_library_bin", "__tvm_ffi__library_bin"
VOID, MACHINE = 1 << 54, (1 << 54) + 1
Part = tuple[str, bytes | None]  # kind, payload

ADD = """\
#include "tvm/ffi/extra/c_env_api.h"
#include "tvm/runtime/base.h"
#include "tvm/runtime/c_backend_api.h"
#include "tvm/ffi/c_api.h"
void* __tvm_ffi__library_ctx = NULL;
TVM_DLL int32_t __tvm_ffi_add(void* self_handle, void* args, int32_t num_args, void* result) {
  if (!((num_args == 3))) {
    const char* parts[1] = {"Expected 3 arguments"};
    TVMFFIErrorSetRaisedFromCStrParts("TypeError", parts, 1);
    return -1;
  }
  DLTensor* a = (DLTensor*)(((TVMFFIAny*)args)[0].v_ptr);
  DLTensor* b = (DLTensor*)(((TVMFFIAny*)args)[1].v_ptr);
  DLTensor* c = (DLTensor*)(((TVMFFIAny*)args)[2].v_ptr);
  if (!((((TVMFFIAny*)args)[2].type_index) == 7)) {
    return -1;
  }
  for (int32_t i = 0; i < 4; ++i) {
    ((float*)(c->data))[i] = ((float*)(a->data))[i] + ((float*)(b->data))[i];
  }
  return 0;
}
"""


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def numbers(*values: int) -> bytes:
    return struct.pack(f"<Q{len(values)}q", len(values), *values)


def texts(*values: str) -> bytes:
    return struct.pack("<Q", len(values)) + b"".join(map(text, values))


def named(name: str, array: Any) -> NamedTensor:
    value = np.asarray(array)
    return NamedTensor(
        name=name, dtype=DType.parse(str(value.dtype)), shape=value.shape, data=value.tobytes()
    )


def record(tensor: NamedTensor) -> bytes:
    """A tensor as it is serialized."""
    name = len(tensor.name.encode())
    return write_params([tensor])[24 + 8 + name + 8 :]


def factory(graph: bytes, params: Sequence[NamedTensor], name: str, *, stated: int | None = None) -> bytes:
    """Payload of a graph executor's factory."""
    return struct.pack("<Q", len(graph)) + graph + aot(params, name, stated=stated)


def aot(params: Sequence[NamedTensor], name: str, *, stated: int | None = None) -> bytes:
    """Payload of an AOT executor's factory."""
    head = struct.pack("<Q", len(params) if stated is None else stated) + texts(*(p.name for p in params))
    return head + b"".join(map(record, params)) + text(name)


def loader(
    params: Sequence[NamedTensor], symbols: dict[str, list[str]], *, lists: int | None = None
) -> bytes:
    """Payload of a loader of constants."""
    body = texts(*(p.name for p in params)) + struct.pack("<Q", len(params)) + b"".join(map(record, params))
    body += texts(*symbols) + struct.pack("<Q", len(symbols) if lists is None else lists)
    return body + b"".join(texts(*names) for names in symbols.values())


def old_modules(
    *parts: Part, rows: Sequence[int] | None = (0, 1, 1), children: Sequence[int] = (1,)
) -> bytes:
    """Serialized modules of the old layout; rows None: without an import tree."""
    body = b"".join(text(kind) + (payload or b"") for kind, payload in parts)
    count = len(parts)
    if rows is not None:
        body += text("_import_tree") + numbers(*rows) + numbers(*children)
        count += 1
    return sized(struct.pack("<Q", count) + body)


def new_modules(*parts: Part, rows: Sequence[int] = (0, 1, 1), children: Sequence[int] = (1,)) -> bytes:
    """Serialized modules of the new layout."""
    body = numbers(*rows) + numbers(*children)
    for kind, payload in parts:
        body += text(kind) + (b"" if payload is None else struct.pack("<Q", len(payload)) + payload)
    return sized(body)


def sized(body: bytes) -> bytes:
    return struct.pack("<Q", len(body)) + body


def array(blob: bytes, symbol: str = NEW, *, declared: int | None = None) -> bytes:
    """The serialized modules as ``devc.c`` has them."""
    values = ",".join(f"0x{byte:x}" for byte in blob)
    size = len(blob) if declared is None else declared
    head = f"#define TVM_EXPORT\nTVM_EXPORT extern const unsigned char {symbol}[];\n"
    return f"{head}const unsigned char {symbol}[{size}] = {{\n  {values}\n}};\n".encode()


def elf(blob: bytes, symbol: str = NEW, *, size: int = 0, **fields: Any) -> bytes:
    """The serialized modules as ``devc.o`` has them."""
    made = Elf({".rodata": (2, 0, blob)}, [(symbol, 1, 0, size, OBJECT)])
    return replace(made, **fields).build()


def shared_library(blob: bytes, *functions: str, symbol: str = NEW) -> bytes:
    """A linked library for x86-64."""
    made = Elf(bits=64, machine=62, type=3)
    made.sections = {".text": (6, 0x1000, b"\xc3" * 8), ".rodata": (2, 0x2000, b"\0" * 16 + blob)}
    made.symbols = [(symbol, 2, 0x2010, len(blob), OBJECT)]
    made.symbols += [(name, 1, 0x1000, 1, FUNCTION) for name in functions]
    return made.build()


# ---- bytecode ----


def register(number: int) -> int:
    return number


def immediate(value: int) -> int:
    return 1 << 56 | value & (1 << 56) - 1


def constant(index: int) -> int:
    return 2 << 56 | index


def function(index: int) -> int:
    return 3 << 56 | index


TYPES = {"tensor": 70, "shape": 69, "dtype": 5, "int": 1, "float": 3, "string": 65}


@dataclass
class Code:
    """Bytecode of one function ``main``, made call by call.

    Attributes:
        words: instructions.
        types: type index of each kind of constant.
    """

    parameters: tuple[str, ...] = ("x",)
    registers: int = 16
    name: str = "main"
    kind: int = 1
    magic: int = SCOPED_MAGIC
    scopes: tuple[tuple[int, str], ...] = ()
    types: dict[str, int] = field(default_factory=lambda: dict(TYPES))
    functions: list[str] = field(default_factory=list)
    constants: list[bytes] = field(default_factory=list)
    words: list[list[int]] = field(default_factory=list)
    start: int = 0
    end: int | None = None
    more: bytes = b""

    def constant(self, kind: str, value: Any) -> int:
        """Add a constant; its operand."""
        payload = {
            "tensor": lambda: record(named("", value)),
            "shape": lambda: numbers(*value),
            "dtype": lambda: struct.pack("<BBH", *value),
            "int": lambda: struct.pack("<q", value),
            "float": lambda: struct.pack("<d", value),
            "string": lambda: text(value),
        }[kind]()
        self.constants.append(struct.pack("<i", self.types[kind]) + payload)
        return constant(len(self.constants) - 1)

    def call(self, name: str, *arguments: int, to: int = VOID) -> Code:
        """Add a call of a kernel or a builtin."""
        if name not in self.functions:
            self.functions.append(name)
        index = 1 + self.functions.index(name)
        self.words.append([1, to, index, len(arguments), *arguments])
        return self

    def argument(self, number: int, *extents: int, dtype: tuple[int, int, int] = (2, 32, 1)) -> Code:
        """Add the checks of an argument."""
        kind, where = self.constant("dtype", dtype), self.constant("string", "where")
        self.call("vm.builtin.check_tensor_info", number, immediate(len(extents)), kind, where)
        rules = [v for extent in extents for v in (immediate(0), immediate(extent))]
        return self.call("vm.builtin.match_shape", number, VOID, immediate(len(extents)), *rules, where)

    def allocate(
        self, storage: int, tensor: int, *extents: int, size: int | None = None, offset: int = 0
    ) -> Code:
        """Add a memory and a float tensor in it."""
        needed = 4 * int(np.prod(extents)) if size is None else size
        shape, dtype = self.constant("shape", (needed,)), self.constant("dtype", (1, 8, 1))
        self.call(
            "vm.builtin.alloc_storage", MACHINE, shape, immediate(0), dtype, self.constant("string", "global"),
            to=storage,
        )  # fmt: skip
        extent, kind = self.constant("shape", extents), self.constant("dtype", (2, 32, 1))
        return self.call("vm.builtin.alloc_tensor", storage, immediate(offset), extent, kind, to=tensor)

    def returns(self, number: int) -> Code:
        """Add the end of the function."""
        self.words.append([2, number])
        return self

    def build(self) -> bytes:
        head = struct.pack("<Q", self.magic) + text("0.14")
        end = len(self.words) if self.end is None else self.end
        body = struct.pack("<Q", 1 + len(self.functions))
        body += struct.pack("<i", self.kind) + text(self.name)
        body += struct.pack("<4q", self.start, end, len(self.parameters), self.registers)
        body += texts(*self.parameters)
        for name in self.functions:
            body += struct.pack("<i", 0) + text(name) + struct.pack("<4q", 0, 0, -2, 0) + texts()
        if self.magic == SCOPED_MAGIC:
            body += struct.pack("<Q", len(self.scopes))
            body += b"".join(struct.pack("<q", index) + text(scope) for index, scope in self.scopes)
        body += struct.pack("<Q", len(self.constants)) + b"".join(self.constants)
        starts = np.cumsum([0, *map(len, self.words)])[:-1].tolist()
        words = [value for instruction in self.words for value in instruction]
        return head + body + numbers(*starts) + numbers(*words) + self.more


def adding(**changes: Any) -> Code:
    """Bytecode of y = (x + 1) + 1, as tensors of four floats."""
    made = replace(Code(), **changes)
    one = made.constant("tensor", np.ones((1, 4), np.float32))
    made.argument(0, 1, 4).allocate(1, 2, 1, 4).call("add", 0, one, 2)
    made.allocate(3, 4, 1, 4).call("add", 2, one, 4)
    return made.returns(4)


def relax_files(code: bytes, source: str = ADD, symbol: str = NEW) -> dict[str, bytes]:
    """Members of a library with bytecode."""
    made = new_modules if symbol == NEW else old_modules
    kind = "relax.VMExecutable"
    payload = code if symbol == NEW else sized(code)
    return {"lib0.c": source.encode(), "devc.c": array(made((kind, payload), ("_lib", None)), symbol)}


def graph_files(symbol: str = OLD, **changes: Any) -> dict[str, bytes]:
    """Members of a library with a graph, of the model of `archives.build`."""
    spec = replace(archives.Spec(), **changes)
    files = archives.build(spec)
    payload = factory(files[archives.graph_member(spec)], archives.tensors(spec), spec.name)
    modules = old_modules(("GraphExecutorFactory", payload), ("_lib", None))
    source = files[f"codegen/host/src/{spec.name}_lib1.c"]
    return {"lib0.c": source, "devc.c": array(modules, symbol)}


def write_library(files: dict[str, bytes], path: Path) -> Path:
    """Write the members as ``path``: an archive by its suffix, or a folder."""
    return archives.write(files, path)
