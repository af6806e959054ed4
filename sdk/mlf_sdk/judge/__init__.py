# SPDX-License-Identifier: Apache-2.0
"""Promises against facts: symbols, outputs, measured high-water marks."""
