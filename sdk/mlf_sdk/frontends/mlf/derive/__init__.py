# SPDX-License-Identifier: Apache-2.0
"""The order of calls of ahead-of-time models whose archive lacks the main function."""

from mlf_sdk.frontends.mlf.derive.wiring import NOTE, derive_wiring

__all__ = ["NOTE", "derive_wiring"]
