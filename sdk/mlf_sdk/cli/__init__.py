# SPDX-License-Identifier: Apache-2.0
"""Arguments to one call to printed result and exit code."""
