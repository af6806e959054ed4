# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime (part of the extra ``onnx``)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import ClassVar

from mlf_sdk.judge.compare import Tolerance
from mlf_sdk.judge.witnesses.interpreter import installed, open_worker
from mlf_sdk.judge.witnesses.modelfile import ModelFile
from mlf_sdk.judge.witnesses.witness import Witness, WitnessSession

_QUANTISED: float = 0.05  # of the largest value: layers may round one step differently
_INTEGER_STEPS: float = 6.0  # the same of an int8 output, whose values go to 127


class OnnxRuntime(Witness):
    """ONNX Runtime on the CPU.

    It adds in another order, and computes quantised models in part with floats and in part with integers of
    its own: those are compared with a share of the largest value.
    """

    name = "onnxruntime"
    formats: ClassVar[frozenset[str]] = frozenset({"onnx"})
    rtol: ClassVar[float] = 1e-4

    def title(self) -> str | None:
        """``ONNX Runtime`` and its version."""
        found = installed("onnxruntime", "onnxruntime-gpu")
        return None if found is None else f"ONNX Runtime {found}"

    def open(self, model: ModelFile, timeout_s: float) -> AbstractContextManager[WitnessSession]:
        """See Witness."""
        return open_worker([self.name, str(model.path)], timeout_s)

    def tolerance(self, model: ModelFile, stated: Tolerance, *, integers: bool) -> Tolerance:
        """See Witness."""
        if not model.is_quantised:
            return super().tolerance(model, stated, integers=integers)
        if integers:
            return Tolerance(rtol=stated.rtol, atol=max(stated.atol, _INTEGER_STEPS))
        return Tolerance(rtol=max(stated.rtol, _QUANTISED), atol=stated.atol)

    def remark(self, model: ModelFile) -> str:
        """See Witness."""
        return f"within {_QUANTISED:.0%}" if model.is_quantised else ""
