# SPDX-License-Identifier: Apache-2.0
"""Sweeps: many requests on an engine, journaled."""
