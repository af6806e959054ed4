# SPDX-License-Identifier: Apache-2.0
"""PyTorch on programs that it exported (extra ``torch``)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import ClassVar

from mlf_sdk.errors import MlfError
from mlf_sdk.judge.witnesses.interpreter import installed, open_worker
from mlf_sdk.judge.witnesses.modelfile import ModelFile
from mlf_sdk.judge.witnesses.onnx import OnnxRuntime
from mlf_sdk.judge.witnesses.witness import WitnessSession, WitnessUnableError


class PyTorch(OnnxRuntime):
    """PyTorch's own operators, in eager mode; tolerances are those of ONNX Runtime, for the same reasons."""

    name = "torch"
    formats: ClassVar[frozenset[str]] = frozenset({"torch"})

    def title(self) -> str | None:
        """``PyTorch`` and its version."""
        found = installed("torch")
        return None if found is None else f"PyTorch {found}"

    def open(self, model: ModelFile, timeout_s: float) -> AbstractContextManager[WitnessSession]:
        """See Witness; members that run code when they are loaded are refused."""
        from mlf_sdk.frontends.torch.program import WEIGHTS_ONLY, check_members  # loads the reader of ONNX

        try:
            check_members(model.path)
        except MlfError as error:
            raise WitnessUnableError(error.what) from error
        return open_worker([self.name, str(model.path)], timeout_s, {WEIGHTS_ONLY: "1"})
