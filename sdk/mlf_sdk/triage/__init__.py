# SPDX-License-Identifier: Apache-2.0
"""Faults that a device reports, explained by its image."""
