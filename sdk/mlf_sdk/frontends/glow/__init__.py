# SPDX-License-Identifier: Apache-2.0
"""Glow's ahead-of-time bundles: object, header and weights, static and dynamic API, 2018 to 2024."""
