# SPDX-License-Identifier: Apache-2.0
"""Witnesses: what a model's file means, told by something that had no hand in compiling it."""
