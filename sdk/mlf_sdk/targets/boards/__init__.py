# SPDX-License-Identifier: Apache-2.0
"""Boards as data."""
