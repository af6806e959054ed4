# SPDX-License-Identifier: Apache-2.0
"""Versions of TensorFlow Lite's operators whose meaning is known here."""

from __future__ import annotations

from typing import Final

from mlf_sdk.compiler.builder import refuse
from mlf_sdk.compiler.tflite.file import RawOperator

# Highest version of each; 1 for those that are not listed. A new version gives new types or fields a meaning.
KNOWN: Final = {
    "ABS": 5, "ADD": 5, "ARG_MAX": 3, "ARG_MIN": 3, "AVERAGE_POOL_2D": 3, "BATCH_MATMUL": 4,
    "BATCH_TO_SPACE_ND": 4, "BROADCAST_TO": 3, "CAST": 7, "CONCATENATION": 4, "CONV_2D": 8,
    "DEPTHWISE_CONV_2D": 7, "DEPTH_TO_SPACE": 2, "DEQUANTIZE": 6, "DIV": 2, "DYNAMIC_UPDATE_SLICE": 4,
    "EMBEDDING_LOOKUP": 4, "EQUAL": 4,
    "EXP": 2, "FILL": 4, "FLOOR_DIV": 3, "FLOOR_MOD": 2, "FULLY_CONNECTED": 13, "GATHER": 7, "GATHER_ND": 5,
    "GREATER": 2, "GREATER_EQUAL": 3, "L2_NORMALIZATION": 2, "LEAKY_RELU": 2, "LESS": 3, "LESS_EQUAL": 2,
    "LOG": 2, "LOGISTIC": 3, "LOG_SOFTMAX": 2, "MAXIMUM": 4, "MAX_POOL_2D": 3, "MEAN": 3, "MINIMUM": 4,
    "MIRROR_PAD": 3, "MUL": 7, "NOT_EQUAL": 3, "PACK": 4, "PAD": 4, "PADV2": 4, "QUANTIZE": 3,
    "REDUCE_MAX": 3, "REDUCE_MIN": 3, "RELU": 3, "RELU6": 3, "RESHAPE": 1, "RESIZE_BILINEAR": 4,
    "RESIZE_NEAREST_NEIGHBOR": 4, "REVERSE_V2": 3, "RSQRT": 3, "SELECT": 4, "SELECT_V2": 2, "SLICE": 6,
    "SOFTMAX": 3, "SPACE_TO_BATCH_ND": 4, "SPACE_TO_DEPTH": 2, "SPLIT": 4, "SPLIT_V": 2,
    "SQUARED_DIFFERENCE": 2, "SQUEEZE": 2, "STRIDED_SLICE": 8, "SUB": 5, "SUM": 2, "SVDF": 4, "TANH": 3,
    "TILE": 3, "TRANSPOSE": 6, "TRANSPOSE_CONV": 5, "UNIDIRECTIONAL_SEQUENCE_LSTM": 4, "UNPACK": 4,
}  # fmt: skip


def check_version(operator: RawOperator) -> None:
    """Refuse a version that nothing here knows."""
    most = KNOWN.get(operator.kind, 1)
    if not 1 <= operator.version <= most:
        refuse(
            f"its version is {operator.version}; versions 1 to {most} are known",
            "convert the model with an older converter, or update mlf-sdk",
        )
