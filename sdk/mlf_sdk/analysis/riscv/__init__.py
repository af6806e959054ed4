# SPDX-License-Identifier: Apache-2.0
"""Machine code of RISC-V cores of 32 bits: control flow, stack frames, calls."""
