# SPDX-License-Identifier: Apache-2.0
"""mlf-sdk: from a compiled model archive to firmware that is proven on its target."""

from __future__ import annotations

__version__ = "0.1.0"
