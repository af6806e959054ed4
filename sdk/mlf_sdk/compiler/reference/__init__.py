# SPDX-License-Identifier: Apache-2.0
"""Meaning of every operator in numpy, bit for bit as TFLM's reference kernels compute it.

It is the oracle of passes and kernels, and shares no code with either.
"""

from mlf_sdk.compiler.reference.evaluate import Interpreter, evaluate

__all__ = ["Interpreter", "evaluate"]
