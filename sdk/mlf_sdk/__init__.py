# SPDX-License-Identifier: Apache-2.0
"""mlf-sdk: from a compiled model archive to firmware that is proven on its target.

import mlf_sdk

report = mlf_sdk.run("digits.tar", board="mps2-an386", inputs="test.npz", expect="test.npz")
print(report.memory.arena_bytes, report.ok)
"""

from mlf_sdk.api import build, check, generate, load, run
from mlf_sdk.errors import MlfError
from mlf_sdk.project.options import ProjectOptions
from mlf_sdk.version import __version__

__all__ = ["MlfError", "ProjectOptions", "__version__", "build", "check", "generate", "load", "run"]
