# SPDX-License-Identifier: Apache-2.0
"""A straight line of bytecode as tensors and calls of kernels: the registers are followed, nothing runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mlf_sdk.frontends.exported import bytecode
from mlf_sdk.frontends.exported.bytecode import Executable, Function, Instruction, Operand
from mlf_sdk.frontends.mlf.content import NamedTensor
from mlf_sdk.frontends.mlf.rawgraph import shape_problem
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import TensorKind
from mlf_sdk.ir.tensor import TensorTable
from mlf_sdk.tools.checks import shown

BUILTIN: Final = "vm.builtin."
_MAX_CALLS: Final = 65536


class UnsupportedError(Exception):
    """A program that is sound and that can't be deployed; says why."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a kernel: its name in the function table, and ids of tensors."""

    function: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that the bytecode allocates, in bytes."""

    size_bytes: int


class Program(msgspec.Struct, kw_only=True):
    """Tensors and calls of one function, in order.

    Attributes:
        storages: memory that the bytecode allocates, in its order.
    """

    table: TensorTable = msgspec.field(default_factory=TensorTable)
    inputs: list[int] = msgspec.field(default_factory=list)
    outputs: list[int] = msgspec.field(default_factory=list)
    calls: list[Call] = msgspec.field(default_factory=list)
    storages: list[Storage] = msgspec.field(default_factory=list)


class _Argument(msgspec.Struct, frozen=True, kw_only=True):
    """An argument of the function whose shape is not known yet."""

    position: int
    dtype: DType | None = None


class _Tensor(msgspec.Struct, frozen=True, kw_only=True):
    id: int


_Value = Any
"""Content of a register: `_Tensor`, `_Argument`, `Storage`, a tuple of them, or None."""


def follow(code: Executable, function: Function, params: Mapping[str, NamedTensor]) -> Program:
    """Follow the instructions of a function.

    Args:
        params: constants for arguments of the function, by name.

    Raises:
        UnsupportedError: it branches, or computes at run time what a plan needs.
    """
    follower = _Follower(code, function, params)
    for index in range(function.start, function.end):
        instruction = code.instructions[index]
        if instruction.opcode == bytecode.RETURN:
            follower.returned(instruction)
            return follower.program
        if instruction.opcode != bytecode.CALL:
            raise UnsupportedError(f"instruction {index} branches: the calls depend on the data")
        follower.call(instruction, index)
    raise UnsupportedError("the function does not return")


class _Follower:
    def __init__(self, code: Executable, function: Function, params: Mapping[str, NamedTensor]) -> None:
        self.code = code
        self.function = function
        self.params = params
        self.program = Program()
        self.registers: dict[int, _Value] = {i: _Argument(position=i) for i in range(function.arguments)}
        self.constants: dict[int, int] = {}
        self.written: set[int] = set()
        self.index = 0
        self.builtins: dict[str, Callable[[Instruction], _Value]] = {
            "check_tensor_info": self.check_tensor_info,
            "match_shape": self.match_shape,
            "alloc_storage": self.alloc_storage,
            "alloc_tensor": self.alloc_tensor,
            "reshape": self.reshape,
            "copy": lambda result: self.value(result.arguments[0]),
            "null_value": lambda result: None,
            "make_tuple": lambda result: tuple(self.value(operand) for operand in result.arguments),
            "tuple_getitem": self.tuple_getitem,
        }

    def unsupported(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"instruction {self.index} {what}")

    def call(self, instruction: Instruction, index: int) -> None:
        self.index = index
        called = self.code.functions[instruction.function]
        if called.kind != bytecode.KERNEL:
            raise self.unsupported(f"calls {shown(called.name)}, which is bytecode itself")
        if not called.name.startswith(BUILTIN):
            self.kernel(called.name, instruction)
            return
        handler = self.builtins.get(called.name.removeprefix(BUILTIN))
        if handler is None:
            raise self.unsupported(f"calls {called.name}, which needs TVM's runtime")
        try:
            value = handler(instruction)
        except (IndexError, TypeError, ValueError, AttributeError) as error:
            raise self.unsupported(f"calls {called.name} with arguments that do not fit it") from error
        if instruction.target not in (bytecode.VOID, bytecode.MACHINE):
            self.registers[instruction.target] = value

    def kernel(self, name: str, instruction: Instruction) -> None:
        """Take note of a call; its outputs are the last arguments, which nothing has written before."""
        if len(self.program.calls) >= _MAX_CALLS:
            raise self.unsupported(f"is call {_MAX_CALLS + 1}; at most {_MAX_CALLS} are read")
        ids = [self.tensor(operand, name) for operand in instruction.arguments]
        count = len(ids)
        while count and self.root(ids[count - 1]) not in self.written:
            count -= 1
        inputs, outputs = tuple(ids[:count]), tuple(ids[count:])
        if not outputs or any(self.root(i) not in self.written for i in inputs):
            raise self.unsupported(f"calls {shown(name)}, whose outputs are not its last arguments")
        self.written.update(map(self.root, outputs))
        self.program.calls.append(Call(function=name, inputs=inputs, outputs=outputs))

    def root(self, tensor: int) -> int:
        result = self.program.table.tensors[tensor]
        return result.id if result.alias_of is None else result.alias_of

    def tensor(self, operand: Operand, what: str) -> int:
        """Id of the tensor that an operand is."""
        result = self.value(operand)
        if isinstance(result, _Tensor):
            return result.id
        raise self.unsupported(f"passes to {shown(what)} something else than a tensor of a known shape")

    def value(self, operand: Operand) -> _Value:
        if operand.kind == bytecode.REGISTER:
            return self.registers.get(operand.value)
        if operand.kind == bytecode.CONSTANT:
            result = self.code.constants[operand.value]
            return self.constant(operand.value) if result.kind == "tensor" else result.value
        return operand.value if operand.kind == bytecode.IMMEDIATE else None

    def constant(self, index: int) -> _Tensor:
        if index not in self.constants:
            named_tensor: NamedTensor = self.code.constants[index].value
            self.constants[index] = self.add(
                f"constant{index}",
                named_tensor.dtype,
                named_tensor.shape,
                TensorKind.CONSTANT,
                data=named_tensor.data,
            )
            self.written.add(self.constants[index])
        return _Tensor(id=self.constants[index])

    def add(
        self,
        name: str,
        dtype: DType | None,
        shape: tuple[int, ...],
        kind: TensorKind,
        *,
        data: bytes | None = None,
        alias_of: int | None = None,
    ) -> int:
        """Add a tensor with a type and a shape that can be planned."""
        if dtype is None:
            raise self.unsupported("has no element type")
        problem = shape_problem(shape, dtype)
        if problem is not None:
            raise self.unsupported(f"makes a tensor with {problem}")
        return self.program.table.add(name, dtype, shape, kind, data=data, alias_of=alias_of)

    # ---- builtins ----

    def check_tensor_info(self, instruction: Instruction) -> None:
        """(tensor, dimensions, type, text): the element type of an argument."""
        operand, dtype = instruction.arguments[0], self.value(instruction.arguments[2])
        if isinstance(self.value(operand), _Argument) and isinstance(dtype, DType):
            self.registers[operand.value] = _Argument(position=operand.value, dtype=dtype)

    def match_shape(self, instruction: Instruction) -> None:
        """(tensor, heap, n, n x (what, value), text): the shape of an argument."""
        operand, count = instruction.arguments[0], instruction.arguments[2].value
        argument = self.value(operand)
        rules = [o.value for o in instruction.arguments[3 : 3 + 2 * count]]
        if not isinstance(argument, _Argument):
            return
        if len(rules) != 2 * count or any(rules[::2]):
            raise self.unsupported("takes an extent from its input: the shapes are not fixed")
        name, shape = self.function.parameters[argument.position], tuple(rules[1::2])
        given = self.params.get(name)
        kind = TensorKind.INPUT if given is None else TensorKind.CONSTANT
        if given is not None and (given.dtype, given.shape) != (argument.dtype, shape):
            raise UnsupportedError(
                f"the parameter {shown(name)} is {given.dtype} {list(given.shape)} in the file; "
                f"the function takes {argument.dtype} {list(shape)}"
            )
        tensor = self.add(name, argument.dtype, shape, kind, data=None if given is None else given.data)
        if given is None:
            self.program.inputs.append(tensor)
        self.written.add(tensor)
        self.registers[operand.value] = _Tensor(id=tensor)

    def alloc_storage(self, instruction: Instruction) -> Storage:
        """(machine, extents, device, type, scope): memory of a fixed size."""
        (size,) = self.value(instruction.arguments[1])
        storage = Storage(size_bytes=int(size) * self.value(instruction.arguments[3]).size_bytes)
        self.program.storages.append(storage)
        return storage

    def alloc_tensor(self, instruction: Instruction) -> _Tensor:
        """(storage, offset, extents, type): a tensor in a memory."""
        storage, offset, shape, dtype = (self.value(operand) for operand in instruction.arguments[:4])
        name = f"r{instruction.target}"
        tensor = self.add(name, dtype, tuple(shape), TensorKind.INTERMEDIATE)
        size = self.program.table.tensors[tensor].size_bytes
        if not isinstance(storage, Storage) or not 0 <= offset <= storage.size_bytes - size:
            raise self.unsupported("places a tensor outside of its memory")
        return _Tensor(id=tensor)

    def reshape(self, instruction: Instruction) -> _Tensor:
        """(tensor, extents): the same elements."""
        source, shape = (
            self.tensor(instruction.arguments[0], "vm.builtin.reshape"),
            self.value(instruction.arguments[1]),
        )
        before = self.program.table.tensors[source]
        alias = self.add(
            f"r{instruction.target}",
            before.dtype,
            tuple(shape),
            TensorKind.INTERMEDIATE,
            alias_of=self.root(source),
        )
        if self.program.table.tensors[alias].elements != before.elements:
            raise self.unsupported("reshapes a tensor to another number of elements")
        return _Tensor(id=alias)

    def tuple_getitem(self, instruction: Instruction) -> _Value:
        """(tuple, index): one of its values."""
        source, index = (self.value(operand) for operand in instruction.arguments[:2])
        return tuple(source)[index]

    def returned(self, instruction: Instruction) -> None:
        """Take the outputs from the register that the function returns."""
        value = self.value(Operand(kind=bytecode.REGISTER, value=instruction.target))
        values = value if isinstance(value, tuple) else (value,)
        if not values or not all(isinstance(v, _Tensor) for v in values):
            raise UnsupportedError("the function returns something else than tensors of a known shape")
        if any(self.root(v.id) not in self.written for v in values):
            raise UnsupportedError("the function returns a tensor that no kernel has written")
        self.program.outputs = [v.id for v in values]
