# SPDX-License-Identifier: Apache-2.0
"""JSON from an untrusted archive: bounded, strict, with field paths in every fault."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, NoReturn, TypeVar

import msgspec

from mlf_sdk.errors import FaultCollector
from mlf_sdk.tools.checks import shown
from mlf_sdk.tools.rowfile import described

MAX_JSON_BYTES = 16 << 20
"""Largest JSON member (the largest graph of a real archive has 66 kB, ours of 10,000 steps 5 MB)."""

_MAX_DIGITS = 19
"""Digits of the largest integer that a format of ours can mean (signed 64 bits)."""

T = TypeVar("T")


class _Refused(ValueError):
    """Valid JSON that no archive may hold."""


def load_json(data: bytes, member: str, faults: FaultCollector) -> Any:  # noqa: ANN401 - JSON is any
    """Decode strict JSON of at most ``MAX_JSON_BYTES``; ``msgspec.UNSET`` and one fault when it is not.

    Beyond the grammar it refuses duplicate keys, NaN and infinities, integers beyond 64 bits,
    and nesting deeper than the interpreter's stack.
    """
    if len(data) > MAX_JSON_BYTES:
        faults.add(member, f"JSON of {len(data)} bytes; at most {MAX_JSON_BYTES} are read")
        return msgspec.UNSET
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique_keys,
            parse_int=_bounded_int,
            parse_float=_finite_float,
            parse_constant=_no_constant,
        )
    except UnicodeDecodeError as error:
        faults.add(member, "invalid UTF-8", field=f"byte {error.start}")
    except RecursionError:
        faults.add(member, "JSON is nested too deeply")
    except json.JSONDecodeError as error:
        faults.add(member, f"not JSON: {error.msg}", field=f"line {error.lineno} column {error.colno}")
    except _Refused as error:
        faults.add(member, str(error))
    return msgspec.UNSET


def convert(value: object, type_: type[T], member: str, field: str, faults: FaultCollector) -> T | None:
    """Give a decoded value its type, strictly; None and one fault with the field path when it differs."""
    try:
        return msgspec.convert(value, described(type_))
    except msgspec.ValidationError as error:
        what, _, path = str(error).rpartition(" - at `")
        inner = path.rstrip("`").removeprefix("$") if what else ""
        faults.add(member, what or str(error), field=field + inner)
        return None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        key = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _Refused(f"the key {shown(key)} occurs twice in one object")
    return result


def _bounded_int(digits: str) -> int:
    if len(digits.lstrip("-")) > _MAX_DIGITS:
        raise _Refused(f"an integer of {len(digits)} digits")
    return int(digits)


def _finite_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _Refused(f"a number that is out of range: {shown(digits)}")
    return value


def _no_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not JSON")
