# SPDX-License-Identifier: Apache-2.0
"""Targets: boards on platforms, and connections to boards."""
