# SPDX-License-Identifier: Apache-2.0
"""Compile a model file to an archive."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlf_sdk.compiler.choices import LayerChoice
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.compiled import compiling_frontend
from mlf_sdk.ir.model import Model
from mlf_sdk.pipeline.arguments import check_output, make_request
from mlf_sdk.pipeline.loading import options_in
from mlf_sdk.pipeline.options import ProbeOptions
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.stages import for_core
from mlf_sdk.pipeline.tune import BoardTuner, measuring_request, tuned_options
from mlf_sdk.tools.files import write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledModel:
    """An archive that was made.

    Attributes:
        output: path of the archive.
        size_bytes: of the archive.
        model: as read back from it.
        choices: kernels that were chosen, and those that were not; empty unless they were asked for.
    """

    output: Path
    size_bytes: int
    model: Model
    choices: tuple[LayerChoice, ...]


def compile(
    source: str | os.PathLike[str] | Any,  # noqa: ANN401
    output: str | os.PathLike[str],
    request: Request | None = None,
    *,
    example_inputs: tuple[Any, ...] | None = None,
    name: str = "",
    with_choices: bool = False,
    tune: bool = False,
    probe: ProbeOptions | None = None,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401
) -> CompiledModel:
    """Compile a model to an archive in the Model Library Format, version 7.

    Args:
        source: the model, such as a ``.tflite`` file; or a module of PyTorch, with its ``example_inputs``.
        output: path of the archive; an existing one is replaced.
        request: prepared options.
        example_inputs: tensors that a module of PyTorch is called with: their shapes are those of the model.
        name: of the module in the archive; by default that of the file or of the class, as a C identifier.
        with_choices: list the kernels of each layer as well.
        tune: count the kernels of each layer on an emulated board with the core, or on that of the ``port``,
            in cycles, and take the cheapest.
        probe: how the board on the port is flashed, where its row and the port do not say it.
        progress: called with each stage and its state.
        options: fields of `Request`: ``goal``, ``core``, or the ``board`` whose core it is compiled for.

    Raises:
        ArchiveError: the file is damaged, or has operators that are not supported; all at once.
        InputError: it is of no format that is compiled, or the archive can't be written; ``tune``: nothing
            that can count.
        ToolError: ``tune``: a tool is missing or failed.
        TargetError: ``tune``: the board did not answer.
    """
    if example_inputs is not None or not isinstance(source, str | os.PathLike):
        with _exported(source, example_inputs, name) as path:
            return compile(
                path,
                output,
                request,
                name=name,
                with_choices=with_choices,
                tune=tune,
                probe=probe,
                progress=progress,
                **options,
            )
    from mlf_sdk.frontends import load

    path = Path(source)
    made = make_request(str(source), request, options)
    frontend = compiling_frontend(path)
    check_output(path, Path(output))
    if made.board is not None:
        made = for_core(made)
    if made.port is not None and not tune:
        raise InputError("a port is for counting only", where="--port", hint="Add --tune.")
    if probe is not None and not (tune and made.port is not None):
        raise InputError(
            "no board is flashed", where="--runner, --probe", hint="Add --tune and the board's --port."
        )
    with measuring_request(made) if tune else nullcontext(made) as counting:
        tuner = BoardTuner(counting, progress, probe or ProbeOptions()) if tune else None
        options_of = tuned_options(options_in(made), tuner)
        progress.say(f"compiling {path}")
        content = frontend.compile(path, options_of, name, tuner)
        write_whole(Path(output), content)
        return CompiledModel(
            output=Path(output),
            size_bytes=len(content),
            model=load(Path(output)),
            choices=frontend.choices(path, options_of, tuner) if with_choices else (),
        )


@contextmanager
def _exported(module: Any, example_inputs: tuple[Any, ...] | None, name: str) -> Iterator[Path]:  # noqa: ANN401
    """ONNX file of a module of PyTorch, while the context lasts."""
    from mlf_sdk.frontends.torch.program import module_to_onnx

    kind = type(module).__name__
    if not isinstance(example_inputs, tuple):
        raise InputError(
            "no tuple of example inputs", where=kind, hint="compile(module, output, example_inputs=(x,))"
        )
    with tempfile.TemporaryDirectory(prefix="mlf-torch-") as folder:
        path = Path(folder) / f"{name or kind.lower()}.onnx"
        module_to_onnx(module, example_inputs, path)
        yield path
