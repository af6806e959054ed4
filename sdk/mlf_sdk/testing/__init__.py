# SPDX-License-Identifier: Apache-2.0
"""Fakes and fault injection for tests without a board."""
