# SPDX-License-Identifier: Apache-2.0
"""Flash runners: programs and mass storage, as data (``board_templates/runners``)."""
