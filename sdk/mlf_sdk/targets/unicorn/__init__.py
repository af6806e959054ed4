# SPDX-License-Identifier: Apache-2.0
"""Boards emulated by Unicorn, which Python's package index has, where QEMU is not installed."""
