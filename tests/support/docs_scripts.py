# SPDX-License-Identifier: Apache-2.0
"""Programs in docs/, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).resolve().parents[2] / "docs"


def docs_script(name: str) -> ModuleType:
    """Module of ``docs/NAME.py``; it is known under another name, so that it stands for no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses of the program look themselves up
    spec.loader.exec_module(module)
    return module
