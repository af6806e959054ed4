# SPDX-License-Identifier: Apache-2.0
"""From raw frames or sound to a model's input: what ``NAME_preprocess()`` of a project computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlf_sdk.compiler.preprocess.plan import plan_of, preprocessed, raw_of
from mlf_sdk.compiler.preprocess.section import section_of
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.preprocess import preprocessing_of
from mlf_sdk.ir.tensor import InputFacts, Preprocessing
from mlf_sdk.pipeline.api import load
from mlf_sdk.tools.arrays import Array


def preprocess(
    raw: Array,
    pre: str | Path | Mapping[str, Any],
    *,
    model: str | Path | None = None,
    shape: Sequence[int] | None = None,
    dtype: str = "float32",
    scale: float = 0.0,
    zero_point: int = 0,
) -> Array:
    """Compute a model's input from frames of a camera or from sound, bit for bit as the generated C does.

    Args:
        raw: bytes of a frame, such as (height, width, 2) uint8 of rgb565, or int16 samples of an inference;
            one extra leading axis is a batch.
        pre: TOML file with a section ``[pre]``, or its keys.
        model: file or archive whose input is meant; without it the next four say what it is like.
        shape: of the input, for one inference.
        dtype: of the input: int8, uint8, int16 or float32.
        scale: of the input's quantisation; 0: it has none.
        zero_point: of the input's quantisation.

    Returns:
        The input, in its shape and type; of a batch with a leading axis.

    Raises:
        InputError: a key of the section does not fit the input, or ``raw`` not the section.
    """
    section = section_of(pre)
    if model is not None:
        preprocessing = preprocessing_of(load(model), section, is_step=False)
    elif shape is not None:
        facts = InputFacts(shape=tuple(shape), dtype=dtype, scale=scale, zero_point=zero_point)
        preprocessing = Preprocessing(section=section, input=0, facts=facts, is_step=False)
    else:
        raise InputError("neither model nor shape is given", where="preprocess()")
    wanted = raw_of(plan_of(preprocessing))
    given = np.asarray(raw)
    if given.dtype != np.dtype(wanted.dtype) or given.shape[-len(wanted.shape) :] != wanted.shape:
        raise InputError(
            f"{given.dtype} {list(given.shape)} does not fit the section [pre], which takes "
            f"{wanted.dtype} {list(wanted.shape)}",
            where="preprocess()",
            hint="It may have one extra leading axis: a batch.",
        )
    if given.shape == wanted.shape:
        return preprocessed(preprocessing, given)
    if given.ndim != len(wanted.shape) + 1 or not len(given):
        raise InputError(f"a batch has one extra axis, not {list(given.shape)}", where="preprocess()")
    return np.stack([preprocessed(preprocessing, one) for one in given])
