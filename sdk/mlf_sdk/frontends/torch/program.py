# SPDX-License-Identifier: Apache-2.0
"""Programs and modules of PyTorch to ONNX files, by PyTorch's own exporter."""

from __future__ import annotations

import json
import logging
import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from mlf_sdk.compiler.onnx.file import MAX_FILE_BYTES, require_onnx
from mlf_sdk.errors import InputError

_INSTALL: Final = "Install what reads programs of PyTorch: pip install 'mlf-sdk[torch]'."
WEIGHTS_ONLY: Final = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
_CODE: Final = ("custom_obj", "opaque_obj")  # constants that are pickled objects


def require_torch() -> Any:  # noqa: ANN401
    """The package ``torch``, with what its exporter needs.

    Raises:
        InputError: something is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torch

            import_module("onnxscript")
    except ImportError as error:
        name = error.name or "torch"
        raise InputError(
            f"the package '{name}' is not installed", where="PyTorch program", hint=_INSTALL
        ) from None
    require_onnx()
    return torch


def program_to_onnx(path: Path, output: Path) -> None:
    """Write the exported program in a ``.pt2`` file as an ONNX file.

    Raises:
        InputError: the file is damaged or holds pickled objects, or PyTorch can't express it in ONNX.
    """
    check_members(path)
    with _quiet(str(path)):
        torch = require_torch()
        with _weights_only():
            program = torch.export.load(path)
        _write(torch, output, program)


def module_to_onnx(module: Any, example_inputs: tuple[Any, ...], output: Path) -> None:  # noqa: ANN401
    """Write a module as an ONNX file.

    Args:
        module: a ``torch.nn.Module`` in evaluation mode, one that was quantised by PT2E, or an
            ``ExportedProgram``.
        example_inputs: tensors that it is called with; their shapes and types are those of the model.
        output: path of the file.

    Raises:
        InputError: it is no module, or PyTorch can't export it.
    """
    torch = require_torch()
    where = type(module).__name__
    if isinstance(module, torch.nn.Module):
        if _is_training(torch, module):
            raise InputError("the module is in training mode", where=where, hint="Call module.eval() first.")
        with _quiet(where), torch.no_grad():
            module = torch.export.export(module, tuple(example_inputs))
    elif not isinstance(module, torch.export.ExportedProgram):
        raise InputError("neither a module nor an exported program of PyTorch", where=where)
    with _quiet(where):
        _write(torch, output, module)


def _is_training(torch: Any, module: Any) -> bool:  # noqa: ANN401
    """Return whether a module computes as in training.

    A graph's own flag says nothing: its operators state it, and the reader of ONNX refuses those that train.
    """
    if not isinstance(module, torch.fx.GraphModule):
        return bool(module.training)
    called = [module.get_submodule(node.target) for node in module.graph.nodes if node.op == "call_module"]
    return any(one.training for one in called if type(one).__module__.startswith("torch.nn."))


def _write(torch: Any, output: Path, program: Any) -> None:  # noqa: ANN401
    result = torch.onnx.export(program, dynamo=True, verbose=False)
    output.write_bytes(result.model_proto.SerializeToString())


def check_members(path: Path) -> None:
    """Refuse an archive that is too large, or holds objects or libraries besides tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            if sum(info.file_size for info in infos) > MAX_FILE_BYTES:
                raise InputError(f"more than {MAX_FILE_BYTES} bytes of content", where=str(path))
            names = [info.filename for info in infos]
            configs = [json.loads(archive.read(n)) for n in names if n.endswith("_config.json")]
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"damaged: {str(error)[:200]}", where=str(path)) from error
    code = [n for n in names if n.rpartition("/")[2].startswith(_CODE) or "/aotinductor/" in n]
    code += ["a pickled tensor" for config in configs if '"use_pickle": true' in json.dumps(config)]
    if code:
        raise InputError(
            f"it holds objects that run code when they are loaded: {', '.join(code[:5])}",
            where=str(path),
            hint="Export a program of plain tensors and standard operators.",
        )


@contextmanager
def _weights_only() -> Iterator[None]:
    """Let PyTorch load tensors, and no other objects."""
    former = os.environ.get(WEIGHTS_ONLY)
    os.environ[WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        if former is None:
            del os.environ[WEIGHTS_ONLY]
        else:
            os.environ[WEIGHTS_ONLY] = former


@contextmanager
def _quiet(where: str) -> Iterator[None]:
    """Keep PyTorch's advice out of the output, and turn whatever it raises into one error."""
    former = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(
            f"PyTorch can't export it: {said}",
            where=where,
            hint="Try torch.onnx.export(..., dynamo=True, report=True): its report names the operators.",
        ) from error
    finally:
        logging.disable(former)
