# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from mlf_sdk.errors import FaultCollector, InputError
from mlf_sdk.frontends.mlf.content import NamedTensor
from mlf_sdk.frontends.mlf.params import LIST_MAGIC, TENSOR_MAGIC, parse_params, write_params
from mlf_sdk.ir.dtype import DType


def tensor(name: str, dtype: str, *shape: int) -> NamedTensor:
    element = DType.parse(dtype)
    size = element.size_bytes * int(np.prod(shape, dtype=np.int64))
    return NamedTensor(name=name, dtype=element, shape=shape, data=random.Random(name).randbytes(size))


TENSORS = (
    tensor("p0", "float32", 2, 3),
    tensor("image:0", "int8", 1, 1, 2, 2),
    tensor('\u6a21 "x" ${y} */ {{z}}', "int64"),
    tensor("none", "uint8", 0, 4),
    tensor("flag", "bool", 3),
    tensor("deep", "bfloat16", *[1] * 16),
)


def parse(data: bytes) -> tuple[tuple[NamedTensor, ...], list[str]]:
    faults = FaultCollector("a.tar")
    tensors = parse_params(data, "m", faults)
    return tensors, [str(fault) for fault in faults.faults]


def test_what_is_written_is_read() -> None:
    assert parse(write_params(TENSORS)) == (TENSORS, [])
    assert parse(write_params(iter(TENSORS[:1]))) == (TENSORS[:1], [])


def test_no_parameters_are_32_bytes() -> None:
    data = write_params([])
    assert data == struct.pack("<4Q", LIST_MAGIC, 0, 0, 0)
    assert parse(data) == ((), [])


def test_the_layout_byte_by_byte() -> None:
    one = NamedTensor(name="ab", dtype=DType.parse("int16"), shape=(3,), data=b"\1\0\2\0\3\0")
    expected = struct.pack("<4Q", LIST_MAGIC, 0, 1, 2) + b"ab" + struct.pack("<Q", 1)
    expected += struct.pack("<QQiiiBBH", TENSOR_MAGIC, 0, 1, 0, 1, 0, 16, 1)
    expected += struct.pack("<qq", 3, 6) + b"\1\0\2\0\3\0"
    assert write_params([one]) == expected
    assert one.size_bytes == 6
    np.testing.assert_array_equal(one.array(), np.array([1, 2, 3], np.int16))


def test_arrays_have_the_shape_and_cannot_be_written() -> None:
    array = TENSORS[0].array()
    assert (array.shape, array.dtype) == ((2, 3), np.float32)
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1
    with pytest.raises(InputError, match="bfloat16"):
        TENSORS[5].array()


def test_a_tensor_of_the_wrong_size_is_not_written() -> None:
    wrong = NamedTensor(name="w", dtype=DType.parse("int8"), shape=(3,), data=b"12")
    with pytest.raises(InputError, match="parameter w: the data does not have the size of its shape"):
        write_params([wrong])


def test_every_cut_is_noticed_at_its_place() -> None:
    data = write_params(TENSORS)
    for end in range(len(data)):
        tensors, faults = parse(data[:end])
        assert len(faults) == 1
        place = int(faults[0].removeprefix("m: byte ").split(":")[0])
        assert place <= end
        assert tensors == TENSORS[: len(tensors)]
        assert len(tensors) < len(TENSORS)


def test_every_changed_byte_is_noticed_or_changes_one_thing() -> None:
    data = write_params(TENSORS)
    for position in range(len(data)):
        for bit in (0, 7):
            changed = bytearray(data)
            changed[position] ^= 1 << bit
            tensors, faults = parse(bytes(changed))
            differing = sum(one != two for one, two in zip(tensors, TENSORS, strict=False))
            assert faults or differing == 1


def test_several_faults_are_reported_together() -> None:
    bad = [tensor("", "int8", 1), tensor("a\n", "int8", 1), tensor("p", "int8", 1), tensor("p", "int8", 2)]
    tensors, faults = parse(write_params(bad))
    assert len(tensors) == 4
    assert faults == [
        "m: byte 32: a parameter's name is empty",
        "m: byte 40: a parameter's name has control or unprintable characters: 'a\\n'",
        "m: 2 parameters are called 'p'",
    ]
