# SPDX-License-Identifier: Apache-2.0
"""Results to terminal tables and JSON."""
