# SPDX-License-Identifier: Apache-2.0
"""Inputs that a run leaves as they are: kept in the arena, or in memory of the caller."""

from __future__ import annotations

from typing import Final

from mlf_sdk.errors import NotPossibleError
from mlf_sdk.ir.model import Model, Tensor

_WORD_BYTES: Final = 4  # kernels load words of bytes


def check_inputs_kept(model: Model, option: str = "--keep-inputs") -> None:
    """Reject intact inputs for a model whose own code overwrites them.

    Raises:
        NotPossibleError: it does; the hint is to leave out ``option``.
    """

    def bytes_of(tensor: int) -> tuple[int, int, int]:
        start = model.offset_in_root(tensor)
        return model.root(tensor).id, start, start + model.tensors[tensor].size_bytes

    written = [
        bytes_of(i)
        for s in model.steps
        for i in (*s.outputs, *(s.inputs[w] for w in s.writes), *(s.arguments[k] for k in s.escaping_args))
    ]
    for tensor in model.inputs:
        root, start, end = bytes_of(tensor)
        if any(root == other and start < high and low < end for other, low, high in written):
            raise NotPossibleError(
                f"the model writes to its input '{model.tensors[tensor].name}': it can't be kept",
                where=f"model {model.name}",
                hint=f"Leave out {option}, and write the inputs before every run.",
            )


def least_alignment(tensor: Tensor) -> int:
    """Bytes that the address of an input in memory of the caller must be a multiple of."""
    return max(_WORD_BYTES, tensor.dtype.size_bytes)


def place_inputs(model: Model, alignment: int) -> tuple[dict[int, int], int]:
    """Offsets of inputs in a buffer that an application has in place of a caller, and its bytes.

    They are no better aligned than a caller's must be, so that runs prove that this is enough.

    Args:
        alignment: bytes; of the buffer.

    Raises:
        NotPossibleError: an output is such an input, a step writes to one, or takes tables of tensors.
    """
    check_inputs_kept(model, "--caller-inputs")
    _check_callers(model)
    offsets: dict[int, int] = {}
    end = 0
    for i in model.inputs:
        offsets[i] = -(-end // alignment) * alignment + least_alignment(model.tensors[i])
        end = offsets[i] + model.tensors[i].size_bytes
    return offsets, end


def _check_callers(model: Model) -> None:
    shown = [i for i in model.outputs if model.root(i).id in model.caller_inputs]
    packed = [step.name for step in model.steps if step.takes_tensors]
    if len(set(model.inputs)) < len(model.inputs) or any(model.root(i).id != i for i in model.inputs):
        what = "its inputs share memory"
    elif shown:
        what = f"the output '{model.tensors[shown[0]].name}' is an input itself"
    elif packed:
        what = f"the kernel of '{packed[0]}' takes tables of tensors"
    elif model.stream is not None:
        what = "its input comes row by row"
    else:
        return
    raise NotPossibleError(
        f"{what}: inputs can't lie in memory of the caller",
        where=f"model {model.name}",
        hint="Compile without --caller-inputs.",
    )
