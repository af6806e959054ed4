# SPDX-License-Identifier: Apache-2.0
"""Makes the graphs that tests of the model draw up available here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "frontends"))
