# SPDX-License-Identifier: Apache-2.0
"""Plan to files: pure rendering, then one writer."""
