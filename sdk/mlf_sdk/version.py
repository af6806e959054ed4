# SPDX-License-Identifier: Apache-2.0
"""The SDK's version."""

from __future__ import annotations

__version__ = "0.2.0"
