# SPDX-License-Identifier: Apache-2.0
"""Static analysis of C sources, ELF files and machine code."""
