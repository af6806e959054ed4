# SPDX-License-Identifier: Apache-2.0
"""Bare metal and host: compose project files and tools for a board."""
