# SPDX-License-Identifier: Apache-2.0
"""What brings an image onto a board: programs and mass storage, as data (``board_templates/runners``)."""
