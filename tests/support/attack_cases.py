# SPDX-License-Identifier: Apache-2.0
"""Random archives: a random graph of random kernels, as C for the SDK and as numpy for the executor here.

A kernel is a row of loops over its arguments and workspaces. Each loop writes one buffer from others; the C
reaches each buffer in one of many forms (`FORMS`). All arithmetic is modulo 2**32. The executor (`expected`)
gives every tensor and workspace memory of its own and runs the nodes in their order; it shares no code with
the SDK. The same seed makes the same archive.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from archives import dump
from mlf_sdk.frontends.mlf.content import NamedTensor
from mlf_sdk.frontends.mlf.params import write_params
from mlf_sdk.ir.dtype import DType

Array = np.ndarray[Any, Any]
State = dict[str, Any]

TYPES = {"int8": "int8_t", "int16": "int16_t", "int32": "int32_t"}
RUNS = 2

_HEAD = """\
// tvm target: c -keys=cpu
#define TVM_EXPORTS
#include "tvm/runtime/c_runtime_api.h"
#include "tvm/runtime/c_backend_api.h"
#include <string.h>
"""


@dataclass(slots=True)
class Buffer:
    """Memory that a kernel reaches: an argument or a workspace; ``index`` of the argument or workspace."""

    kind: str  # "input", "output", "workspace"
    index: int
    dtype: str
    count: int
    pointer: str  # the void pointer in C

    @property
    def ctype(self) -> str:
        return TYPES[self.dtype]


@dataclass(slots=True)
class Tensor:
    name: str
    dtype: str
    count: int
    alias: int | None = None  # the tensor whose memory it shares: a reshape


@dataclass(slots=True)
class Node:
    function: str
    inputs: list[int]
    outputs: list[int]
    compute: Callable[[list[Array], list[Array], State], None] | None = None  # None: a reshape
    workspace_bytes: int = 0  # as the compiler states it


@dataclass(slots=True)
class Case:
    """One archive."""

    seed: int
    name: str
    tensors: list[Tensor] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    params: dict[int, Array] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    code: list[str] = field(default_factory=list)

    def values(self) -> list[list[Array]]:
        """The inputs of each run."""
        rng = np.random.default_rng(self.seed)
        return [[_random(rng, self.tensors[t]) for t in self.inputs] for _ in range(RUNS)]


def _random(rng: np.random.Generator, tensor: Tensor) -> Array:
    return rng.integers(-99, 99, tensor.count).astype(tensor.dtype)


# ---- forms in which C reaches a buffer ----

Form = tuple[str, str]
"""Statements before the loop, and the element: ``{at}`` is the index."""


def _direct(b: Buffer, q: str, case: Case) -> Form:
    return "", f"(({b.ctype}*){b.pointer})[{{at}}]"


def _typed(b: Buffer, q: str, case: Case) -> Form:
    return f"{b.ctype}* {q} = ({b.ctype}*){b.pointer};", f"{q}[{{at}}]"


def _sum(b: Buffer, q: str, case: Case) -> Form:
    return f"{b.ctype}* {q} = {b.pointer};", f"*({q} + ({{at}}))"


def _address(b: Buffer, q: str, case: Case) -> Form:
    return f"{b.ctype}* {q} = &(({b.ctype}*){b.pointer})[0];", f"{q}[{{at}}]"


def _extension(b: Buffer, q: str, case: Case) -> Form:
    return f"{b.ctype}* {q} = __extension__ &(({b.ctype}*){b.pointer})[0];", f"{q}[{{at}}]"


def _array_type(b: Buffer, q: str, case: Case) -> Form:
    return (
        f"typedef {b.ctype} {q}_row[{b.count}]; {b.ctype}* {q} = (({q}_row*){b.pointer})[0];",
        f"{q}[{{at}}]",
    )


def _designator(b: Buffer, q: str, case: Case) -> Form:
    return f"{b.ctype}* {q}[2] = {{ [1] = ({b.ctype}*){b.pointer} }};", f"{q}[1][{{at}}]"


def _struct(b: Buffer, q: str, case: Case) -> Form:
    text = (
        f"struct {{ int32_t n; {b.ctype}* at; }} {q} = {{ .n = {b.count}, .at = ({b.ctype}*){b.pointer} }};"
    )
    return text, f"{q}.at[{{at}}]"


def _union(b: Buffer, q: str, case: Case) -> Form:
    return f"union {{ void* v; {b.ctype}* t; }} {q}; {q}.v = {b.pointer};", f"{q}.t[{{at}}]"


def _number(b: Buffer, q: str, case: Case) -> Form:
    return f"uintptr_t {q} = (uintptr_t){b.pointer};", f"(({b.ctype}*){q})[{{at}}]"


def _ternary(b: Buffer, q: str, case: Case) -> Form:
    return f"{b.ctype}* {q} = dev_id >= 0 ? ({b.ctype}*){b.pointer} : NULL;", f"{q}[{{at}}]"


def _comma(b: Buffer, q: str, case: Case) -> Form:
    return f"{b.ctype}* {q}; int32_t {q}_n; {q}_n = 0, {q} = ({b.ctype}*){b.pointer};", f"{q}[{{at}} + {q}_n]"


def _through_address(b: Buffer, q: str, case: Case) -> Form:
    text = f"void* {q}_v; void** {q}_p = &{q}_v; *{q}_p = {b.pointer}; {b.ctype}* {q} = {q}_v;"
    return text, f"{q}[{{at}}]"


def _copied_pointer(b: Buffer, q: str, case: Case) -> Form:
    return f"{b.ctype}* {q}; memcpy(&{q}, &{b.pointer}, sizeof {q});", f"{q}[{{at}}]"


def _static_pointer(b: Buffer, q: str, case: Case) -> Form:
    return f"static {b.ctype}* {q}; {q} = ({b.ctype}*){b.pointer};", f"{q}[{{at}}]"


def _macro(b: Buffer, q: str, case: Case) -> Form:
    name = f"AT_{case.name}_{len(case.code)}"
    case.code.append(f"#define {name}(x, i) ((({b.ctype}*)(x))[(i)])\n")
    return "", f"{name}({b.pointer}, {{at}})"


def _macro_address(b: Buffer, q: str, case: Case) -> Form:
    name = f"REF_{case.name}_{len(case.code)}"
    case.code.append(f"#define {name} &\n")
    return f"{b.ctype}* {q} = {name} (({b.ctype}*){b.pointer})[0];", f"{q}[{{at}}]"


def _getter(b: Buffer, q: str, case: Case) -> Form:
    name = f"same_{case.name}_{len(case.code)}"
    case.code.append(f"static {b.ctype}* {name}(void* p) {{ return ({b.ctype}*)p; }}\n")
    return f"{b.ctype}* {q} = {name}({b.pointer});", f"{q}[{{at}}]"


def _setter(b: Buffer, q: str, case: Case) -> Form:
    name = f"set_{case.name}_{len(case.code)}"
    case.code.append(f"static void {name}({b.ctype}** to, void* p) {{ *to = ({b.ctype}*)p; }}\n")
    return f"{b.ctype}* {q}; {name}(&{q}, {b.pointer});", f"{q}[{{at}}]"


def _block(b: Buffer, q: str, case: Case) -> Form:
    return f"{b.ctype}* {q} = NULL; {{ {{ {q} = ({b.ctype}*){b.pointer}; }} }}", f"(0, {q})[{{at}}]"


def _bytes(b: Buffer, q: str, case: Case) -> Form:
    return f"uint8_t* {q} = (uint8_t*){b.pointer};", f"(({b.ctype}*)({q} + 0))[{{at}}]"


FORMS: dict[str, Callable[[Buffer, str, Case], Form]] = {
    function.__name__[1:]: function
    for function in (
        _direct, _typed, _sum, _address, _extension, _array_type, _designator, _struct, _union, _number,
        _ternary, _comma, _through_address, _copied_pointer, _static_pointer, _macro, _macro_address, _getter,
        _setter, _block, _bytes,
    )
}  # fmt: skip
_PLAIN = ("direct", "typed", "direct", "typed", "sum", "address")


# ---- kernels ----


@dataclass(frozen=True, slots=True)
class Read:
    """One operand of a loop: an element of a buffer by a rule for its index, times a factor."""

    buffer: Buffer
    scale: int
    offset: int
    factor: int

    def index(self) -> str:
        if (self.scale, self.offset) == (1, 0):
            return "i"
        return f"({self.scale} * i + {self.offset}) % {self.buffer.count}"

    def indices(self, count: int) -> Array:
        i = np.arange(count)
        return (
            i if (self.scale, self.offset) == (1, 0) else (self.scale * i + self.offset) % self.buffer.count
        )


@dataclass(frozen=True, slots=True)
class Loop:
    """``to[i] = sum of reads + step * i + add (+ state)`` for each element of ``to``, up or down."""

    to: Buffer
    reads: tuple[Read, ...]
    step: int
    add: int
    up: bool
    keeps: bool  # adds to what ``to`` holds already
    state: str  # name of a static counter that it adds and advances; empty: none


class _Kernel:
    """Draws one kernel: its loops, its C, and its meaning."""

    def __init__(self, case: Case, rng: random.Random, node: Node, *, tame: bool) -> None:
        self.case, self.rng, self.node, self.tame = case, rng, node, tame
        self.inputs = [self._argument("input", i, t) for i, t in enumerate(node.inputs)]
        self.outputs = [self._argument("output", i, t) for i, t in enumerate(node.outputs)]
        self.workspaces = [
            Buffer("workspace", i, rng.choice([*TYPES]), rng.randint(1, 40), f"w{i}")
            for i in range(rng.choice((0, 0, 1, 1, 2, 3)))
        ]
        self.keeper = self.kept = ""
        self.loops = self._loops()

    def _argument(self, kind: str, index: int, tensor: int) -> Buffer:
        found = self.case.tensors[tensor]
        return Buffer(kind, index, found.dtype, found.count, f"{kind[0]}{index}")

    def _loops(self) -> list[Loop]:
        rng = self.rng
        written: list[Buffer] = list(self.inputs)
        writable = [b for b in self.inputs if self.node.inputs[b.index] not in self.case.params]
        targets = [*self.workspaces, *self.outputs]
        rng.shuffle(targets)
        for _ in range(rng.choice((0, 0, 1, 2))):
            extra = rng.choice(self.outputs + self.workspaces + (writable if not self.tame else []))
            targets.insert(rng.randint(0, len(targets)), extra)
        loops, seen = [], {id(b) for b in self.inputs}
        for to in targets:
            pool = [b for b in written if rng.random() < 0.7] or written
            reads = tuple(self._read(rng.choice(pool), to) for _ in range(rng.randint(1, 2)))
            keeps = id(to) in seen and rng.random() < 0.5
            state = f"count_{self.node.function}" if not self.tame and rng.random() < 0.06 else ""
            if not self.tame and rng.random() < 0.04:
                state = f"shared_{self.case.name}"
            loops.append(
                Loop(to, reads, rng.randint(0, 9), rng.randint(0, 99), rng.random() < 0.8, keeps, state)
            )
            if id(to) not in seen:
                seen.add(id(to))
                written.append(to)
        return loops

    def _read(self, buffer: Buffer, to: Buffer) -> Read:
        rng = self.rng
        if buffer.count >= to.count and rng.random() < 0.5:
            return Read(buffer, 1, 0, rng.randint(1, 7))
        return Read(buffer, rng.randint(1, 5), rng.randint(1, 30), rng.randint(1, 7))

    # -- C --

    def text(self) -> str:
        node = self.node
        lines = []
        for position, b in enumerate([*self.inputs, *self.outputs]):
            lines.append(f"void* arg_{b.pointer} = (((TVMValue*)args)[{position}].v_handle);")
        for b in [*self.inputs, *self.outputs]:
            lines.append(f"void* {b.pointer} = (((DLTensor*)arg_{b.pointer})[0].data);")
        first = (self.inputs + self.outputs)[0].pointer
        lines.append(f"int32_t dev_id = (((DLTensor*)arg_{first})[0].device.device_id);")
        lines.append("(void)dev_id;")
        for b in self.workspaces:
            size = b.count * np.dtype(b.dtype).itemsize
            lines.append(
                f"void* {b.pointer} = TVMBackendAllocWorkspace(1, dev_id, (uint64_t){size}, 0, {8 * size // b.count});"
            )
            lines.append(f"if ({b.pointer} == NULL) {{ return -1; }}")
        for number, loop in enumerate(self.loops):
            lines += self._loop_text(loop, number)
        for b in reversed(self.workspaces):
            lines.append(f"if (TVMBackendFreeWorkspace(1, dev_id, {b.pointer}) != 0) {{ return -1; }}")
        lines += self._pointers_text()
        body = "\n".join(f"  {line}" for line in [*lines, "return 0;"])
        return (
            f"TVM_DLL int32_t {node.function}(void* args, int32_t* arg_type_ids, int32_t num_args, "
            f"void* out_ret_value, int32_t* out_ret_tcode, void* resource_handle) {{\n{body}\n}}\n"
        )

    def _pointers_text(self) -> list[str]:
        """Keep a pointer to the first input for a later kernel, or use one that was kept."""
        lines = []
        if self.keeper:
            lines.append(f"{self.keeper} = {self.inputs[0].pointer};")
        if self.kept:
            to = self.outputs[0]
            lines.append(
                f"for (int32_t i = 0; i < {to.count}; ++i) {{ (({to.ctype}*){to.pointer})[i] = ({to.ctype})"
                f"((uint32_t)(({to.ctype}*){to.pointer})[i] + (uint32_t)((int8_t*){self.kept})[0]); }}"
            )
        return lines

    def _loop_text(self, loop: Loop, number: int) -> list[str]:
        rng = self.rng
        lines = []
        elements = []
        for place, buffer in enumerate([loop.to, *(read.buffer for read in loop.reads)]):
            form = rng.choice(_PLAIN if rng.random() < 0.6 else [*FORMS])
            before, element = FORMS[form](buffer, f"q{number}_{place}", self.case)
            lines += [before] if before else []
            elements.append(element)
        to, *others = elements
        terms = [
            f"(uint32_t){element.format(at=read.index())} * {read.factor}u"
            for element, read in zip(others, loop.reads, strict=True)
        ]
        terms += [f"(uint32_t)i * {loop.step}u"] if loop.step else []
        terms += [f"{loop.add}u"]
        if loop.keeps:
            terms.append(f"(uint32_t){to.format(at='i')}")
        if loop.state:
            terms.append(loop.state)
        head = (
            f"int32_t i = 0; i < {loop.to.count}; ++i"
            if loop.up
            else f"int32_t i = {loop.to.count - 1}; i >= 0; --i"
        )
        inner = f"{to.format(at='i')} = ({loop.to.ctype})({' + '.join(terms)});"
        if loop.state:
            lines.append(f"{loop.state} = {loop.state} * 5u + 3u;")
        return [*lines, f"for ({head}) {{ {inner} }}"]

    # -- meaning --

    def compute(self, inputs: list[Array], outputs: list[Array], state: State) -> None:
        spaces = [np.zeros(b.count, b.dtype) for b in self.workspaces]
        memory = {"input": inputs, "output": outputs, "workspace": spaces}
        for loop in self.loops:
            if loop.state:
                state[loop.state] = (state.get(loop.state, 0) * 5 + 3) % 2**32
            to = memory[loop.to.kind][loop.to.index]
            order = range(loop.to.count) if loop.up else range(loop.to.count - 1, -1, -1)
            base = np.arange(loop.to.count, dtype=np.int64) * loop.step + loop.add
            base += state[loop.state] if loop.state else 0
            sources = [
                (memory[r.buffer.kind][r.buffer.index], r.indices(loop.to.count), r.factor)
                for r in loop.reads
            ]
            for i in order:  # one element at a time: a source may be what is written
                value = int(base[i]) + sum(int(array[at[i]]) * factor for array, at, factor in sources)
                value += int(to[i]) if loop.keeps else 0
                to[i] = np.array(value % 2**32, np.uint32).astype(to.dtype)
        if self.keeper:
            state[self.keeper] = inputs[0]
        if self.kept:
            first = int(state[self.kept].view(np.int8)[0])
            for i in range(self.outputs[0].count):
                value = int(outputs[0][i]) + first
                outputs[0][i] = np.array(value % 2**32, np.uint32).astype(outputs[0].dtype)


# ---- graphs ----


def make_case(seed: int, most_nodes: int = 99) -> Case:
    """The archive of a seed; of its graph no more than the first ``most_nodes`` nodes."""
    rng = random.Random(seed)
    case = Case(seed, f"a{seed}")
    tame = rng.random() < 0.4  # its kernels only read their inputs, and keep nothing

    def tensor(name: str, like: int | None = None) -> int:
        if like is None:
            case.tensors.append(Tensor(name, rng.choice([*TYPES]), rng.randint(1, 48)))
        else:
            case.tensors.append(Tensor(name, case.tensors[like].dtype, case.tensors[like].count, like))
        return len(case.tensors) - 1

    case.inputs = [tensor(f"x{i}") for i in range(rng.randint(1, 3))]
    for i in range(rng.choice((0, 0, 1, 2))):
        param = tensor(f"p{i}")
        case.params[param] = _random(np.random.default_rng([seed, i]), case.tensors[param])
    kept: list[str] = []
    static: list[str] = [f"static uint32_t shared_{case.name};\n"]
    kernels: list[str] = []
    for number in range(rng.randint(1, 9)):
        made = [n for node in case.nodes for n in node.outputs]
        if made and rng.random() < 0.08:
            source = rng.choice(made)
            node = Node("__nop", [source], [])
            node.outputs = [tensor(f"n{number}", like=source)]
        else:
            pool = [*case.inputs, *case.params, *made, *made[-3:]]
            node = Node(
                f"tvmgen_{case.name}_k{number}", [rng.choice(pool) for _ in range(rng.randint(1, 3))], []
            )
            node.outputs = [tensor(f"t{number}_{i}") for i in range(rng.choice((1, 1, 1, 1, 2)))]
            kernel = _Kernel(case, rng, node, tame=tame)
            static.append(f"static uint32_t count_{node.function};\n")
            if not tame and kept and rng.random() < 0.3:
                kernel.kept = rng.choice(kept)
            if not tame and rng.random() < 0.06:
                kernel.keeper = f"kept_{node.function}"
                static.append(f"static void* {kernel.keeper};\n")
                kept.append(kernel.keeper)
            kernels.append(kernel.text())
            node.compute = kernel.compute
            node.workspace_bytes = sum(
                -(-(b.count * np.dtype(b.dtype).itemsize) // 16) * 16 for b in kernel.workspaces
            )
        case.nodes.append(node)
        if len(case.nodes) >= most_nodes:
            break
    made = [n for node in case.nodes for n in node.outputs]
    last = [made[-1]]
    case.outputs = list(dict.fromkeys(last + rng.sample(made, min(len(made), rng.choice((0, 0, 1, 2))))))
    case.code = [_HEAD, *static, *case.code, *kernels]
    return case


def expected(case: Case) -> list[list[Array]]:
    """Outputs of each run, every tensor in memory of its own, nodes in their order."""
    memory: list[Array] = []
    for index, t in enumerate(case.tensors):
        own = case.params.get(index, np.zeros(t.count, t.dtype))
        memory.append(memory[t.alias] if t.alias is not None else own.copy())
    state: State = {}
    found = []
    for values in case.values():
        for tensor, value in zip(case.inputs, values, strict=True):
            memory[tensor][:] = value
        for node in case.nodes:
            if node.compute is not None:
                node.compute([memory[i] for i in node.inputs], [memory[o] for o in node.outputs], state)
        found.append([memory[o].copy() for o in case.outputs])
    return found


# ---- archives ----


def archive_of(case: Case) -> dict[str, bytes]:
    """The members of the archive."""
    functions = {n.function: n.workspace_bytes for n in case.nodes if n.compute is not None}
    params = [
        NamedTensor(
            name=case.tensors[i].name,
            dtype=DType.parse(case.tensors[i].dtype),
            shape=(case.tensors[i].count,),
            data=value.tobytes(),
        )
        for i, value in case.params.items()
    ]
    main = {"device": 1, "workspace_size_bytes": 0, "constants_size_bytes": 0, "io_size_bytes": 0}
    main |= {"inputs": {}, "outputs": {}}
    described = [
        {"function_name": name, "workspace": [{"device": 1, "workspace_size_bytes": size}]}
        for name, size in functions.items()
    ]
    module = {
        "model_name": case.name,
        "export_datetime": "2021-02-03 04:05:06Z",
        "memory": {"functions": {"main": [main], "operator_functions": described}, "sids": []},
        "target": ["c -keys=cpu"],
        "executors": ["graph"],
        "style": "full-model",
    }
    return {
        "metadata.json": dump({"modules": {case.name: module}, "version": 7}),
        f"codegen/host/src/{case.name}_lib1.c": "".join(case.code).encode(),
        f"executor-config/graph/{case.name}.graph": dump(_graph(case)),
        f"parameters/{case.name}.params": write_params(params),
        f"src/{case.name}.relay": b"",
    }


def _graph(case: Case) -> dict[str, Any]:
    place: dict[int, tuple[int, int]] = {}  # tensor -> node and output
    nodes: list[dict[str, Any]] = []
    order: list[int] = []  # tensors by entry
    rows = [0]
    for tensor in [*case.inputs, *case.params]:
        place[tensor] = (len(nodes), 0)
        nodes.append({"op": "null", "name": case.tensors[tensor].name, "inputs": []})
        order.append(tensor)
        rows.append(len(order))
    for number, node in enumerate(case.nodes):
        attrs = {"num_outputs": str(len(node.outputs)), "num_inputs": str(len(node.inputs))}
        attrs |= {"flatten_data": "0", "func_name": node.function}
        for output, tensor in enumerate(node.outputs):
            place[tensor] = (len(nodes), output)
            order.append(tensor)
        inputs = [[*place[t], 0] for t in node.inputs]
        name = node.function if node.compute is not None else f"reshape_{number}"
        nodes.append({"op": "tvm_op", "name": name, "attrs": attrs, "inputs": inputs})
        rows.append(len(order))

    def storage(tensor: int) -> int:
        alias = case.tensors[tensor].alias
        return tensor if alias is None else storage(alias)

    return {
        "nodes": nodes,
        "arg_nodes": list(range(len(case.inputs) + len(case.params))),
        "heads": [[*place[t], 0] for t in case.outputs],
        "attrs": {
            "dltype": ["list_str", [case.tensors[t].dtype for t in order]],
            "device_index": ["list_int", [1] * len(order)],
            "storage_id": ["list_int", [storage(t) for t in order]],
            "shape": ["list_shape", [[case.tensors[t].count] for t in order]],
        },
        "node_row_ptr": rows,
    }
