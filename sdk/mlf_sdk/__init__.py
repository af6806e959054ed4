# SPDX-License-Identifier: Apache-2.0
"""mlf-sdk: from a compiled model archive to firmware that is proven on its target.

import mlf_sdk

report = mlf_sdk.run("digits.tar", board="mps2-an386", inputs="test.npz", expect="test.npz")
print(report.memory.arena_bytes, report.ok)

Every function takes options as keyword arguments, or prepared in a `Request`; ``help(mlf_sdk.Request)`` lists
them. Errors are subclasses of `MlfError`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mlf_sdk.errors import (
    ArchiveError,
    CheckError,
    DoesNotFitError,
    InputError,
    MlfError,
    ModuleChoiceError,
    NotPossibleError,
    TargetError,
    ToolError,
)
from mlf_sdk.version import __version__

if TYPE_CHECKING:
    from mlf_sdk.frontends.registry import register_frontend
    from mlf_sdk.pipeline.api import build, check, generate, load, open_session
    from mlf_sdk.pipeline.cases import test
    from mlf_sdk.pipeline.compare import compare
    from mlf_sdk.pipeline.compile import compile
    from mlf_sdk.pipeline.convert import convert
    from mlf_sdk.pipeline.convertoptions import ConvertOptions
    from mlf_sdk.pipeline.export import export
    from mlf_sdk.pipeline.exportoptions import ExportOptions
    from mlf_sdk.pipeline.exporttvm import export_tvm
    from mlf_sdk.pipeline.firmware import inspect
    from mlf_sdk.pipeline.flash import flash
    from mlf_sdk.pipeline.options import CompareOptions, FlashOptions, ProofOptions
    from mlf_sdk.pipeline.preprocess import preprocess
    from mlf_sdk.pipeline.profile import profile
    from mlf_sdk.pipeline.progress import Progress
    from mlf_sdk.pipeline.quantize import quantize
    from mlf_sdk.pipeline.quantizeoptions import QuantizeOptions
    from mlf_sdk.pipeline.request import Request
    from mlf_sdk.pipeline.run import run
    from mlf_sdk.pipeline.sbom import make_sbom
    from mlf_sdk.pipeline.verification import verify
    from mlf_sdk.reporting.api import report
    from mlf_sdk.sweep.api import run_sweep
    from mlf_sdk.sweep.proof import proof
    from mlf_sdk.targets.registry import register_target

_HOMES = {
    "CompareOptions": "pipeline.options",
    "ConvertOptions": "pipeline.convertoptions",
    "ExportOptions": "pipeline.exportoptions",
    "FlashOptions": "pipeline.options",
    "Progress": "pipeline.progress",
    "ProofOptions": "pipeline.options",
    "QuantizeOptions": "pipeline.quantizeoptions",
    "Request": "pipeline.request",
    "build": "pipeline.api",
    "check": "pipeline.api",
    "compare": "pipeline.compare",
    "compile": "pipeline.compile",
    "convert": "pipeline.convert",
    "export": "pipeline.export",
    "export_tvm": "pipeline.exporttvm",
    "flash": "pipeline.flash",
    "generate": "pipeline.api",
    "inspect": "pipeline.firmware",
    "load": "pipeline.api",
    "make_sbom": "pipeline.sbom",
    "open_session": "pipeline.api",
    "preprocess": "pipeline.preprocess",
    "profile": "pipeline.profile",
    "proof": "sweep.proof",
    "quantize": "pipeline.quantize",
    "register_frontend": "frontends.registry",
    "register_target": "targets.registry",
    "report": "reporting.api",
    "run": "pipeline.run",
    "run_sweep": "sweep.api",
    "test": "pipeline.cases",
    "verify": "pipeline.verification",
}

__all__ = [
    "ArchiveError",
    "CheckError",
    "CompareOptions",
    "ConvertOptions",
    "DoesNotFitError",
    "ExportOptions",
    "FlashOptions",
    "InputError",
    "MlfError",
    "ModuleChoiceError",
    "NotPossibleError",
    "Progress",
    "ProofOptions",
    "QuantizeOptions",
    "Request",
    "TargetError",
    "ToolError",
    "__version__",
    "build",
    "check",
    "compare",
    "compile",
    "convert",
    "export",
    "export_tvm",
    "flash",
    "generate",
    "inspect",
    "load",
    "make_sbom",
    "open_session",
    "preprocess",
    "profile",
    "proof",
    "quantize",
    "register_frontend",
    "register_target",
    "report",
    "run",
    "run_sweep",
    "test",
    "verify",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import a name when it is asked for: the pytest plugin is loaded in runs that never touch a board."""
    if name not in _HOMES:
        raise AttributeError(f"module 'mlf_sdk' has no attribute {name!r}")
    result = globals()[name] = getattr(import_module(f"mlf_sdk.{_HOMES[name]}"), name)
    return result
