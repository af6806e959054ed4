# SPDX-License-Identifier: Apache-2.0
"""Adapters that run programs, all through one process runner."""
