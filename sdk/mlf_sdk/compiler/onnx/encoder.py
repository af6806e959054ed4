# SPDX-License-Identifier: Apache-2.0
"""Encoders of categories: keys and values as one operator, or as a table where the keys are strings."""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.computed import LabelEncoder
from mlf_sdk.compiler.graph import refuse
from mlf_sdk.compiler.onnx.file import AttributeValue
from mlf_sdk.compiler.onnx.raw import text_of
from mlf_sdk.compiler.onnx.steps import Steps
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.reference import evaluate_one

_REAL, _INT64 = 1, 7  # element types in ONNX's numbers
_KINDS: Final = ("strings", "int64s", "floats", "tensor")
_DEFAULTS: Final[dict[str, tuple[str, AttributeValue]]] = {
    "strings": ("default_string", "_Unused"),
    "int64s": ("default_int64", -1),
    "floats": ("default_float", -0.0),
}


def label_encoder(steps: Steps) -> None:
    """LabelEncoder of any version; strings among the values become their numbers."""
    x, name = steps.node.input(), steps.raw.inputs[0]
    strings = steps.context.strings.get(name)
    classes = text_of(steps.node.attribute("classes_strings", ()))
    if classes:
        places = np.arange(len(classes))
        keys, values, default = (classes, places, -1) if strings else (places, classes, "_Unused")
    else:
        keys, _ = _listed(steps, "keys")
        values, kind = _listed(steps, "values")
        default = _default(steps, kind)
    if len(keys) != len(values) or not len(keys):
        refuse(f"{len(keys)} keys and {len(values)} values")
    result, other = _numbers(steps, values, default)
    if (strings is not None) != isinstance(keys[0], str):
        refuse(f"its keys are {'numbers' if strings else 'strings'}, and what it reads is not")
    if strings is not None:
        known = dict(reversed([*zip(keys, result, strict=True)]))
        _looked_up(steps, np.array([known.get(one, other) for one in strings], result.dtype))
        return
    if x.dtype.kind not in "fi":
        refuse(f"reads {x.dtype}; real numbers and int64 are supported")
    _emit(steps, np.asarray(keys).astype(x.dtype), result, other)


def one_hot_encoder(steps: Steps) -> None:
    """OneHotEncoder: a new last axis with 1 at the place of the category; zeros where it has none."""
    x, name, output = steps.node.input(), steps.raw.inputs[0], steps.raw.outputs[0]
    strings = steps.context.strings.get(name)
    texts, whole = (steps.node.attribute(f"cats_{kind}", ()) for kind in ("strings", "int64s"))
    if bool(len(texts)) == bool(len(whole)):
        refuse("one of the attributes cats_int64s and cats_strings names the categories")
    if len(set(text_of(texts) or whole)) != len(texts) + len(whole):
        refuse("it names a category twice")
    if (strings is not None) != bool(len(texts)):
        refuse(f"its categories are {'strings' if len(texts) else 'numbers'}, and what it reads is not")
    if strings is not None:
        _looked_up(steps, np.array([[a == b for b in text_of(texts)] for a in strings], np.float32))
        return
    if x.dtype.kind not in "fi":
        refuse(f"reads {x.dtype}; numbers with a sign are supported")
    column = steps.add("Reshape", name, steps.constant((*x.shape, 1), np.int64))
    column = steps.add("Cast", column, to=_INT64)
    same = steps.add("Equal", column, steps.constant(whole, np.int64))
    steps.add("Cast", same, output=output, to=_REAL)


def _looked_up(steps: Steps, table: Array) -> None:
    """Add a Gather of a table at the numbers of strings; of strings themselves it would move them."""
    numbers = steps.name()
    steps.context.bind(numbers, steps.node.input())
    steps.add("Gather", steps.constant(table, table.dtype.type), numbers, output=steps.raw.outputs[0])


def _listed(steps: Steps, name: str) -> tuple[AttributeValue, str]:
    """Keys or values, and their kind."""
    result = [(steps.node.attribute(f"{name}_{kind}"), kind) for kind in _KINDS]
    given = [(one, kind) for one, kind in result if one is not None and len(np.atleast_1d(one))]
    if len(given) != 1:
        refuse(f"one attribute states its {name}")
    one, kind = given[0]
    array = np.asarray(one).reshape(-1)
    return (text_of(array) if array.dtype.kind in "OSU" else array), kind


def _default(steps: Steps, kind: str) -> AttributeValue:
    if kind != "tensor":
        return steps.node.attribute(*_DEFAULTS[kind])
    attribute = steps.node.attribute("default_tensor")
    if attribute is None:
        given = np.asarray(steps.node.attribute("values_tensor")).dtype.kind
        return _DEFAULTS[{"f": "floats", "i": "int64s"}.get(given, "strings")][1]
    return np.asarray(attribute).reshape(-1)[0]


def _numbers(steps: Steps, values: AttributeValue, default: AttributeValue) -> tuple[Array, AttributeValue]:
    """Values and the default one as numbers; strings by their places among the different ones."""
    if not isinstance(values, tuple):
        dtype = np.float32 if values.dtype.kind == "f" else np.int64
        return values.astype(dtype), dtype(default)
    different = tuple(dict.fromkeys((*values, *text_of([default]))))
    steps.context.strings[steps.raw.outputs[0]] = different
    places = {text: place for place, text in enumerate(different)}
    (other,) = text_of([default])
    return np.array([places[v] for v in values], np.int64), np.int64(places[other])


def _emit(steps: Steps, keys: Array, values: Array, default: AttributeValue) -> None:
    """Add the operator; of equal keys, the first counts."""
    missing = default
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        if steps.node.attribute("keys_tensor") is None:
            refuse("NaN among keys_floats, which versions of the operator understand differently")
        missing, kept = values[np.isnan(keys)][0], ~np.isnan(keys)
        keys, values = keys[kept], values[kept]
        if not keys.size:
            refuse("NaN is its only key")
    keys, first = np.unique(keys, return_index=True)
    context, x = steps.context, steps.node.input()
    source, name = context.value(x), steps.raw.outputs[0]
    _, y = context.output(name, values.dtype, x.shape)
    operator = LabelEncoder(
        **context.common(steps.kind, [source], y),
        keys=keys, values=values[first], default=default, missing=missing,
    )  # fmt: skip
    if source.data is None:
        context.emit(operator)
        return
    (result,) = evaluate_one(context.values, operator, [source.data])
    context.constant(name, result.reshape(x.shape))
