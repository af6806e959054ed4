# SPDX-License-Identifier: Apache-2.0
"""JSON of requests and results: exact in both directions, or refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from mlf_sdk.tools.serial import decode, encode

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    array: Array
    by_name: Mapping[str, Array]
    place: Path
    value: float
    shape: tuple[int, ...] = ()
    data: bytes = b""
    missing: Array | None = None


def sample(array: Array, value: float = 0.0) -> Sample:
    return Sample(
        array=array, by_name={"x": array}, place=Path("/a/b.tar"), value=value, shape=(1, 2), data=b"\0\xff"
    )


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", ">f4", "float64", "bool"])
def test_an_array_keeps_its_type_shape_and_bytes(dtype: str) -> None:
    array = np.arange(6).astype(dtype).reshape(2, 3, 1)
    done = decode(encode(sample(array)), Sample)
    for found in (done.array, done.by_name["x"]):
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        assert found.tobytes() == array.tobytes()
        assert found.flags.writeable
    assert (done.place, done.shape, done.data, done.missing) == (Path("/a/b.tar"), (1, 2), b"\0\xff", None)


@pytest.mark.parametrize(
    "array", [np.array(3.5), np.zeros((0, 4), "int8"), np.arange(12).reshape(3, 4)[:, ::2]]
)
def test_scalars_empty_arrays_and_views(array: Array) -> None:
    done = decode(encode(sample(array)), Sample).array
    assert done.shape == array.shape
    assert np.array_equal(done, array)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 0.1, -0.0, 5e-324])
def test_floats_are_exact(value: float) -> None:
    done = decode(encode(sample(np.zeros(1), value)), Sample).value
    assert (done, math.copysign(1, done)) == (value, math.copysign(1, value))


def test_nan_stays_nan() -> None:
    assert math.isnan(decode(encode(sample(np.zeros(1), math.nan)), Sample).value)


def test_equal_values_give_equal_bytes() -> None:
    assert encode({"b": 1, "a": 2}) == encode({"a": 2, "b": 1}) == b'{"a":2,"b":1}'


def test_numbers_of_numpy_are_numbers() -> None:
    assert encode([np.float32(0.5), np.int64(3), np.bool_(True)]) == b"[0.5,3,true]"


@pytest.mark.parametrize("value", [print, object(), np.array([object()])])
def test_a_value_without_a_json_form_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="no JSON form"):
        encode({"x": value})


def test_a_wrong_field_is_named() -> None:
    data = encode(sample(np.zeros(1))).replace(b'"value":0.0', b'"value":[]')
    with pytest.raises(msgspec.ValidationError, match=r"\$\.value"):
        decode(data, Sample)
