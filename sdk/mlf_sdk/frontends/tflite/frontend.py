# SPDX-License-Identifier: Apache-2.0
"""The frontend of TensorFlow Lite models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.compiler.options import CompileOptions, Kernels
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.compiled import CompilingFrontend
from mlf_sdk.frontends.filetype import is_tflite

if TYPE_CHECKING:
    from mlf_sdk.compiler.graph import Graph
    from mlf_sdk.compiler.survey import Survey
    from mlf_sdk.ir.model import Finding


class TfliteFrontend(CompilingFrontend):
    """``.tflite`` files."""

    name = "tflite"
    title = "TensorFlow Lite model"
    short = "TFLite"
    extension = ".tflite"

    def recognise(self, path: Path) -> bool:
        """Look for the format's identifier."""
        return is_tflite(path)

    def graph(self, path: Path, name: str, options: CompileOptions) -> Graph:
        """Read the model."""
        from mlf_sdk.compiler.tflite.load import load_tflite

        if options.kernels == Kernels.TVM.value:
            raise InputError(
                "TVM's kernels are for ONNX and PyTorch models",
                where="--kernels tvm",
                hint="Leave it out, or compile the model's ONNX file.",
            )
        return load_tflite(path, name, options.batch, options.custom)

    def survey(self, path: Path, options: CompileOptions) -> Survey:
        """Survey the model, with operators that can't be compiled."""
        from mlf_sdk.compiler.tflite.survey import survey_tflite

        return survey_tflite(path, options.batch, options.custom)

    def findings(self, path: Path, options: CompileOptions) -> tuple[Finding, ...]:
        """List what the file says that has no meaning."""
        return self.survey(path, options).findings
