# SPDX-License-Identifier: Apache-2.0
"""What a device reads and prints: graph and parameter blobs, fault lines."""
