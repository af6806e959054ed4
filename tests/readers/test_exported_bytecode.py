# SPDX-License-Identifier: Apache-2.0
"""Bytecode of relax's virtual machine: decoding, following, and everything that can be wrong with it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from exported_libraries import MACHINE, NEW, VOID, Code, adding, function, immediate, named
from mlf_sdk.frontends.exported import bytecode, program
from mlf_sdk.frontends.exported.bytecode import PLAIN_MAGIC, Executable, read_executable
from mlf_sdk.frontends.exported.generation import generation_of
from mlf_sdk.frontends.exported.program import Program, UnsupportedError, follow
from mlf_sdk.frontends.exported.stream import Stream
from mlf_sdk.frontends.mlf.params import Damaged
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import TensorKind


def decode(data: bytes) -> Executable:
    generation = generation_of(NEW)
    assert generation is not None
    return read_executable(Stream(data), generation.constants)


def followed(code: Code, **params: Any) -> Program:
    executable = decode(code.build())
    return follow(executable, executable.programs[0], {n: named(n, value) for n, value in params.items()})


# ---- decoding ----


def test_decoding() -> None:
    code = adding(scopes=((0, "global"),))
    code.constant("int", -5)
    code.constant("float", 0.5)
    code.constant("dtype", (0, 0, 0))
    code.call("vm.builtin.call", function(1), to=5)
    code.words += [[4, 5, 1], [3, -1]]
    found = decode(code.build())
    assert found.version == "0.14"
    assert [f.name for f in found.programs] == ["main"]
    assert found.functions[0].parameters == ("x",)
    assert [c.value for c in found.constants[-3:]] == [-5, 0.5, None]
    assert found.constants[1].value == DType.parse("float32")
    call, branch, jump = found.instructions[-3:]
    assert (call.target, call.arguments[0].kind) == (5, bytecode.FUNCTION)
    assert (branch.opcode, branch.target, branch.jump) == (bytecode.IF, 5, 1)
    assert (jump.opcode, jump.jump) == (bytecode.GOTO, -1)
    assert found.instructions[0].arguments[1] == bytecode.Operand(kind=bytecode.IMMEDIATE, value=2)
    plain = decode(adding(magic=PLAIN_MAGIC).build())
    assert plain.instructions == found.instructions[: len(plain.instructions)]
    assert decode(Code().call("k", immediate(-7)).returns(0).build()).instructions[0].arguments[0].value == -7


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda c: replace(c, magic=7), "no bytecode starts here, the magic is 0x0000000000000007"),
        (lambda c: replace(c, kind=3), "function 'main' is of the unknown kind 3"),
        (lambda c: replace(c, start=99), "has instructions 99 to"),
        (lambda c: replace(c, end=99), "has instructions 0 to 99"),
        (lambda c: replace(c, end=0), "has instructions 0 to 0"),
        (lambda c: replace(c, registers=2), "names register 2 of 2"),
        (lambda c: replace(c, registers=-1), "names register"),
        (lambda c: replace(c, more=b"123"), "3 bytes behind the instructions"),
        (lambda c: c.words.append([9]), "unknown opcode 9"),
        (lambda c: c.words.append([2]), "does not end within"),
        (lambda c: c.words.append([1, 0, 0]), "does not end within"),
        (lambda c: c.words.append([1, 0, 0, 1]), "does not end within"),
        (lambda c: c.words.append([1, 0, 0, -1]), "does not end within"),
        (lambda c: c.words.append([]), "an instruction has the words"),
        (lambda c: c.words.insert(0, []), "an instruction has the words 0 to 0"),
        (lambda c: c.words.append([3, 1]), "jumps to instruction"),
        (lambda c: c.words.append([3, -99]), "jumps to instruction -"),
        (lambda c: c.words.append([4, 0, 99]), "jumps to instruction"),
        (lambda c: c.words.append([4, 99, 0]), "names register 99 of 16"),
        (lambda c: c.words.append([2, -1]), "names register -1 of 16"),
        (lambda c: c.words.append([1, 0, 99, 0]), "calls function 99 of"),
        (lambda c: c.words.append([1, 0, -1, 0]), "calls function -1 of"),
        (lambda c: c.call("k", 99), "names register 99 of 16"),
        (lambda c: c.call("k", 4 << 56), "an argument of the unknown kind 4"),
        (lambda c: c.call("k", 2 << 56 | 99), "names constant 99 of"),
        (lambda c: c.call("k", function(99)), "names function 99 of"),
        (lambda c: c.constants.append(struct.pack("<i", 2)), "constant 13 is of the unknown type 2"),
        (lambda c: c.constants.append(struct.pack("<iBBH", 5, 9, 9, 9)), "constant 13: no such element type"),
        (lambda c: c.constants.extend([struct.pack("<iq", 1, 0)] * 65536), "constants; at most 65536"),
        (lambda c: c.constant("shape", (1,) * 257), "257 extents of constant 13; at most 256"),
    ],
)
def test_damage(change: Callable[[Code], Any], what: str) -> None:
    code = adding()
    changed = change(code)
    with pytest.raises(Damaged, match=what):
        decode((changed if isinstance(changed, Code) else code).build())


def test_names_of_arguments_must_be_as_many() -> None:
    data = adding().build()
    count = struct.pack("<4q", 0, len(adding().words), 1, 16)
    with pytest.raises(Damaged, match="has 2 arguments and 1 names"):
        decode(data.replace(count, struct.pack("<4q", 0, len(adding().words), 2, 16)))


def test_functions_share_no_instructions() -> None:
    """Neither many functions over the same instructions, nor instructions over the same words, are read."""
    data = adding().build()
    name = b"\3\0\0\0\0\0\0\0add" + struct.pack("<4q", 0, 0, -2, 0)
    at = data.index(name) - 4
    row = struct.pack("<i", 1) + name[:11] + struct.pack("<4q", 0, len(adding().words), 0, 16)
    with pytest.raises(Damaged, match="functions have more than the 9 instructions"):
        decode(data[:at] + row + data[at + len(row) :])


# ---- following ----


def test_following() -> None:
    found = followed(adding())
    tensors = found.table.tensors
    assert [tensors[i].name for i in found.inputs] == ["x"]
    assert [tensors[i].name for i in found.outputs] == ["r4"]
    assert [s.size_bytes for s in found.storages] == [16, 16]
    first, second = found.calls
    assert (first.function, len(first.inputs), first.outputs) == ("add", 2, second.inputs[:1])
    assert tensors[first.inputs[1]].kind is TensorKind.CONSTANT
    assert first.inputs[1] == second.inputs[1]


def test_parameters_of_the_user() -> None:
    code = Code(parameters=("x", "w")).argument(0, 1, 4).argument(1, 4)
    code.allocate(2, 3, 1, 4).call("k", 0, 1, 3).returns(3)
    value = np.arange(4, dtype=np.float32)
    found = followed(code, w=value)
    (call,) = found.calls
    assert [found.table.tensors[i].name for i in found.inputs] == ["x"]
    assert found.table.tensors[call.inputs[1]].data == value.tobytes()
    assert [found.table.tensors[i].name for i in followed(code).inputs] == ["x", "w"]
    with pytest.raises(
        UnsupportedError, match=r"'w' is float32 \[2\] in the file; the function takes float32 \[4\]"
    ):
        followed(code, w=value[:2])


def test_tuples_aliases_and_copies() -> None:
    code = adding()
    code.words.pop()
    shape = code.constant("shape", (2, 2))
    code.call("vm.builtin.reshape", 4, shape, to=5).call("vm.builtin.copy", 5, to=6)
    code.call("vm.builtin.make_tuple", 6, 2, to=7).call("vm.builtin.tuple_getitem", 7, immediate(1), to=8)
    code.call("vm.builtin.null_value", to=2).call("vm.builtin.make_tuple", 8, 6, to=9).returns(9)
    found = followed(code)
    tensors = [found.table.tensors[i] for i in found.outputs]
    assert [t.shape for t in tensors] == [(1, 4), (2, 2)]
    assert tensors[1].alias_of == found.calls[1].outputs[0]


def branching(code: Code) -> Code:
    code.words[-1:] = [[4, 4, 1], [2, 4]]
    return code


def calling_itself(code: Code) -> Code:
    code.words.insert(-1, [1, 5, 0, 0])
    return code


def before_return(*call: Any, to: int = VOID) -> Callable[[Code], Code]:
    def change(code: Code) -> Code:
        code.call(*call, to=to)
        code.words[-2:] = reversed(code.words[-2:])
        return code

    return change


def with_shape(*extents: int) -> Callable[[Code], Code]:
    def change(code: Code) -> Code:
        return before_return("vm.builtin.reshape", 4, code.constant("shape", extents), to=5)(code)

    return change


def placed(**options: Any) -> Callable[[Code], Code]:
    def change(code: Code) -> Code:
        last = code.words.pop()
        code.allocate(5, 6, 1, 4, **options)
        code.words.append(last)
        return code

    return change


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (branching, "branches: the calls depend on the data"),
        (lambda c: replace(c, words=c.words[:-1]), "does not return"),
        (calling_itself, "calls 'main', which is bytecode itself"),
        (before_return("vm.builtin.call_tir_dyn", 4), "needs TVM's runtime"),
        (before_return("vm.builtin.reshape", 4), "with arguments that do not fit it"),
        (before_return("vm.builtin.tuple_getitem", 4, immediate(0), to=5), "arguments that do not fit"),
        (before_return("vm.builtin.reshape", MACHINE, immediate(1)), "something else than a tensor"),
        (before_return("vm.builtin.match_shape", 4, VOID, immediate(0)), ""),
        (before_return("vm.builtin.check_tensor_info", 4, immediate(2), immediate(0)), ""),
        (with_shape(1, 3), "another number of elements"),
        (with_shape(1, 0), "an extent that is not positive"),
        (placed(size=8), "places a tensor outside of its memory"),
        (placed(offset=-1), "outside of its memory"),
        (placed(size=32, offset=16), ""),
        (before_return("add", 2, 4), "whose outputs are not its last arguments"),
        (before_return("add"), "outputs are not its last"),
        (before_return("add", immediate(3), 4), "passes to 'add' something else than a tensor"),
        (before_return("add", function(0), 4), "passes to 'add' something else"),
    ],
)
def test_programs_that_cannot_be_planned(change: Callable[[Code], Code], what: str) -> None:
    code = change(adding())
    if not what:
        assert len(followed(code).calls) == 2
        return
    with pytest.raises(UnsupportedError, match=what):
        followed(code)


def test_arguments_without_type_or_shape() -> None:
    with pytest.raises(UnsupportedError, match="something else than a tensor of a known shape"):
        followed(Code().allocate(1, 2, 4).call("k", 0, 2).returns(2))
    untyped = Code()
    untyped.call("vm.builtin.match_shape", 0, VOID, immediate(1), immediate(0), immediate(4))
    with pytest.raises(UnsupportedError, match="has no element type"):
        followed(untyped.returns(0))
    dynamic = Code().argument(0, 4)
    dynamic.words[-1][7] = immediate(1)
    with pytest.raises(UnsupportedError, match="takes an extent from its input"):
        followed(dynamic.returns(0))
    short = Code().argument(0, 4)
    short.words[-1][6] = immediate(9)
    with pytest.raises(UnsupportedError, match="takes an extent from its input"):
        followed(short.returns(0))


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (Code().returns(3), "something else than tensors of a known shape"),
        (Code().call("vm.builtin.make_tuple", to=3).returns(3), "something else than tensors"),
        (Code().allocate(1, 2, 4).returns(2), "returns a tensor that no kernel has written"),
    ],
)
def test_results_that_are_none(code: Code, what: str) -> None:
    with pytest.raises(UnsupportedError, match=what):
        followed(code)


def test_outputs_before_inputs() -> None:
    """A tensor that nothing has written, before one that something has."""
    code = adding()
    last = code.words.pop()
    code.allocate(5, 6, 1, 4).allocate(7, 8, 1, 4).call("add", 6, 2, 8)
    code.words.append(last)
    with pytest.raises(UnsupportedError, match="not its last arguments"):
        followed(code)


def test_number_of_calls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_MAX_CALLS", 1)
    with pytest.raises(UnsupportedError, match="is call 2; at most 1 are read"):
        followed(adding())
