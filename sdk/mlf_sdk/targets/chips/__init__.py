# SPDX-License-Identifier: Apache-2.0
"""Microcontrollers as data: core, memories, clock, and the names of boards that have them."""
