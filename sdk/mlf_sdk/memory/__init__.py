# SPDX-License-Identifier: Apache-2.0
"""Pure memory planning: lifetimes, order, offsets, lower bound."""
