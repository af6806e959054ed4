# SPDX-License-Identifier: Apache-2.0
"""Makes the builders beside this folder importable from its tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
