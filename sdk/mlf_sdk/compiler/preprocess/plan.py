# SPDX-License-Identifier: Apache-2.0
"""Plans of preprocessing by their kind: what goes in, the input in numpy, and the files of C."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.preprocess.audioplan import AudioPlan, plan_audio
from mlf_sdk.compiler.preprocess.imageplan import ImagePlan, plan_image
from mlf_sdk.ir.tensor import Preprocessing

Plan = ImagePlan | AudioPlan
_HEAD: Final = """/* SPDX-License-Identifier: Apache-2.0 */
/* {what}: {title}. Made by mlf-sdk from its section [pre]; mlf_sdk.preprocess() computes the same. */
"""
_HEADER: Final = """#ifndef {macro}
#define {macro}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{declarations}
#ifdef __cplusplus
}}
#endif

#endif
"""


class Raw(NamedTuple):
    """The raw input of a model with preprocessing."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Source(NamedTuple):
    """Text of a source, and the symbols that it defines."""

    text: str
    symbols: tuple[str, ...]


class Files(NamedTuple):
    """Files of C of a preprocessing, by name: its header, its sources, and headers of theirs."""

    header: tuple[str, str]
    sources: dict[str, Source]
    headers: dict[str, str]


@lru_cache(maxsize=16)
def plan_of(preprocessing: Preprocessing) -> Plan:
    """Plan of a preprocessing.

    Raises:
        InputError: a key of the section does not fit the input, or others.
    """
    planned = plan_image if preprocessing.section.frame is not None else plan_audio
    return planned(preprocessing.section, preprocessing.facts)


def raw_of(plan: Plan) -> Raw:
    """The frame, or the samples."""
    if isinstance(plan, ImagePlan):
        return Raw("frame", "uint8", plan.shape)
    return Raw("audio", "int16", (plan.samples,))


def preprocessed(preprocessing: Preprocessing, raw: Array) -> Array:
    """Input of the model for one frame, or the samples of one inference; in the input's shape and type."""
    plan = plan_of(preprocessing)
    if isinstance(plan, ImagePlan):
        from mlf_sdk.compiler.preprocess.inputs import image_input

        result = image_input(plan, raw)
    else:
        from mlf_sdk.compiler.preprocess.inputs import audio_input

        result = audio_input(plan, raw)
    return np.ascontiguousarray(result.reshape(preprocessing.facts.shape))


def files_of(name: str, preprocessing: Preprocessing) -> Files:
    """Files of C.

    Args:
        name: C identifier of the model, in front of all functions.
    """
    plan = plan_of(preprocessing)
    stem = f"{name}_preprocess"
    symbols = [stem]
    sources, headers = {}, {}
    if isinstance(plan, ImagePlan):
        from mlf_sdk.compiler.preprocess.imagecode import image_header, image_source

        declarations, text = image_header(name, plan), image_source(name, plan)
    else:
        from mlf_sdk.compiler.preprocess.audiocode import audio_header, audio_kernels, audio_source

        code, kernels = audio_kernels(name, plan)
        declarations, text = audio_header(name, plan), audio_source(name, plan, code, kernels)
        symbols += [f"{stem}_window", *([f"{stem}_reset"] if plan.graph.states else [])]
        sources[f"{stem}_kernels.c"] = Source(code.own, tuple(dict.fromkeys(code.symbols)))
        headers[code.header_name] = code.header
    head = _HEAD.format(what=f"Preprocessing of {name}", title=plan.title)
    text = f'{head}#include "{stem}.h"\n\n#include <string.h>\n\n{text}'
    sources[f"{stem}.c"] = Source(text, tuple(symbols))
    header = _HEADER.format(macro=f"{stem}_h".upper(), declarations=declarations)
    return Files((f"{stem}.h", head + header), sources, headers)
