# SPDX-License-Identifier: Apache-2.0
"""Boards as data."""

DEFAULT_BOARD = "mps2-an386"  # of commands on an archive, unless a board is named
