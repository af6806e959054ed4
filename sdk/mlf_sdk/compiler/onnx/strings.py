# SPDX-License-Identifier: Apache-2.0
"""Tensors of strings as whole numbers: a device has no strings; each is its place in a list of them."""

from __future__ import annotations

from typing import Final

from mlf_sdk.compiler.graph import refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.raw import RawModel, RawNode, text_of

_STRING: Final = 8  # an element type in ONNX's numbers
_MOVE: Final = frozenset(
    ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Gather", "Slice", "Expand")
) | {"ai.onnx.ml.ArrayFeatureExtractor"}
_READ: Final = frozenset(("ai.onnx.ml.LabelEncoder", "ai.onnx.ml.OneHotEncoder"))
# Attributes whose strings a node gives.
_GIVEN: Final = ("classlabels_strings", "values_strings", "classes_strings")


def carry_strings(context: Context, raw: RawNode) -> bool:
    """Note the strings of a node's result where it moves some; True where nothing else is to be done.

    Raises:
        UnsupportedError: it computes with strings, or makes some of numbers.
    """
    to_strings = raw.kind == "Cast" and raw.attributes.get("to") == _STRING
    given = [position for position, name in enumerate(raw.inputs) if name in context.strings]
    if to_strings and not given:
        refuse("makes strings of numbers, which a device doesn't have; cut the model in front of it")
    if not given:
        return False
    if raw.kind in _READ and given == [0]:
        return False
    if given != [0] or not (to_strings or raw.kind in _MOVE):
        refuse("computes with strings, which a device doesn't have; cut the model in front of it")
    context.strings[raw.outputs[0]] = context.strings[raw.inputs[0]]
    if to_strings:
        context.bind(raw.outputs[0], context.tensors[raw.inputs[0]])
    return to_strings


def named_labels(raw: RawModel) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Nodes and constants of a file that give strings: where they are, and the strings by their numbers."""
    result = []
    for node in raw.nodes:
        given = [node.attributes.get(name) for name in _GIVEN if node.kind.startswith("ai.onnx.ml.")]
        strings = [one for one in given if one is not None and len(one)]
        if strings and not node.kind.endswith("ZipMap"):
            result.append((node.place, tuple(dict.fromkeys(text_of(strings[0])))))
    for name, array in raw.constants.items():
        if array.dtype.kind in "OSU":
            result.append((f"initializer '{name[:40]}'", tuple(dict.fromkeys(text_of(array.reshape(-1))))))
    return tuple(result)
