# SPDX-License-Identifier: Apache-2.0
"""The frontend of ONNX models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.compiler.options import CompileOptions, shapes_of
from mlf_sdk.frontends.compiled import CompilingFrontend
from mlf_sdk.frontends.foreign import foreign_model
from mlf_sdk.ir.finding import Finding

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

    def findings(self, path: Path, options: CompileOptions) -> tuple[Finding, ...]:
        """List classifiers whose labels are strings."""
        from mlf_sdk.compiler.onnx.classical import named_classes
        from mlf_sdk.compiler.onnx.file import read_onnx
        from mlf_sdk.errors import FaultCollector

        return tuple(
            Finding(
                where=node.place,
                what="the labels of its classes are strings, which a device doesn't have",
                handled="the label that it gives is the place of the class among them, as int64",
            )
            for node in named_classes(read_onnx(path, FaultCollector(str(path))))
        )

    def files(self, path: Path) -> tuple[Path, ...]:
        """The model and its external data."""
        from mlf_sdk.compiler.onnx.file import external_files

        return (path, *external_files(path))
