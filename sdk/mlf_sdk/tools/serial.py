# SPDX-License-Identifier: Apache-2.0
"""Requests and results as JSON: dataclasses of plain values, arrays and paths, exact in both directions.

An array is ``{"dtype", "shape", "base64"}``; a path is a string; a float that JSON lacks is "nan", "inf" or
"-inf". Fields may be optional, but not unions of several dataclasses; keys of mappings are str or int.
"""

from __future__ import annotations

import base64
import math
from pathlib import PurePath
from typing import Any, TypeVar, get_origin

import msgspec
import numpy as np

from mlf_sdk.tools.rowfile import described

T = TypeVar("T")


def encode(value: object) -> bytes:
    """Encode a dataclass, or a container of them, as JSON.

    Args:
        value: dataclasses, msgspec structs, containers and numbers; arrays and paths inside.

    Returns:
        UTF-8 JSON; equal values give equal bytes.

    Raises:
        TypeError: a value has no JSON form, e.g. a function or an array of objects.
    """
    plain = msgspec.to_builtins(value, str_keys=True, enc_hook=to_plain)
    return msgspec.json.encode(_without_nonfinite(plain), order="deterministic")


def decode(data: bytes, type_: type[T]) -> T:
    """Decode a value of type ``type_`` encoded by `encode`.

    Raises:
        msgspec.ValidationError: the data is not of that type; with the path of the field.
        msgspec.DecodeError: the data is not JSON.
    """
    return msgspec.json.decode(data, type=described(type_), strict=False, dec_hook=_from_plain)


def to_plain(value: Any) -> Any:  # noqa: ANN401 - a hook of msgspec
    """JSON form of an array, a number of numpy's or a path.

    Raises:
        TypeError: the value is none of these, or an array of objects.
    """
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("arrays of objects have no JSON form")
        return {
            "dtype": value.dtype.str,
            "shape": list(value.shape),
            "base64": base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii"),
        }
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"values of type {type(value).__name__} have no JSON form")


def _without_nonfinite(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {key: _without_nonfinite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nonfinite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _from_plain(type_: type, value: Any) -> Any:  # noqa: ANN401
    wanted = get_origin(type_) or type_
    if isinstance(wanted, type) and issubclass(wanted, PurePath):
        return wanted(value)
    if wanted is np.ndarray:
        return as_array(value)
    raise TypeError(f"values of type {type_} have no JSON form")


def as_array(value: Any) -> Any:  # noqa: ANN401
    """Array of its JSON form ``{"dtype", "shape", "base64"}``."""
    data = base64.b64decode(value["base64"], validate=True)
    return np.frombuffer(data, dtype=np.dtype(value["dtype"])).reshape(value["shape"]).copy()
