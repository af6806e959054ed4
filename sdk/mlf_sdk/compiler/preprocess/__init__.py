# SPDX-License-Identifier: Apache-2.0
"""From raw frames and sound to a model's input: in Python, and in C that computes the same, bit for bit."""
