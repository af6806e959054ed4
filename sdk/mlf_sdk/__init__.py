# SPDX-License-Identifier: Apache-2.0
"""mlf-sdk: from a compiled model archive to firmware that is proven on its target.

import mlf_sdk

report = mlf_sdk.run("digits.tar", board="mps2-an386", inputs="test.npz", expect="test.npz")
print(report.memory.arena_bytes, report.ok)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mlf_sdk.errors import MlfError
from mlf_sdk.version import __version__

if TYPE_CHECKING:
    from mlf_sdk.codegen.options import ProjectOptions
    from mlf_sdk.pipeline import (
        build,
        check,
        compare,
        generate,
        inspect_firmware,
        load,
        make_sbom,
        profile,
        run,
    )

__all__ = [
    "MlfError",
    "ProjectOptions",
    "__version__",
    "build",
    "check",
    "compare",
    "generate",
    "inspect_firmware",
    "load",
    "make_sbom",
    "profile",
    "run",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import what is asked for: the pytest plugin is loaded in runs that never touch a board."""
    if name not in __all__:
        raise AttributeError(f"module 'mlf_sdk' has no attribute {name!r}")
    home = "mlf_sdk.codegen.options" if name == "ProjectOptions" else "mlf_sdk.pipeline"
    found = globals()[name] = getattr(import_module(home), name)
    return found
