# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from mlf_sdk.errors import InputError
from mlf_sdk.ir.dtype import BFLOAT, FLOAT, HANDLE, INT, UINT, DType


@pytest.mark.parametrize(
    ("text", "code", "bits", "lanes", "size_bytes", "numpy"),
    [
        ("float32", FLOAT, 32, 1, 4, "<f4"),
        ("float16", FLOAT, 16, 1, 2, "<f2"),
        ("float64", FLOAT, 64, 1, 8, "<f8"),
        ("int8", INT, 8, 1, 1, "i1"),
        ("int16", INT, 16, 1, 2, "<i2"),
        ("int64", INT, 64, 1, 8, "<i8"),
        ("uint8", UINT, 8, 1, 1, "u1"),
        ("uint32", UINT, 32, 1, 4, "<u4"),
        ("bool", UINT, 1, 1, 1, "?"),
    ],
)
def test_types_that_numpy_has(
    text: str, code: int, bits: int, lanes: int, size_bytes: int, numpy: str
) -> None:
    dtype = DType.parse(text)
    assert (dtype.code, dtype.bits, dtype.lanes) == (code, bits, lanes)
    assert dtype.size_bytes == size_bytes == dtype.numpy.itemsize
    assert dtype.numpy == np.dtype(numpy)
    assert dtype.name == str(dtype) == text


@pytest.mark.parametrize(
    ("text", "name", "size_bytes"),
    [
        ("bfloat16", "bfloat16", 2),
        ("float32x4", "float32x4", 16),
        ("int4", "int4", 1),
        ("handle", "handle64", 8),
        ("uint1x8", "uint1x8", 8),
        ("int1", "int1", 1),
    ],
)
def test_types_that_numpy_lacks(text: str, name: str, size_bytes: int) -> None:
    dtype = DType.parse(text)
    assert (dtype.name, dtype.size_bytes) == (name, size_bytes)
    assert DType.parse(name) == dtype
    with pytest.raises(InputError, match=f"numpy has no element type for {name}"):
        _ = dtype.numpy


def test_uint1_is_bool() -> None:
    assert DType.parse("uint1") == DType.parse("bool") == DType(code=UINT, bits=1)
    assert DType.parse("uint1").name == "bool"


@pytest.mark.parametrize(
    "text",
    ["", "float", "int", "float33", "float8", "int128", "int0", "Float32", " float32", "float32\n", "float32x",
     "float32x0", "float32x257", "float32x-1", "bool1", "boolx2", "complex64", "int\u0668", "float32x99999", "a" * 10000],
)  # fmt: skip
def test_no_such_type(text: str) -> None:
    with pytest.raises(InputError, match="no such element type") as caught:
        DType.parse(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("code", "bits", "lanes"), [(5, 8, 1), (-1, 8, 1), (BFLOAT, 32, 1), (HANDLE, 8, 1), (INT, 8, 0)]
)
def test_no_such_code(code: int, bits: int, lanes: int) -> None:
    with pytest.raises(InputError, match=f"code {code}, {bits} bits, {lanes} lanes"):
        DType(code=code, bits=bits, lanes=lanes)
