# SPDX-License-Identifier: Apache-2.0
"""The frontend of ONNX models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from mlf_sdk.compiler.options import CompileOptions, shapes_of
from mlf_sdk.frontends.compiled import CompilingFrontend
from mlf_sdk.frontends.foreign import foreign_model
from mlf_sdk.ir.model import Finding
from mlf_sdk.tools.checks import shown

if TYPE_CHECKING:
    from mlf_sdk.compiler.graph import Graph
    from mlf_sdk.compiler.survey import Survey

_LABELS_SHOWN: Final = 20


class OnnxFrontend(CompilingFrontend):
    """``.onnx`` files."""

    name = "onnx"
    title = "ONNX model"
    short = "ONNX"
    extension = ".onnx"
    packages = ("onnx",)

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
        """List what gives strings, and the number of each."""
        from mlf_sdk.compiler.onnx.load import labels_of

        return tuple(
            Finding(
                where=place,
                what="its labels are strings, which a device doesn't have",
                handled=f"it gives the number of the string, as int64: {_numbered(labels)}",
            )
            for place, labels in labels_of(path)
        )

    def files(self, path: Path) -> tuple[Path, ...]:
        """The model and its external data."""
        from mlf_sdk.compiler.onnx.file import external_files

        return (path, *external_files(path))


def _numbered(labels: tuple[str, ...]) -> str:
    """Strings with their numbers, the first ones of many."""
    result = ", ".join(f"{number} {shown(label)}" for number, label in enumerate(labels[:_LABELS_SHOWN]))
    return result + (f" and {len(labels) - _LABELS_SHOWN} more" if len(labels) > _LABELS_SHOWN else "")
