# SPDX-License-Identifier: Apache-2.0
"""The frontend of PyTorch's files: exported programs are compiled, pickles refused."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.compiler.options import CompileOptions, shapes_of
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.compiled import CompilingFrontend
from mlf_sdk.frontends.foreign import foreign_model
from mlf_sdk.frontends.stated import Stated
from mlf_sdk.frontends.torch.kinds import TorchFile, kind_of

if TYPE_CHECKING:
    from mlf_sdk.compiler.graph import Graph
    from mlf_sdk.ir.model import Model


class TorchFrontend(CompilingFrontend):
    """``.pt2`` files of ``torch.export.save``; pickles are recognised to say why they are refused."""

    name = "torch"
    title = "PyTorch program"
    short = "PyTorch"
    extension = ".pt2"
    packages = ("onnx", "torch", "onnxscript")

    def recognise(self, path: Path) -> bool:
        """Look at the names of the members."""
        return kind_of(path) is not None and foreign_model(path) is None

    def graph(self, path: Path, name: str, options: CompileOptions) -> Graph:
        """Export the program to ONNX, and read that."""
        _refuse_pickles(path)
        from mlf_sdk.compiler.onnx.load import load_onnx
        from mlf_sdk.frontends.torch.program import program_to_onnx

        with tempfile.TemporaryDirectory(prefix="mlf-torch-") as folder:
            onnx = Path(folder) / f"{path.stem}.onnx"
            program_to_onnx(path, onnx)
            return load_onnx(onnx, name, shapes_of(options.shapes), options.batch, options.generation)

    def load_stated(self, path: Path, module: str | None, stated: Stated) -> Model:
        """Compile the program, or take what was compiled earlier."""
        _refuse_pickles(path)
        return super().load_stated(path, module, stated)


def _refuse_pickles(path: Path) -> None:
    if kind_of(path) is TorchFile.PICKLE:
        raise InputError(
            "a pickle of PyTorch: it runs code when it is loaded, so it is not opened",
            where=str(path),
            hint="Where you trust it, load it and export the program: torch.export.save("
            "torch.export.export(module, inputs), 'model.pt2'), or torch.onnx.export(..., dynamo=True).",
        )
