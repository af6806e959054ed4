# SPDX-License-Identifier: Apache-2.0
"""Zephyr: applications, west, trees."""
