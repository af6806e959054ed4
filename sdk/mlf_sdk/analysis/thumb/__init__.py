# SPDX-License-Identifier: Apache-2.0
"""Thumb machine code: control flow, stack frames, calls."""
