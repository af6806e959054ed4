# SPDX-License-Identifier: Apache-2.0
"""Input formats: one folder each, recognised by content."""
