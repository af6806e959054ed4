# SPDX-License-Identifier: Apache-2.0
"""Machine code of images, whatever the architecture: calls, stack frames, call graph; who reads which."""
