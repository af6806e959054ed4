# SPDX-License-Identifier: Apache-2.0
"""Preprocessing of sound in numpy: bit for bit what the C of `audiocode` computes."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.preprocess.audioplan import AudioPlan
from mlf_sdk.compiler.reference import Interpreter


def audio_input(plan: AudioPlan, samples: Array) -> Array:
    """Input of the model for the samples of an inference: (windows, features); estimates start anew."""
    interpreter = Interpreter(plan.graph)
    begins = range(0, plan.windows * plan.stride, plan.stride)
    rows = [interpreter.run([samples[begin : begin + plan.window]])[0] for begin in begins]
    return stored(plan, np.stack(rows).astype(np.int64))


def stored(plan: AudioPlan, features: Array) -> Array:
    """Stored values of int64 features (windows, channels)."""
    if plan.cosines is not None:
        features = features @ plan.cosines.T.astype(np.int64)
    if plan.limits is None:
        return features.astype(np.float32) * np.float32(plan.unit)
    scaled = (features * plan.multiplier + (1 << (plan.shift - 1)) >> plan.shift) + plan.zero_point
    return np.clip(scaled, *plan.limits).astype(plan.dtype)
