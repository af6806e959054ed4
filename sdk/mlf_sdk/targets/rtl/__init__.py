# SPDX-License-Identifier: Apache-2.0
"""Boards whose core is simulated from its register transfer level description, cycle by cycle."""
