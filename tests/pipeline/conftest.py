# SPDX-License-Identifier: Apache-2.0
"""Makes the graphs and the runs of images that other tests use available here."""

import sys
from pathlib import Path

for name in ("frontends", "codegen"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / name))
