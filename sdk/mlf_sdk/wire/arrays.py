# SPDX-License-Identifier: Apache-2.0
"""Arrays for tensors: which array belongs to which input, and whether it fits exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlf_sdk.errors import InputError
from mlf_sdk.wire.device import ModelInfo, TensorInfo

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
Inputs = Mapping[str, Array] | Sequence[Array]


def arrays_of(model: ModelInfo, inputs: Inputs) -> list[Array]:
    """Return an array for each input of a model, in order; raises InputError naming what is amiss."""
    names = ", ".join(tensor.name for tensor in model.inputs)
    if not isinstance(inputs, Mapping):
        if len(inputs) != len(model.inputs):
            what = f"{len(inputs)} inputs were given for {len(model.inputs)}"
            raise InputError(what, where=model.label, hint=f"It has: {names}.")
        return list(inputs)
    left = dict(inputs)
    arrays = []
    for tensor in model.inputs:
        key = tensor.name if tensor.name in left else str(tensor.index)
        if key not in left:
            raise InputError(f"no array for {tensor.label}", where=model.label)
        arrays.append(left.pop(key))
    if left:
        unknown = ", ".join(repr(key) for key in left)
        raise InputError(f"there is no input {unknown}", where=model.label, hint=f"It has: {names}.")
    return arrays


def pick(model: ModelInfo, tensors: tuple[TensorInfo, ...], index: int) -> TensorInfo:
    """Return the tensor of an index; raises InputError."""
    if not 0 <= index < len(tensors):
        raise InputError(f"there is no tensor {index} of {len(tensors)}", where=model.label)
    return tensors[index]


def bytes_of(array: Array, tensor: TensorInfo, model: ModelInfo) -> bytes:
    """Return an array as the bytes of a tensor; raises InputError unless shape and type are its own."""
    values = np.asarray(array)
    if values.dtype != tensor.dtype or values.shape != tensor.shape:
        raise InputError(
            f"an array of {values.dtype} and shape {list(values.shape)} was given for "
            f"{tensor.dtype} and shape {list(tensor.shape)}",
            where=f"{model.label}, {tensor.label}",
        )
    return values.tobytes()
