# SPDX-License-Identifier: Apache-2.0
"""Kernels: C text for each operator, written for its shapes and numbers."""
