# SPDX-License-Identifier: Apache-2.0
"""ELF files: objects of an archive, linked images, their notes, machine code and debug information."""
