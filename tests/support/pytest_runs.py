# SPDX-License-Identifier: Apache-2.0
"""Runs of pytest in a process of their own."""

# Options against plugins that such a run has no use for; hypothesis' is a third of what a start costs.
UNUSED = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
