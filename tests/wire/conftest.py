# SPDX-License-Identifier: Apache-2.0
"""Makes the helper modules of this folder importable, whatever pytest's import mode."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
