# SPDX-License-Identifier: Apache-2.0
"""Boards on serial ports."""
