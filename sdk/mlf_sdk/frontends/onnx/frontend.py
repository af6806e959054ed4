# SPDX-License-Identifier: Apache-2.0
"""The frontend of ONNX models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.compiler.options import CompileOptions, shapes_of
from mlf_sdk.frontends.compiled import CompilingFrontend
from mlf_sdk.frontends.foreign import foreign_model

if TYPE_CHECKING:
    from mlf_sdk.compiler.graph import Graph
    from mlf_sdk.compiler.survey import Survey


class OnnxFrontend(CompilingFrontend):
    """``.onnx`` files."""

    name = "onnx"
    title = "ONNX model"
    extension = ".onnx"

    def recognise(self, path: Path) -> bool:
        """Look at the first fields; the format has no identifier."""
        from mlf_sdk.compiler.onnx.file import is_onnx

        return is_onnx(path) and foreign_model(path) is None

    def graph(self, path: Path, name: str, options: CompileOptions) -> Graph:
        """Read the model."""
        from mlf_sdk.compiler.onnx.load import load_onnx

        return load_onnx(path, name, shapes_of(options.shapes), options.batch, options.generation)

    def survey(self, path: Path, options: CompileOptions) -> Survey:
        """Survey the model, with nodes that can't be compiled."""
        from mlf_sdk.compiler.onnx.survey import survey_onnx

        return survey_onnx(path, shapes_of(options.shapes), options.batch)

    def files(self, path: Path) -> tuple[Path, ...]:
        """The model and its external data."""
        from mlf_sdk.compiler.onnx.file import external_files

        return (path, *external_files(path))
