# SPDX-License-Identifier: Apache-2.0
"""Inputs and references from npz files, matched to the tensors of a model."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from mlf_sdk.codegen.lock import LockModel, LockTensor
from mlf_sdk.codegen.samples import pattern_array
from mlf_sdk.errors import InputError
from mlf_sdk.ir.dtype import DType
from mlf_sdk.tools.arrays import Array
from mlf_sdk.tools.files import write_whole

LABEL_KEY = "label"
_MORE_FRAMES: Final = 7  # after the first window of a pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Inputs of several inferences: an array (inferences, *shape) for each input."""

    arrays: tuple[Array, ...]
    count: int

    def inputs(self, index: int) -> tuple[Array, ...]:
        """Inputs of one inference."""
        return tuple(array[index] for array in self.arrays)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Expected outputs by name, each (inferences, *shape), and class labels (inferences,) where given."""

    outputs: Mapping[str, Array] = field(default_factory=dict)
    labels: Array | None = None


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays to an npz file atomically.

    Raises:
        InputError: the file can't be written.
    """
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **dict(arrays))
    write_whole(path, content.getvalue())


def pattern_batch(model: LockModel) -> Batch:
    """One inference on the repeatable pattern, or windows that follow each other of a series of it."""
    frames = model.frames
    if frames is not None:
        from mlf_sdk.judge.frames import sliding  # few models take frames

        tensor, shape = model.inputs[0], list(frames.window)
        shape[frames.axis] += _MORE_FRAMES * frames.rows
        windows = sliding(pattern_array(DType.parse(tensor.dtype), tuple(shape)), frames)
        return Batch(arrays=(windows,), count=len(windows))
    arrays = [
        pattern_array(DType.parse(t.dtype), t.shape, salt=index)[np.newaxis]
        for index, t in enumerate(model.inputs)
    ]
    return Batch(arrays=tuple(arrays), count=1)


def match_inputs(model: LockModel, arrays: Mapping[str, Array], where: str) -> Batch:
    """Select the inputs of a model from ``arrays``, by name or by index.

    Args:
        model: whose inputs are wanted.
        arrays: by name; (inferences, *shape), or the shape alone for one inference.
        where: place of the arrays, for errors.

    Raises:
        InputError: an input is missing, or an array does not match its tensor.
    """
    result = []
    for index, tensor in enumerate(model.inputs):
        key = next((k for k in (tensor.name, str(index)) if k in arrays), None)
        if key is None:
            raise InputError(
                f"no array for the input '{tensor.name}'",
                where=where,
                hint=f"Its inputs are: {_names(model.inputs)}; "
                f"the file has: {', '.join(arrays) or 'nothing'}.",
            )
        taken = tensor if model.frames is None else replace(tensor, shape=model.frames.window)
        result.append(fit_array(arrays[key], taken, f"{where}: {key}"))
    counts = {len(array) for array in result}
    if len(counts) > 1:
        raise InputError(
            f"the inputs have different numbers of inferences: {sorted(counts)}",
            where=where,
            hint="Give every input the same leading axis.",
        )
    count = counts.pop() if counts else 1
    if count == 0:
        raise InputError("the arrays hold no inference: their leading axis is 0", where=where)
    return Batch(arrays=tuple(result), count=count)


def match_reference(model: LockModel, arrays: Mapping[str, Array], count: int, where: str) -> Reference:
    """Select the expected outputs of a model from ``arrays``, by name or by index; ``label`` holds classes.

    Args:
        model: whose outputs are expected.
        arrays: by name; (inferences, *shape), or the shape alone for one inference.
        count: inferences of the inputs.
        where: place of the arrays, for errors.

    Raises:
        InputError: no array matches an output, an array matches nothing, or the number of inferences differs.
    """
    outputs: dict[str, Array] = {}
    for index, tensor in enumerate(model.outputs):
        key = next((k for k in (tensor.name, str(index)) if k in arrays), None)
        if key is not None:
            array = fit_array(arrays[key], tensor, f"{where}: {key}")
            _same_count(len(array), count, f"{where}: {key}")
            outputs[tensor.name] = array
    labels = arrays.get(LABEL_KEY)
    if labels is not None:
        _check_numbers(labels, f"{where}: {LABEL_KEY}")
        labels = labels.reshape(-1)
        _same_count(len(labels), count, f"{where}: {LABEL_KEY}")
    known = {t.name for t in (*model.inputs, *model.outputs)} | {LABEL_KEY}
    known |= {str(index) for index in range(max(len(model.inputs), len(model.outputs)))}
    unknown = [f"'{name}'" for name in arrays if name not in known]
    if unknown or (not outputs and labels is None):
        what = f"no output or input has the name {', '.join(unknown)}: it would not be compared"
        raise InputError(
            what if outputs or labels is not None else "no array has the name of an output",
            where=where,
            hint=f"Its outputs are: {_names(model.outputs)} (or their indices); the file has: "
            f"{', '.join(arrays) or 'nothing'}.",
        )
    return Reference(outputs=outputs, labels=labels)


def fit_array(array: Array, tensor: LockTensor, where: str) -> Array:
    """Convert an array to (inferences, *shape) and the type of a tensor.

    An extra leading axis is the batch; so is a leading axis in place of an extent of 1.

    Raises:
        InputError: the shape differs, real numbers are given for integers, or a value is out of range.
    """
    _check_numbers(array, where)
    shape = tuple(tensor.shape)
    if array.shape == shape:
        batch = array.reshape(1, *shape)
    elif array.shape[1:] == shape or (shape[:1] == (1,) and array.ndim and array.shape[1:] == shape[1:]):
        batch = array.reshape(array.shape[0], *shape)
    else:
        raise InputError(
            f"shape {list(array.shape)} does not fit '{tensor.name}', which is {list(shape)}",
            where=where,
            hint="An array may have one extra leading axis: a batch.",
        )
    return np.ascontiguousarray(_converted(batch, tensor, where))


def _converted(array: Array, tensor: LockTensor, where: str) -> Array:
    """Convert an array to the type of a tensor, each value kept; real numbers are rounded to its precision.

    Raises:
        InputError: real numbers for integers, or a value beyond the range of the type.
    """
    wanted = DType.parse(tensor.dtype).numpy
    if array.dtype == wanted:
        return array
    if array.dtype.kind == "f" and wanted.kind != "f":
        raise InputError(
            f"values of type {array.dtype} do not fit '{tensor.name}', which is {tensor.dtype}",
            where=where,
            hint="Quantise them first: numpy.round(values / scale) + zero_point, as "
            f"{tensor.dtype}; or give an array of integers.",
        )
    least, most = _range(array.dtype, wanted)
    known = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    ends = (known.min().item(), known.max().item()) if known.size else ()
    outside = [value for value in ends if not least <= value <= most]
    if outside:
        raise InputError(
            f"values of type {array.dtype} do not fit '{tensor.name}', which is {tensor.dtype}: "
            f"{outside[-1]} is not within {least} to {most}",
            where=where,
            hint="Quantise the array for this tensor first; a uint8 image becomes int8 by subtracting 128."
            if wanted.kind in "iu"
            else "Scale the array first, or give it in another type.",
        )
    return array.astype(wanted)


def _range(given: np.dtype[Any], wanted: np.dtype[Any]) -> tuple[float, float]:
    """Least and greatest value of a type that another one holds, whole numbers up to there exactly."""
    if wanted.kind == "b":
        return 0, 1
    if wanted.kind in "iu":
        return int(np.iinfo(wanted).min), int(np.iinfo(wanted).max)
    most = float(np.finfo(wanted).max) if given.kind == "f" else 1 << (np.finfo(wanted).nmant + 1)
    return -most, most


def _check_numbers(array: Array, where: str) -> None:
    if array.dtype.kind not in "biuf":
        raise InputError(f"values of type {array.dtype} are not real numbers", where=where)


def class_of(output: Array) -> int:
    """Class that an output names: a single int32 or int64 itself, else the place of the largest value."""
    if output.size == 1 and output.dtype.kind in "iu" and output.dtype.itemsize >= 4:
        return int(output.item())
    return int(np.argmax(output))


def accuracy(outputs: Sequence[Array], labels: Array) -> float:
    """Share of inferences, 0 to 1, whose class is the label."""
    hits = [class_of(o) == int(label) for o, label in zip(outputs, labels, strict=True)]
    return sum(hits) / len(hits) if hits else 0.0


def _same_count(got: int, wanted: int, where: str) -> None:
    if got != wanted:
        raise InputError(
            f"{got} inferences here, and {wanted} in the inputs",
            where=where,
            hint="Give inputs and expected outputs with the same number of inferences.",
        )


def _names(tensors: Sequence[LockTensor]) -> str:
    return ", ".join(f"'{t.name}'" for t in tensors)
