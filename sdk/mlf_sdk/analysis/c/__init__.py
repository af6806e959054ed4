# SPDX-License-Identifier: Apache-2.0
"""C sources of an archive: what they define, and what their kernels touch and allocate."""
