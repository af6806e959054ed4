# SPDX-License-Identifier: Apache-2.0
"""C sources of an archive: definitions, and memory accesses and allocations of kernels."""
