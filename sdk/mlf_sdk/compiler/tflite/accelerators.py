# SPDX-License-Identifier: Apache-2.0
"""Custom operators into which compilers of accelerators put a part of a model: its layers are gone."""

from __future__ import annotations

import re
from typing import Final

from mlf_sdk.compiler.tflite.file import RawSubgraph

PREFIX: Final = "CUSTOM:"
# Operator, accelerator, compiler, and where the name of its result says what the file was before.
_MADE_BY: Final = (
    ("edgetpu-custom-op", "a Coral Edge TPU", "edgetpu_compiler", "the name without _edgetpu"),
    ("ethos-u", "an Arm Ethos-U", "Vela", "the name without _vela"),
    ("NeutronGraph", "an NXP eIQ Neutron NPU", "the Neutron converter", ""),
    ("vsi-npu", "a VeriSilicon NPU", "its exporter of binary graphs", ""),
    (r"DISPATCH_OP(_\d+)?", "an NPU of a phone (Qualcomm, MediaTek, Google)", "LiteRT's compiler", ""),
    (r".*[-_](npu|tpu)[-_](custom[-_])?op", "an accelerator", "its compiler", ""),
)


def accelerator_of(name: str) -> tuple[str, str]:
    """Return the nature of a custom operator and a remedy; empty for one that no known compiler makes."""
    for pattern, accelerator, compiler, before in _MADE_BY:
        if re.fullmatch(pattern, name):
            which = f" ({before})" if before else ""
            return (
                f"a part that {compiler} compiled for {accelerator}: its layers are not in the file",
                f"use the .tflite file from before that step{which}",
            )
    if name.startswith("Flex"):
        return (
            "an operator of TensorFlow that TensorFlow Lite lacks",
            "convert the model without SELECT_TF_OPS, and replace what then fails",
        )
    return "", ""


def accelerated(raw: RawSubgraph) -> str:
    """Return the remedy for a model with parts that were compiled for an accelerator; empty: it has none."""
    for operator in raw.operators:
        name = operator.kind.removeprefix(PREFIX)
        if name != operator.kind and not name.startswith("Flex") and accelerator_of(name)[1]:
            return accelerator_of(name)[1]
    return ""
